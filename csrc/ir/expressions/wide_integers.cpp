#include "ir/expressions/wide_integers.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

const Type kInt = Halide::Int(32), kWide = Halide::Int(64);

/// Operands of 32 bits become such of 64; everything of another type keeps its type.
class Widen : public IRMutator {
 public:
  explicit Widen(bool retyped) : retyped_(retyped) {}

 private:
  using IRMutator::visit;

  Expr visit(const IntImm* op) override {
    return op->type == kInt ? make_const(kWide, op->value) : Expr(op);
  }
  Expr visit(const Variable* op) override {
    if (op->type != kInt) return op;
    return retyped_ ? Variable::make(kWide, op->name) : Cast::make(kWide, op);
  }
  Expr visit(const Cast* op) override {
    const bool exact = op->value.type() == kInt || op->value.type() == kWide;
    Expr value = mutate(op->value);
    if (op->type != kInt && op->type != kWide) return Cast::make(op->type, value);
    if (exact) return value;
    return Halide::cast(kWide, Halide::cast(op->type, value));
  }
  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else))
      return op->type == kInt ? Cast::make(kWide, op) : Expr(op);
    std::vector<Expr> args;
    for (const Expr& argument : op->args) args.push_back(mutate(argument));
    return Call::make(op->type == kInt ? kWide : op->type, op->name, args, op->call_type);
  }

  bool retyped_;
};

class Narrow : public IRMutator {
 public:
  bool fits = true;

 private:
  using IRMutator::visit;

  Expr visit(const IntImm* op) override {
    if (op->type != kWide) return op;
    fits = fits && kInt.can_represent(op->value);
    return fits ? make_const(kInt, op->value) : make_zero(kInt);
  }
  Expr visit(const Variable* op) override {
    return op->type == kWide ? Variable::make(kInt, op->name) : Expr(op);
  }
  Expr visit(const Cast* op) override {
    Expr value = mutate(op->value);
    return op->type == kWide ? Halide::cast(kInt, value) : Cast::make(op->type, value);
  }
  Expr visit(const Call* op) override {
    if (op->type != kWide) return IRMutator::visit(op);
    std::vector<Expr> args;
    for (const Expr& argument : op->args) args.push_back(mutate(argument));
    return Call::make(kInt, op->name, args, op->call_type);
  }
};

}  // namespace

Expr widen(const Expr& e, bool retyped) { return Widen(retyped).mutate(e); }

std::optional<Expr> narrow(const Expr& e) {
  Narrow narrow;
  Expr result = narrow.mutate(e);
  if (!narrow.fits) return std::nullopt;
  return result;
}

Expr simplify_wide(const Expr& e, const Bounds& bounds) {
  std::optional<Expr> result = narrow(simplify(widen(e, /*retyped=*/true), true, bounds));
  return result ? *result : make_signed_integer_overflow(kInt);
}

bool overflows(const Expr& e) {
  struct Find : IRVisitor {
    bool found = false;
    using IRVisitor::visit;
    void visit(const Call* op) override {
      found = found || op->is_intrinsic(Call::signed_integer_overflow);
      IRVisitor::visit(op);
    }
  } find;
  if (e.defined()) e.accept(&find);
  return find.found;
}

}  // namespace tc::ir
