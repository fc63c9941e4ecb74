#include "codegen/vector_trigonometry.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "codegen/float_bits.h"
#include "codegen/named.h"
#include "codegen/strict_math.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using namespace strict_math;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Up to here three numbers for pi / 2 leave all digits of the rest (W. Cody and W. Waite, "Software
// Manual for the Elementary Functions", 1980, chapter 8).
constexpr double kLargest = 1e5;
constexpr double kQuarterTurn[] = {1.57079637, -4.37113883e-08, -1.71512451e-15};
constexpr double kQuarterTurnOfDouble[] = {1.5707963267948966, 6.123233995736766e-17,
                                           -1.4973849048591698e-33};

bool is_double(const Expr& x) { return x.type().bits() == 64; }

/// x = n * pi / 2 + r with a whole n and |r| <= pi / 4. `use` gets r and n.
Expr reduce(const Expr& x, const std::function<Expr(const Expr& r, const Expr& n)>& use) {
  // Adding this leaves the nearest whole number in the last bits of the sum.
  Expr magic = number(x, std::ldexp(1.5, format_of(x).fraction_bits));
  Expr quarters = multiply(x, number(x, 0.636619772367581343));
  return named(add(quarters, magic), [&](const Expr& shifted) {
    return named(subtract(shifted, magic), [&](const Expr& n) {
      Expr rest = x;
      for (double part : is_double(x) ? kQuarterTurnOfDouble : kQuarterTurn)
        rest = subtract(rest, multiply(n, number(n, part)));
      Expr whole = reinterpret(Halide::UInt(x.type().bits(), x.type().lanes()), shifted);
      return named(rest, [&](const Expr& r) {
        return named(whole, [&](const Expr& quadrant) { return use(r, quadrant); });
      });
    });
  });
}

// For |r| <= pi / 4, fitted for the smallest relative error: 2^-28 and 2^-34, of double 2^-55 and
// 2^-60.
Expr sine_near_zero(const Expr& r) {
  return named(multiply(r, r), [&](const Expr& z) {
    Expr p = is_double(r) ? polynomial(z, {1.5918073162923074e-10, -2.5051131065736049e-08,
                                           2.7557316098812687e-06, -0.00019841269836751364,
                                           0.0083333333333309445, -0.16666666666666666})
                          : polynomial(z, {-0.00019515153, 0.00833215937, -0.166666552});
    return add(multiply(multiply(r, z), p), r);
  });
}
Expr cosine_near_zero(const Expr& r) {
  Expr z = multiply(r, r);
  if (is_double(r))
    return polynomial(
        z, {-1.1367957727072798e-11, 2.0875886043616835e-09, -2.7557315561959828e-07,
            2.4801587293680839e-05, -0.0013888888888880758, 0.041666666666666637, -0.5, 1});
  return polynomial(z, {2.43833983e-05, -0.00138866797, 0.0416666195, -0.5, 1});
}

Expr is_odd(const Expr& n) { return (n & 1) != 0; }

/// Minus x where bit 1 of n is set.
Expr with_sign(const Expr& x, const Expr& n) {
  Expr sign = (n & 2) << (x.type().bits() - 2);
  return reinterpret(x.type(), reinterpret(n.type(), x) ^ sign);
}

Expr sine(const Expr& x) {
  Expr result = reduce(x, [](const Expr& r, const Expr& n) {
    return with_sign(select(is_odd(n), cosine_near_zero(r), sine_near_zero(r)), n);
  });
  // Zero keeps its sign.
  return select(equal(x, number(x, 0)), x, result);
}

Expr cosine(const Expr& x) {
  return reduce(x, [](const Expr& r, const Expr& n) {
    return with_sign(select(is_odd(n), sine_near_zero(r), cosine_near_zero(r)), n + 1);
  });
}

using Function = Expr (*)(const Expr&);

Function function_of(const Call* op) {
  if (op->call_type != Call::PureExtern || op->type.is_vector()) return nullptr;
  if (op->name == "sin_f32" || op->name == "sin_f64") return sine;
  if (op->name == "cos_f32" || op->name == "cos_f64") return cosine;
  return nullptr;
}

/// The calls of a value whose arguments can be computed before it.
class FindCalls : public IRVisitor {
 public:
  std::vector<const Call*> calls;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    size_t before = calls.size();
    op->is_intrinsic(Call::if_then_else) ? under_condition(op) : IRVisitor::visit(op);
    if (!function_of(op) || calls.size() > before) return;
    const Expr& x = op->args[0];
    // What a condition keeps from being read must not be read all the same.
    if ((conditions_ == 0 || !ir::has_load(x)) && !expr_uses_vars(x, bound_)) calls.push_back(op);
  }
  void visit(const Select* op) override { under_condition(op); }
  template <class Node>
  void under_condition(const Node* op) {
    ++conditions_;
    IRVisitor::visit(op);
    --conditions_;
  }
  void visit(const Let* op) override {
    op->value.accept(this);
    bound_.push(op->name);
    op->body.accept(this);
    bound_.pop(op->name);
  }
  Scope<> bound_;
  int conditions_ = 0;
};

/// Calls of known arguments, by their names, as C's or ours.
class ReplaceCalls : public IRMutator {
 public:
  ReplaceCalls(const std::vector<const Call*>& calls, const std::vector<Expr>& names, bool fast)
      : calls_(calls), names_(names), fast_(fast) {}

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!equal(Expr(op), Expr(calls_[i]))) continue;
      if (fast_) return function_of(op)(names_[i]);
      return Call::make(op->type, op->name, {names_[i]}, op->call_type);
    }
    return IRMutator::visit(op);
  }
  static bool equal(const Expr& a, const Expr& b) { return Halide::Internal::equal(a, b); }

  const std::vector<const Call*>& calls_;
  const std::vector<Expr>& names_;
  const bool fast_;
};

class VectorizeTrigonometry : public IRMutator {
 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    const bool outer = vectors_;
    vectors_ = vectors_ || op->for_type == ForType::Vectorized;
    Stmt result = IRMutator::visit(op);
    vectors_ = outer;
    return result;
  }
  Stmt visit(const Store* op) override {
    FindCalls find;
    if (vectors_) op->value.accept(&find);
    if (find.calls.empty()) return op;
    std::vector<Expr> names;
    Expr usual;
    for (const Call* call : find.calls) {
      const Expr& x =
          names.emplace_back(Variable::make(call->args[0].type(), unique_name("angle")));
      Expr small = less(Halide::abs(x), number(x, kLargest));
      usual = usual.defined() ? usual && small : small;
    }
    Stmt fast = ReplaceCalls(find.calls, names, true).mutate(Stmt(op));
    Stmt slow = ReplaceCalls(find.calls, names, false).mutate(Stmt(op));
    Stmt result = IfThenElse::make(Halide::likely(usual), fast, slow);
    for (size_t i = names.size(); i-- > 0;)
      result = LetStmt::make(names[i].as<Variable>()->name, find.calls[i]->args[0], result);
    return result;
  }

  bool vectors_ = false;
};

}  // namespace

Stmt vectorize_trigonometry(const Stmt& stmt) { return VectorizeTrigonometry().mutate(stmt); }

}  // namespace tc::codegen
