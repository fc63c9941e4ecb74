#include "rewrite/canonical/widen_accumulators.h"

#include "ir/expressions/narrow_floats.h"

namespace tc::ir {
namespace {

const Type kWide = Halide::Float(32);

bool accumulates(const Statement& statement) {
  bool adds = statement.reduction == Reduction::Sum || statement.reduction == Reduction::Product;
  return adds && !is_scatter(statement) && !reduced_indices(statement).empty() &&
         !statement.guard.defined();
}

}  // namespace

void widen_accumulators(Program& program) {
  replace_statements(program, [&](Statement& statement) -> std::vector<Statement> {
    if (!accumulates(statement)) return {statement};
    const Expr value = widen_whole(statement.value);
    if (!is_narrow_float(program.tensor(statement.tensor).type)) {
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
