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

namespace tc::codegen {
namespace {

/// Vectors of stores that are joined at most, about the registers that there are: to shuffle 64 of
/// them takes LLVM half a minute.
const int kMostJoined = 16;

/// Whether Halide would take the lanes of what `e` is part of apart: for remainders and quotients
/// of neighbours, those in subscripts aside, which are of their loads.
bool is_taken_apart(const Expr& e) {
  bool found = false;
  auto is_found = [&](const auto* op, ir::Visitor& self) {
    found = found || (op->a.template as<Ramp>() && op->type.is_vector());
    self.inside(op);
  };
  ir::visit(
      e, [&](const Mod* op, ir::Visitor& self) { is_found(op, self); },
      [&](const Div* op, ir::Visitor& self) { is_found(op, self); },
      [](const Load*, ir::Visitor&) {});
  return found;
}

/// Stores to every n-th element that Halide must not join with those before: it joins n of them
/// where the first one stands, and does not look whether what the others read is stored in between.
class StoresThatStay : public IRGraphVisitor {
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
      if (*stride > kMostJoined) found.insert(op);
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
    IRGraphVisitor::visit(op);
  }
  void visit(const LetStmt* op) override {
    lets_[op->name] = read_by(op->value);
    IRGraphVisitor::visit(op);
  }

  /// The buffers that an expression reads, by names that it uses as well.
  Names read_by(const Expr& e) const {
    Names names;
    ir::visit(
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

/// Puts names in the place of numbers that are chosen lazily and broadcast, of short shuffles, and
/// of sums of lanes that Halide would take apart: it takes apart the sums.
class HideFromInterleavings : public IRGraphMutator {
 public:
  explicit HideFromInterleavings(std::set<const Store*> staying) : staying_(std::move(staying)) {}
  std::map<std::string, Expr> hidden;

 private:
  using IRGraphMutator::visit;
  Expr visit(const Broadcast* op) override {
    if (!op->value.type().is_scalar() || !ir::has_lazy_choice(op->value))
      return IRGraphMutator::visit(op);
    return Broadcast::make(hide(op->value), op->lanes);
  }
  Expr visit(const Shuffle* op) override {
    // Every other or every third lane of more lanes than these are several.
    return op->type.lanes() > 3 || op->is_interleave() ? IRGraphMutator::visit(op) : hide(op);
  }
  Stmt visit(const Store* op) override {
    const Stmt store = IRGraphMutator::visit(op);
    const auto* same = store.as<Store>();
    if (!same || !staying_.count(op)) return store;
    return Store::make(same->name, same->value, hide(same->index), same->param, same->predicate,
                       same->alignment);
  }
  Expr visit(const VectorReduce* op) override {
    return is_taken_apart(op->value) ? hide(op) : IRGraphMutator::visit(op);
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
  const std::set<const Store*> staying_;
};

}  // namespace

Stmt separate_lanes(const Stmt& stmt) {
  StoresThatStay staying;
  stmt.accept(&staying);
  HideFromInterleavings hide(std::move(staying.found));
  const Stmt rewritten = rewrite_interleavings(hide.mutate(stmt));
  if (hide.hidden.empty()) return rewritten;
  return ir::mutate_graph(rewritten, [&](const Variable* op, ir::Mutator&) {
    const auto found = hide.hidden.find(op->name);
    return found == hide.hidden.end() ? Expr(op) : found->second;
  });
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
