#include "ir/expressions/simplify.h"

#include <map>
#include <string>

namespace tc::ir {
namespace {

using Halide::Internal::Call;
using Halide::Internal::IRMutator;
using Halide::Internal::IRVisitor;

struct FindFloat : IRVisitor {
  bool found = false;
  using IRVisitor::visit;
  void visit(const Halide::Internal::FloatImm* op) override { found = true; }
  void visit(const Halide::Internal::Variable* op) override { found |= op->type.is_float(); }
  void visit(const Halide::Internal::Cast* op) override {
    found |= op->type.is_float();
    IRVisitor::visit(op);
  }
  void visit(const Call* op) override {
    found |= op->type.is_float();
    IRVisitor::visit(op);
  }
};

class SimplifyIntegers : public IRMutator {
 public:
  explicit SimplifyIntegers(const Bounds& bounds) : bounds_(bounds) {}

  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    FindFloat finder;
    e.accept(&finder);
    return finder.found ? IRMutator::mutate(e) : Halide::Internal::simplify(e, true, bounds_);
  }

 private:
  const Bounds& bounds_;
};

class DecideConditions : public IRMutator {
 private:
  using IRMutator::visit;

  Expr visit(const Halide::Internal::Select* op) override {
    if (Halide::Internal::is_const_one(op->condition)) return mutate(op->true_value);
    if (Halide::Internal::is_const_zero(op->condition)) return mutate(op->false_value);
    return IRMutator::visit(op);
  }

  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else) || op->args.size() < 3) return IRMutator::visit(op);
    Expr condition = mutate(op->args[0]);
    for (const auto& [known, value] : known_) {
      if (equal(known, condition)) condition = Halide::Internal::make_bool(value);
    }
    if (Halide::Internal::is_const_one(condition)) return mutate(op->args[1]);
    if (Halide::Internal::is_const_zero(condition)) return mutate(op->args[2]);
    size_t count = known_.size();
    learn(condition, true);
    Expr yes = mutate(op->args[1]);
    known_.resize(count);
    learn(condition, false);
    Expr no = mutate(op->args[2]);
    known_.resize(count);
    return Call::make(op->type, Call::if_then_else, {condition, yes, no}, op->call_type);
  }

  void learn(const Expr& condition, bool value) {
    known_.emplace_back(condition, value);
    if (const auto* op = condition.as<Halide::Internal::Not>()) learn(op->a, !value);
    if (const auto* op = condition.as<Halide::Internal::And>(); op && value) {
      learn(op->a, true);
      learn(op->b, true);
    }
    if (const auto* op = condition.as<Halide::Internal::Or>(); op && !value) {
      learn(op->a, false);
      learn(op->b, false);
    }
    // Lazy "and" and "or".
    const Call* op = condition.as<Call>();
    if (!op || !op->is_intrinsic(Call::if_then_else)) return;
    if (value && Halide::Internal::is_const_zero(op->args[2])) {
      learn(op->args[0], true);
      learn(op->args[1], true);
    }
    if (!value && Halide::Internal::is_const_one(op->args[1])) {
      learn(op->args[0], false);
      learn(op->args[2], false);
    }
  }

  std::vector<std::pair<Expr, bool>> known_;
};

/// Whether every read in an expression stays inside its tensor for all values in bounds.
class ReadsInside : public IRVisitor {
 public:
  ReadsInside(const Program& program, const Bounds& bounds) : program_(program), bounds_(bounds) {}
  bool inside = true;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    IRVisitor::visit(op);
    inside = inside && stays_inside(op, program_, bounds_);
  }
  const Program& program_;
  const Bounds& bounds_;
};

