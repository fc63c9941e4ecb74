#include "rewrite/canonical/widen_accumulators.h"

#include <algorithm>

namespace tc::ir {
namespace {

using namespace Halide::Internal;

const Type kWide = Halide::Float(32);

bool is_narrow(Type type) { return type.is_float() && type.bits() < 32; }

/// Everything that is computed on narrow floats, in float and not rounded; what has such a type
/// becomes float.
class Widen : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const FloatImm* op) override {
    return is_narrow(op->type) ? FloatImm::make(kWide, op->value) : Expr(op);
  }
  Expr visit(const Cast* op) override {
    Expr value = mutate(op->value);
    if (op->type == value.type()) return value;
    if (!is_narrow(op->type)) return Cast::make(op->type, value);
    return value.type() == kWide ? value : Halide::cast(kWide, Cast::make(op->type, value));
  }
  Expr visit(const Call* op) override {
    if (!read_name(op).empty()) {
      Expr read = IRMutator::visit(op);
      return is_narrow(op->type) ? Halide::cast(kWide, read) : read;
    }
    std::vector<Expr> arguments;
    for (const Expr& argument : op->args) arguments.push_back(mutate(argument));
    std::string function = math_name(op);
    if (function == "nextafter" && is_narrow(op->type)) {
      // The values of the type itself.
      for (Expr& argument : arguments) argument = Cast::make(op->type, argument);
      return Halide::cast(kWide, math(function, op->type, arguments));
    }
    if (!function.empty()) return math(function, arguments[0].type(), arguments);
    Type type = is_narrow(op->type) ? kWide : op->type;
    return Call::make(type, op->name, arguments, op->call_type);
  }
};

bool reduces(const Statement& statement) {
  return std::any_of(statement.domain.begin(), statement.domain.end(),
                     [](const Iterator& it) { return it.reduction; });
}

bool accumulates(const Statement& statement) {
  bool adds = statement.reduction == Reduction::Sum || statement.reduction == Reduction::Product;
  return adds && !is_scatter(statement) && reduces(statement) && !statement.guard.defined();
}

/// The statement's domain without its reductions.
std::vector<Iterator> kept(const Statement& statement) {
  std::vector<Iterator> result;
  for (const Iterator& it : statement.domain)
    if (!it.reduction) result.push_back(it);
  return result;
}

}  // namespace

Program widen_accumulators(const Program& program) {
  Program result = program;
  result.statements.clear();
  for (const Statement& statement : program.statements) {
    if (!accumulates(statement) || !is_narrow(program.tensor(statement.tensor).type)) {
      result.statements.push_back(statement);
      if (accumulates(statement)) result.statements.back().value = Widen().mutate(statement.value);
      continue;
    }
    const Tensor& narrow = program.tensor(statement.tensor);
    // The statement may write a part of its tensor.
    std::vector<Expr> place, sizes;
    for (const Iterator& it : kept(statement)) {
      sizes.push_back(it.extent);
      place.push_back(make_variable(it.name));
    }
    const Tensor& wide = add_temporary(result, narrow.name + ".wide", kWide, sizes, narrow.where);

    Statement copy = statement;
    copy.reduction = Reduction::None;
    copy.initializes = false;
    copy.domain = kept(statement);
    if (!statement.initializes) {
      copy.tensor = wide.name;
      copy.subscripts = place;
      copy.value = Halide::cast(kWide, read(narrow, statement.subscripts));
      result.statements.push_back(copy);
    }
    Statement sum = statement;
    sum.tensor = wide.name;
    sum.subscripts = place;
    sum.value = Widen().mutate(statement.value);
    result.statements.push_back(sum);
    copy.tensor = statement.tensor;
    copy.subscripts = statement.subscripts;
    copy.value = Halide::cast(narrow.type, read(wide, place));
    result.statements.push_back(copy);
  }
  number_statements(result);
  return result;
}

}  // namespace tc::ir
