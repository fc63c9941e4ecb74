#include "codegen/math/strict_floats.h"

#include <cmath>
#include <limits>
#include <optional>

#include "codegen/math/named.h"
#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

class MakeStrict : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Add* op) override { return binary(op, Call::strict_add); }
  Expr visit(const Sub* op) override { return binary(op, Call::strict_sub); }
  Expr visit(const Mul* op) override { return binary(op, Call::strict_mul); }
  Expr visit(const Div* op) override {
    // Halide takes a division by a constant 0 for a mistake. A product with infinity is the same.
    const auto* integer = op->b.as<Cast>();
    auto divisor = integer && is_const_zero(integer->value) ? 0.0 : as_const_float(op->b);
    if (op->type.is_float() && divisor && *divisor == 0)
      return mutate(
          op->a *
          make_const(op->type, std::copysign(std::numeric_limits<double>::infinity(), *divisor)));
    return binary(op, Call::strict_div);
  }
  Expr visit(const Min* op) override { return binary(op, Call::strict_min); }
  Expr visit(const Max* op) override { return binary(op, Call::strict_max); }
  Expr visit(const LT* op) override { return binary(op, Call::strict_lt); }
  Expr visit(const LE* op) override {
    if (!op->a.type().is_float()) return IRMutator::visit(op);
    // An operand that has such comparisons in it would double with each of them.
    const int before = doubled_;
    Expr a = mutate(op->a);
    const bool name_a = doubled_ > before;
    const int between = doubled_;
    Expr b = mutate(op->b);
    const bool name_b = doubled_ > between;
    ++doubled_;
    Names names;
    if (name_a) a = names(a);
    if (name_b) b = names(b);
    // Halide makes !(b < a) of vectors, which is true for NaN; LLVM joins these two again.
    return names.around(strict(op->type, Call::strict_lt, a, b) ||
                        strict(op->type, Call::strict_eq, a, b));
  }
  Expr visit(const EQ* op) override { return binary(op, Call::strict_eq); }
  Expr visit(const GT* op) override { return other(op, op->b < op->a); }
  Expr visit(const GE* op) override { return other(op, op->b <= op->a); }
  Expr visit(const NE* op) override { return other(op, !EQ::make(op->a, op->b)); }

  template <class Node>
  Expr binary(const Node* op, Call::IntrinsicOp intrinsic) {
    if (!op->a.type().is_float()) return IRMutator::visit(op);
    return strict(op->type, intrinsic, mutate(op->a), mutate(op->b));
  }
  template <class Node>
  Expr other(const Node* op, const Expr& same) {
    return op->a.type().is_float() ? mutate(same) : IRMutator::visit(op);
  }
  int doubled_ = 0;  ///< comparisons so far of which the operands stand twice
};

const Call* as_product(const Expr& e) {
  const Call* call = e.as<Call>();
  return call && call->is_intrinsic(Call::strict_mul) ? call : nullptr;
}

Expr negative(const Expr& e) {
  return strict(e.type(), Call::strict_mul, e, make_const(e.type(), -1));
}

/// LLVM's intrinsic by its name for one element; vectors of calls become one instruction again.
Expr fma(const Expr& a, const Expr& b, const Expr& c) {
  return Call::make(a.type(), a.type().bits() == 64 ? "llvm.fma.f64" : "llvm.fma.f32", {a, b, c},
                    Call::PureExtern);
}

}  // namespace

Expr strict(Type type, Call::IntrinsicOp op, const Expr& a, const Expr& b) {
  return Call::make(type, op, {a, b}, Call::PureIntrinsic);
}

Stmt make_floats_strict(const Stmt& stmt) { return MakeStrict().mutate(stmt); }

Stmt make_floats_plain(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Call* op, ir::Mutator& self) {
    const Expr call = self.inside(op);
    return op->is_strict_float_intrinsic() ? unstrictify_float(call.as<Call>()) : call;
  });
}

Stmt replace_divisions_by_zero(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Call* op, ir::Mutator& self) {
    auto divisor = op->is_intrinsic(Call::strict_div) ? as_const_float(op->args[1]) : std::nullopt;
    if (!divisor || *divisor != 0) return self.inside(op);
    return strict(
        op->type, Call::strict_mul, self.mutate(op->args[0]),
        make_const(op->type, std::copysign(std::numeric_limits<double>::infinity(), *divisor)));
  });
}

Stmt contract_floats(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Call* op, ir::Mutator& self) {
    bool sum = op->is_intrinsic(Call::strict_add), difference = op->is_intrinsic(Call::strict_sub);
    // Narrower types are rounded after every operation.
    if ((!sum && !difference) || op->type.bits() < 32) return self.inside(op);
    Expr a = self.mutate(op->args[0]), b = self.mutate(op->args[1]);
    if (const Call* product = as_product(a))
      return fma(product->args[0], product->args[1], sum ? b : negative(b));
    if (const Call* product = as_product(b))
      return fma(sum ? product->args[0] : negative(product->args[0]), product->args[1], a);
    if (const auto term = sum && a.as<Load>() && b.as<Select>() ? ir::find_choice(b) : std::nullopt)
      if (const Call* product = as_product(term->yes); product && is_const_zero(term->no))
        return Select::make(term->condition, fma(product->args[0], product->args[1], a), a);
    return Call::make(op->type, op->name, {a, b}, op->call_type);
  });
}

}  // namespace tc::codegen
