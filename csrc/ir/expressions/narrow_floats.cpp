#include "ir/expressions/narrow_floats.h"

#include <algorithm>

#include "ir/expressions/choices.h"
#include "ir/program.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

const Type kFloat = Halide::Float(32);

/// As casts are written: what is a float already stays.
Expr in_float(const Expr& e) {
  if (!is_narrow_float(e.type())) return e;
  if (const auto* number = e.as<FloatImm>()) return FloatImm::make(kFloat, number->value);
  return Cast::make(kFloat, e);
}

Expr in_type(const Expr& e, Type type) { return e.type() == type ? e : Cast::make(type, e); }

/// Two values that are compared, or of which one is chosen, in one type.
void meet(Expr& a, Expr& b) {
  if (a.type() == b.type()) return;
  a = in_float(a);
  b = in_float(b);
}

/// nextafter is the one function that is about the values of its type.
bool steps(const Call* call) { return math_name(call) == "nextafter"; }

Expr call_in_float(const Call* op, std::vector<Expr> arguments) {
  const std::string function = math_name(op);
  const Type type = is_narrow_float(op->type) ? kFloat : op->type;
  if (function.empty()) return Call::make(type, op->name, arguments, op->call_type);
  // Of isnan and the like, which give truths, it is the operand's.
  return math(function, type.is_bool() ? arguments[0].type() : type, arguments);
}

/// The values of the type itself.
Expr step(const Call* op, std::vector<Expr> arguments) {
  for (Expr& argument : arguments) argument = in_type(argument, op->type);
  return math(math_name(op), op->type, arguments);
}

class WidenOperations : public Mutator {
 public:
  using Mutator::visit;

  template <class Node>
  Expr arithmetic(const Node* op) {
    if (!is_narrow_float(op->type)) return inside(op);
    return Node::make(in_float(mutate(op->a)), in_float(mutate(op->b)));
  }
  template <class Node>
  Expr meeting(const Node* op) {
    if (!is_narrow_float(op->a.type())) return inside(op);
    Expr a = mutate(op->a), b = mutate(op->b);
    meet(a, b);
    return Node::make(a, b);
  }

  Expr visit(const Add* op) override { return arithmetic(op); }
  Expr visit(const Sub* op) override { return arithmetic(op); }
  Expr visit(const Mul* op) override { return arithmetic(op); }
  Expr visit(const Div* op) override { return arithmetic(op); }
  Expr visit(const Mod* op) override { return arithmetic(op); }
  Expr visit(const Min* op) override { return meeting(op); }
  Expr visit(const Max* op) override { return meeting(op); }
  Expr visit(const EQ* op) override { return meeting(op); }
  Expr visit(const NE* op) override { return meeting(op); }
  Expr visit(const LT* op) override { return meeting(op); }
  Expr visit(const LE* op) override { return meeting(op); }
  Expr visit(const GT* op) override { return meeting(op); }
  Expr visit(const GE* op) override { return meeting(op); }
  Expr visit(const Cast* op) override { return in_type(mutate(op->value), op->type); }
  Expr visit(const Select* op) override {
    Expr condition = mutate(op->condition), yes = mutate(op->true_value),
         no = mutate(op->false_value);
    meet(yes, no);
    return Select::make(condition, yes, no);
  }
  Expr visit(const Call* op) override {
    if (!read_name(op).empty()) return op;
    if (const auto choice = find_choice(op)) {
      Expr condition = mutate(choice->condition), yes = mutate(choice->yes),
           no = mutate(choice->no);
      meet(yes, no);
      return choose_lazily(condition, yes, no);
    }
    std::vector<Expr> arguments = mutate(op->args);
    const auto is_narrow = [](const Expr& argument) { return is_narrow_float(argument.type()); };
    if (!is_narrow_float(op->type) && std::none_of(op->args.begin(), op->args.end(), is_narrow))
      return Call::make(op->type, op->name, arguments, op->call_type);
    if (steps(op)) return step(op, arguments);
    for (Expr& argument : arguments) argument = in_float(argument);
    return call_in_float(op, arguments);
  }
};

}  // namespace

Expr widen_whole(const Expr& e) {
  return mutate(
      e,
      [](const FloatImm* op, Mutator&) { return in_float(op); },
      [](const Cast* op, Mutator& self) {
        Expr value = self.mutate(op->value);
        if (op->type == value.type()) return value;
        if (!is_narrow_float(op->type)) return Cast::make(op->type, value);
        return value.type() == kFloat ? value : Halide::cast(kFloat, Cast::make(op->type, value));
      },
      [](const Call* op, Mutator& self) {
        if (!read_name(op).empty()) return in_float(self.inside(op));
        std::vector<Expr> arguments = self.mutate(op->args);
        if (steps(op) && is_narrow_float(op->type)) return in_float(step(op, arguments));
        return call_in_float(op, arguments);
      });
}

Expr widen_operations(const Expr& e) { return WidenOperations().mutate(e); }

}  // namespace tc::ir
