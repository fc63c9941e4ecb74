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
class StoresNotToInterleave : public IRGraphVisitor {
 public:
  std::set<const Store*> found;

 private:
  using IRGraphVisitor::visit;
  using Names = std::set<std::string>;

  void visit(const Store* op) override {
    ++time_;
    const auto* places = op->index.as<Ramp>();
    const auto stride = places ? as_const_int(places->stride) : std::nullopt;
    if (stride && *stride > 1) {
      if (*stride > machine::kInterleavedStores) found.insert(op);
      std::deque<int64_t>& before = strided_[op->name];
      while (static_cast<int64_t>(before.size()) >= *stride) before.pop_front();
      for (const Expr& e : {op->value, op->predicate})
        for (const std::string& buffer : read_by(e)) {
          const auto stored = stored_.find(buffer);
          if (!before.empty() && stored != stored_.end() && stored->second > before.front())
            found.insert(op);
        }
      before.push_back(time_);
    }
    stored_[op->name] = time_;
  }
  void visit(const LetStmt* op) override {
    lets_[op->name] = read_by(op->value);
    include(op->body);
  }

  /// The buffers that an expression reads, by names that it uses as well.
  Names read_by(const Expr& e) const {
    Names names;
    ir::visit_graph(
        e,
        [&](const Load* op, ir::Visitor& self) {
          names.insert(op->name);
          self.inside(op);
        },
        [&](const Variable* op, ir::Visitor&) {
          const auto let = lets_.find(op->name);
          if (let != lets_.end()) names.insert(let->second.begin(), let->second.end());
        });
    return names;
  }

  int64_t time_ = 0;
  std::map<std::string, int64_t> stored_;               ///< when last
  std::map<std::string, std::deque<int64_t>> strided_;  ///< the last ones, fewer than the stride
  std::map<std::string, Names> lets_;
};

/// Whether lanes so far apart are a slice with a negative stride, for which Halide's simplifier
/// finds no vector that it lies in (Halide 21, Simplify_Shuffle: first and last lane are taken for
/// the least and the largest).
bool is_descending(const Shuffle* op, size_t stride) {
  const std::vector<int>& lanes = op->indices;
  for (size_t k = 0; k < stride && k + stride < lanes.size(); ++k)
    if (lanes[k + stride] < lanes[k]) return true;
  return false;
}

/// Puts names in the place of numbers that are chosen lazily and broadcast, of short and of
/// descending shuffles, of horizontal reductions whose scalar results Halide would deinterleave
/// with their operands, and of the places of stores that are not to be interleaved.
class HideFromInterleavings : public IRGraphMutator {
 public:
  explicit HideFromInterleavings(std::set<const Store*> apart) : apart_(std::move(apart)) {}
  std::map<std::string, Expr> hidden;

 private:
  using IRGraphMutator::visit;
  Expr visit(const Broadcast* op) override {
    if (!op->value.type().is_scalar() || !ir::has_lazy_choice(op->value))
      return IRGraphMutator::visit(op);
    return Broadcast::make(hide(op->value), op->lanes);
  }
  Expr visit(const Shuffle* op) override {
    if (op->is_interleave()) return IRGraphMutator::visit(op);
    // Every other or every third lane of more lanes than these are several.
    const bool single = op->type.lanes() <= 3;
    return single || is_descending(op, 2) || is_descending(op, 3) ? hide(op)
                                                                  : IRGraphMutator::visit(op);
  }
  Stmt visit(const Store* op) override {
    const Stmt store = IRGraphMutator::visit(op);
    const auto* same = store.as<Store>();
    if (!same || !apart_.count(op)) return store;
    return Store::make(same->name, same->value, hide(same->index), same->param, same->predicate,
                       same->alignment);
  }
  Expr visit(const VectorReduce* op) override {
    return is_deinterleaved(op->value) ? hide(op) : IRGraphMutator::visit(op);
  }
  Expr visit(const Let* op) override {
    const Expr value = mutate(op->value);
    lets_.emplace_back(op->name, op->value);
    const Expr body = mutate(op->body);
    lets_.pop_back();
    return Let::make(op->name, value, body);
  }

  /// With the lets around it that it needs: those of the expression are replaced by their values.
  Expr hide(const Expr& e) {
    Expr whole = e;
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
      if (expr_uses_var(whole, let->first)) whole = Let::make(let->first, let->second, whole);
    const std::string name = concat("tc.kept.", hidden.size());
    hidden[name] = whole;
    return ir::make_variable(name, e.type());
  }

  std::vector<std::pair<std::string, Expr>> lets_;
  const std::set<const Store*> apart_;
};

}  // namespace

Stmt separate_lanes(const Stmt& stmt) {
  StoresNotToInterleave apart;
  stmt.accept(&apart);
  HideFromInterleavings hide(std::move(apart.found));
  const Stmt rewritten = rewrite_interleavings(hide.mutate(stmt));
  if (hide.hidden.empty()) return rewritten;
  return ir::graph_substitute(hide.hidden, rewritten);
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
