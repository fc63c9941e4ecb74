#include "rewrite/canonical/widen_accumulators.h"

#include "ir/visit.h"

namespace tc::ir {
namespace {

const Type kWide = Halide::Float(32);

bool is_narrow(Type type) { return type.is_float() && type.bits() < 32; }

/// Everything that is computed on narrow floats, in float and not rounded; what has such a type
/// becomes float.
Expr widen_value(const Expr& e) {
  return mutate(
      e,
      [](const FloatImm* op, Mutator&) {
        return is_narrow(op->type) ? FloatImm::make(kWide, op->value) : Expr(op);
      },
      [](const Cast* op, Mutator& self) {
        Expr value = self.mutate(op->value);
        if (op->type == value.type()) return value;
        if (!is_narrow(op->type)) return Cast::make(op->type, value);
        return value.type() == kWide ? value : Halide::cast(kWide, Cast::make(op->type, value));
      },
      [](const Call* op, Mutator& self) {
        if (!read_name(op).empty()) {
          Expr read = self.inside(op);
          return is_narrow(op->type) ? Halide::cast(kWide, read) : read;
        }
        std::vector<Expr> arguments = self.mutate(op->args);
        std::string function = math_name(op);
        if (function == "nextafter" && is_narrow(op->type)) {
          // The values of the type itself.
          for (Expr& argument : arguments) argument = Cast::make(op->type, argument);
          return Halide::cast(kWide, math(function, op->type, arguments));
        }
        const Type type = is_narrow(op->type) ? kWide : op->type;
        // Of isnan and the like, which give truths, it is the operand's.
        if (!function.empty())
          return math(function, type.is_bool() ? arguments[0].type() : type, arguments);
        return Call::make(type, op->name, arguments, op->call_type);
      });
}

bool accumulates(const Statement& statement) {
  bool adds = statement.reduction == Reduction::Sum || statement.reduction == Reduction::Product;
  return adds && !is_scatter(statement) && !reduced_indices(statement).empty() &&
         !statement.guard.defined();
}

}  // namespace

void widen_accumulators(Program& program) {
  replace_statements(program, [&](Statement& statement) -> std::vector<Statement> {
    if (!accumulates(statement)) return {statement};
    const Expr value = widen_value(statement.value);
    if (!is_narrow(program.tensor(statement.tensor).type)) {
      statement.value = value;
      return {statement};
    }
    const Tensor& narrow = program.tensor(statement.tensor);
    // The statement may write a part of its tensor.
    const std::vector<Iterator> kept = kept_indices(statement);
    Statement sum = statement, copy = statement;
    const Expr wide = write_temporary(program, sum, narrow.name + ".wide", kWide, kept);
    sum.value = value;
    assign(copy);
    copy.domain = kept;
    copy.value = Halide::cast(narrow.type, wide);
    if (statement.initializes) return {sum, copy};
    Statement start = copy;
    start.tensor = sum.tensor;
    start.subscripts = sum.subscripts;
    start.value = Halide::cast(kWide, read(narrow, statement.subscripts));
    return {start, sum, copy};
  });
}

}  // namespace tc::ir
