#include "codegen/vectors/joined_lanes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// Whether Halide's Interleaver would deinterleave what `e` is part of: for remainders and
/// quotients of ramps, subscripts aside, for which it deinterleaves their loads alone.
bool is_deinterleaved(const Expr& e) {
  bool found = false;
  auto is_found = [&](const auto* op, ir::Visitor& self) {
    found = found || (op->a.template as<Ramp>() && op->type.is_vector());
    self.inside(op);
  };
  ir::visit_graph(
      e, [&](const Mod* op, ir::Visitor& self) { is_found(op, self); },
      [&](const Div* op, ir::Visitor& self) { is_found(op, self); },
      [](const Load*, ir::Visitor&) {});
  return found;
}

/// Strided stores that Halide must not interleave with those before: it makes one store of as many
/// as the stride says where the first one stands, although what the others load may be stored in
/// between.
std::set<const Store*> stores_not_to_interleave(const Stmt& stmt) {
  using Names = std::set<std::string>;
  std::set<const Store*> found;
  int64_t time = 0;
  std::map<std::string, int64_t> stored;               // when last
  std::map<std::string, std::deque<int64_t>> strided;  // the last ones, fewer than the stride
  std::map<std::string, Names> lets;
  // The buffers that an expression reads, by names that it uses as well.
  auto read_by = [&](const Expr& e) {
    Names names;
    ir::visit_graph(
        e,
        [&](const Load* op, ir::Visitor& self) {
          names.insert(op->name);
          self.inside(op);
        },
        [&](const Variable* op, ir::Visitor&) {
          const auto let = lets.find(op->name);
          if (let != lets.end()) names.insert(let->second.begin(), let->second.end());
        });
    return names;
  };
  ir::visit_graph(
      stmt,
      [&](const Store* op, ir::Visitor&) {
        ++time;
        const auto* places = op->index.as<Ramp>();
        const auto stride = places ? as_const_int(places->stride) : std::nullopt;
        if (stride && *stride > 1) {
          if (*stride > machine::kInterleavedStores) found.insert(op);
          std::deque<int64_t>& before = strided[op->name];
          while (static_cast<int64_t>(before.size()) >= *stride) before.pop_front();
          for (const Expr& e : {op->value, op->predicate})
            for (const std::string& buffer : read_by(e)) {
              const auto last = stored.find(buffer);
              if (!before.empty() && last != stored.end() && last->second > before.front())
                found.insert(op);
            }
          before.push_back(time);
        }
        stored[op->name] = time;
      },
      [&](const LetStmt* op, ir::Visitor& self) {
        lets[op->name] = read_by(op->value);
        self.include(op->body);
      });
  return found;
}

/// Whether lanes so far apart are a slice with a negative stride, for which Halide's simplifier
/// finds no vector that it lies in (Halide 21, Simplify_Shuffle: first and last lane are taken for
/// the least and the largest).
bool is_descending(const Shuffle* op, size_t stride) {
  const std::vector<int>& lanes = op->indices;
  for (size_t k = 0; k < stride && k + stride < lanes.size(); ++k)
    if (lanes[k + stride] < lanes[k]) return true;
  return false;
}

}  // namespace

Stmt separate_lanes(const Stmt& stmt) {
  const std::set<const Store*> apart = stores_not_to_interleave(stmt);
  std::map<std::string, Expr> hidden;
  std::vector<std::pair<std::string, Expr>> lets;  // around what is visited
  // With the lets around it that it needs: those of the expression are replaced by their values.
  auto hide = [&](const Expr& e) {
    Expr whole = e;
    for (auto let = lets.rbegin(); let != lets.rend(); ++let)
      if (expr_uses_var(whole, let->first)) whole = Let::make(let->first, let->second, whole);
    const std::string name = concat("tc.kept.", hidden.size());
    hidden[name] = whole;
    return ir::make_variable(name, e.type());
  };
  // Puts names in the place of numbers that are chosen lazily and broadcast, of short and of
  // descending shuffles, of horizontal reductions whose scalar results Halide would deinterleave
  // with their operands, and of the places of stores that are not to be interleaved.
  const Stmt named = ir::mutate_graph(
      stmt,
      [&](const Broadcast* op, ir::Mutator& self) -> Expr {
        if (!op->value.type().is_scalar() || !ir::has_lazy_choice(op->value))
          return self.inside(op);
        return Broadcast::make(hide(op->value), op->lanes);
      },
      [&](const Shuffle* op, ir::Mutator& self) -> Expr {
        if (op->is_interleave()) return self.inside(op);
        // Every other or every third lane of more lanes than these are several.
        const bool single = op->type.lanes() <= 3;
        return single || is_descending(op, 2) || is_descending(op, 3) ? hide(op) : self.inside(op);
      },
      [&](const VectorReduce* op, ir::Mutator& self) -> Expr {
        return is_deinterleaved(op->value) ? hide(op) : self.inside(op);
      },
      [&](const Store* op, ir::Mutator& self) -> Stmt {
        const Stmt store = self.inside(op);
        const auto* same = store.as<Store>();
        if (!same || !apart.count(op)) return store;
        return Store::make(same->name, same->value, hide(same->index), same->param, same->predicate,
                           same->alignment);
      },
      [&](const Let* op, ir::Mutator& self) -> Expr {
        const Expr value = self.mutate(op->value);
        lets.emplace_back(op->name, op->value);
        const Expr body = self.mutate(op->body);
        lets.pop_back();
        return Let::make(op->name, value, body);
      });
  const Stmt rewritten = rewrite_interleavings(named);
  return hidden.empty() ? rewritten : ir::graph_substitute(hidden, rewritten);
}

Stmt join_lanes_as_bits(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Shuffle* op, ir::Mutator& self) {
    Expr whole = self.inside(op);
    op = whole.as<Shuffle>();
    bool scalars = op && op->is_concat() && op->vectors.size() > 1 &&
                   std::all_of(op->vectors.begin(), op->vectors.end(),
                               [](const Expr& e) { return e.type().is_scalar(); });
    Halide::Type type = whole.type();
    if (!scalars || type.is_handle() || (type.is_uint() && !type.is_bool())) return whole;
    std::vector<Expr> bits;
    for (const Expr& e : op->vectors)
      bits.push_back(type.is_bool() ? Halide::cast<uint8_t>(e)
                                    : Halide::reinterpret(Halide::UInt(type.bits()), e));
    Expr joined = Shuffle::make_concat(bits);
    return type.is_bool() ? joined != make_zero(joined.type()) : Halide::reinterpret(type, joined);
  });
}

}  // namespace tc::codegen