class EvaluateEagerly : public IRMutator {
 public:
  EvaluateEagerly(const Program& program, const Bounds& bounds)
      : program_(program), bounds_(bounds) {}

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else)) return IRMutator::visit(op);
    ReadsInside check(program_, bounds_);
    op->args[1].accept(&check);
    if (op->args.size() > 2) op->args[2].accept(&check);
    if (!check.inside || op->args.size() < 3) return IRMutator::visit(op);
    return Halide::Internal::Select::make(mutate(op->args[0]), mutate(op->args[1]),
                                          mutate(op->args[2]));
  }
  const Program& program_;
  const Bounds& bounds_;
};

/// factor * e, taken apart into multiples of variables, a constant and what is left.
struct Sum {
  std::map<std::string, int64_t> multiples;
  int64_t constant = 0;
  Expr rest;
  bool exact = true;  ///< nothing overflowed

  void accumulate(int64_t* to, int64_t value, int64_t factor) {
    exact = exact && !__builtin_mul_overflow(value, factor, &value) &&
            !__builtin_add_overflow(*to, value, to);
  }

  void add(const Expr& e, int64_t factor) {
    using namespace Halide::Internal;
    if (auto value = as_const_int(e)) {
      accumulate(&constant, *value, factor);
    } else if (const auto* variable = e.as<Variable>()) {
      accumulate(&multiples[variable->name], 1, factor);
    } else if (const auto* sum = e.as<Add>()) {
      add(sum->a, factor);
      add(sum->b, factor);
    } else if (const auto* difference = e.as<Sub>()) {
      add(difference->a, factor);
      add(difference->b, -factor);
    } else if (const auto* product = e.as<Mul>()) {
      auto a = as_const_int(product->a), b = as_const_int(product->b);
      int64_t scaled = 0;
      if (a || b) accumulate(&scaled, a ? *a : *b, factor);
      if (a || b) return add(a ? product->b : product->a, scaled);
      join(e, factor);
    } else {
      join(e, factor);
    }
  }

  void join(const Expr& e, int64_t factor) {
    Expr term = factor == 1 ? e : e * Halide::Internal::make_const(e.type(), factor);
    rest = rest.defined() ? rest + term : term;
  }
};

}  // namespace

bool stays_inside(const Call* read, const Program& program, const Bounds& bounds) {
  auto tensor = program.tensors.find(read_name(read));
  if (tensor == program.tensors.end()) return true;
  for (size_t d = 0; d < read->args.size(); ++d) {
    Expr inside = read->args[d] >= 0 && read->args[d] < tensor->second.sizes[d];
    inside = Halide::Internal::and_condition_over_domain(inside, bounds);
    if (!Halide::Internal::is_const_one(Halide::Internal::simplify(inside, true, bounds)))
      return false;
  }
  return true;
}

Expr simplify_integers(const Expr& e, const Bounds& bounds) {
  return SimplifyIntegers(bounds).mutate(e);
}

void substitute_indices(Statement& statement, const std::map<std::string, Expr>& values) {
  const auto put = [&](Expr& e) {
    if (e.defined()) e = simplify_integers(Halide::Internal::substitute(values, e), {});
  };
  for (Expr& subscript : statement.subscripts) put(subscript);
  put(statement.value);
  put(statement.guard);
}

Expr decide_repeated_conditions(const Expr& e) { return DecideConditions().mutate(e); }

Expr evaluate_eagerly(const Expr& e, const Program& program, const Bounds& bounds) {
  return EvaluateEagerly(program, bounds).mutate(e);
}

Expr collect_terms(const Expr& e) {
  Sum sum;
  sum.add(e, 1);
  auto fits = [](int64_t value) { return static_cast<int32_t>(value) == value; };
  for (const auto& [name, factor] : sum.multiples)
    if (!fits(factor)) return e;
  if (!sum.exact || !fits(sum.constant)) return e;
  for (const auto& [name, factor] : sum.multiples)
    if (factor != 0) sum.join(make_variable(name, e.type()), factor);
  Expr constant = Halide::Internal::make_const(e.type(), sum.constant);
  if (!sum.rest.defined()) return constant;
  return sum.constant == 0 ? sum.rest : sum.rest + constant;
}

}  // namespace tc::ir
