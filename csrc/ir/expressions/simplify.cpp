#include "ir/expressions/simplify.h"

#include <map>
#include <string>

#include "base/error.h"
#include "ir/expressions/walk.h"
#include "ir/visit.h"

namespace tc::ir {

namespace {

bool has_float(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& part) {
    found = found || part.type().is_float();
    return !found;
  });
  return found;
}

bool compares_floats(const Expr& e) {
  auto floats = [](const auto* op) { return op && op->a.type().is_float(); };
  return floats(e.as<EQ>()) || floats(e.as<NE>()) || floats(e.as<LT>()) || floats(e.as<LE>()) ||
         floats(e.as<GT>()) || floats(e.as<GE>());
}

/// Names in place of floats and of what compares them; every place has its own.
Expr hide_floats(const Expr& e, std::map<std::string, Expr>& hidden) {
  return rewrite(e, [&](const Expr& part) {
    if (!part.type().is_float() && !compares_floats(part)) return Expr();
    const std::string name = concat("float ", hidden.size());  // which no index can have
    hidden[name] = part;
    return Variable::make(part.type(), name);
  });
}

class DecideConditions : public IRMutator {
 private:
  using IRMutator::visit;

  Expr visit(const Select* op) override {
    if (is_const_one(op->condition)) return mutate(op->true_value);
    if (is_const_zero(op->condition)) return mutate(op->false_value);
    return IRMutator::visit(op);
  }

  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else) || op->args.size() < 3) return IRMutator::visit(op);
    Expr condition = mutate(op->args[0]);
    for (const auto& [known, value] : known_) {
      if (equal(known, condition)) condition = make_bool(value);
    }
    if (is_const_one(condition)) return mutate(op->args[1]);
    if (is_const_zero(condition)) return mutate(op->args[2]);
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
    if (const auto* op = condition.as<Not>()) learn(op->a, !value);
    if (const auto* op = condition.as<And>(); op && value) {
      learn(op->a, true);
      learn(op->b, true);
    }
    if (const auto* op = condition.as<Or>(); op && !value) {
      learn(op->a, false);
      learn(op->b, false);
    }
    // Lazy "and" and "or".
    const Call* op = condition.as<Call>();
    if (!op || !op->is_intrinsic(Call::if_then_else)) return;
    if (value ? is_const_zero(op->args[2]) : is_const_one(op->args[1])) {
      learn(op->args[0], value);
      learn(op->args[value ? 1 : 2], value);
    }
  }

  std::vector<std::pair<Expr, bool>> known_;
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
    Expr term = factor == 1 ? e : e * make_const(e.type(), factor);
    rest = rest.defined() ? rest + term : term;
  }
};

}  // namespace

bool stays_inside(const Call* read, const Program& program, const Bounds& bounds) {
  auto tensor = program.tensors.find(read_name(read));
  if (tensor == program.tensors.end()) return true;
  for (size_t d = 0; d < read->args.size(); ++d) {
    std::map<std::string, Expr> hidden;
    const Expr subscript = hide_floats(read->args[d], hidden);
    Expr inside = subscript >= 0 && subscript < tensor->second.sizes[d];
    inside = and_condition_over_domain(inside, bounds);
    if (!is_const_one(simplify(inside, true, bounds))) return false;
  }
  return true;
}

Expr simplify_index(const Expr& e, const Bounds& bounds) {
  std::map<std::string, Expr> hidden;
  const Expr simple = simplify(hide_floats(e, hidden), true, bounds);
  return hidden.empty() ? simple : substitute(hidden, simple);
}

Expr simplify_integers(const Expr& e, const Bounds& bounds) {
  return rewrite(
      e, [&](const Expr& part) { return has_float(part) ? Expr() : simplify(part, true, bounds); });
}

void substitute_indices(Statement& statement, const std::map<std::string, Expr>& values) {
  for_each_expression(statement,
                      [&](Expr& e) { e = simplify_integers(substitute(values, e), {}); });
}

Expr decide_repeated_conditions(const Expr& e) { return DecideConditions().mutate(e); }

Expr evaluate_eagerly(const Expr& e, const Program& program, const Bounds& bounds) {
  auto reads_outside = [&](const Expr& side) {
    return any<Call>(side, [&](const Call* op) { return !stays_inside(op, program, bounds); });
  };
  return mutate(e, [&](const Call* op, Mutator& self) {
    if (!op->is_intrinsic(Call::if_then_else) || op->args.size() < 3 ||
        reads_outside(op->args[1]) || reads_outside(op->args[2]))
      return self.inside(op);
    return Select::make(self.mutate(op->args[0]), self.mutate(op->args[1]),
                        self.mutate(op->args[2]));
  });
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
  Expr constant = make_const(e.type(), sum.constant);
  if (!sum.rest.defined()) return constant;
  return sum.constant == 0 ? sum.rest : sum.rest + constant;
}

}  // namespace tc::ir
