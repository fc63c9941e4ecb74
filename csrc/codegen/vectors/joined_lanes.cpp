#include "codegen/vectors/joined_lanes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

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

/// Puts names in the place of numbers that are chosen lazily and broadcast, of short shuffles, and
/// of sums of lanes that Halide would take apart: it takes apart the sums.
class HideFromInterleavings : public IRGraphMutator {
 public:
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
};

}  // namespace

Stmt separate_lanes(const Stmt& stmt) {
  HideFromInterleavings hide;
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
