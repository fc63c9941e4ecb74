#include "rewrite/canonical/round_once.h"

#include "ir/expressions/narrow_floats.h"
#include "ir/operations.h"

namespace tc::ir {
namespace {

/// Operations on narrow floats that are rounded: all but choices among them.
int count_rounded(const Expr& value) {
  int count = 0;
  for_each_operation(value, [&](const Operation& operation) {
    const bool chooses = operation.name == "min" || operation.name == "max";
    const bool computes = operation.kind == OperationKind::Function ||
                          (operation.kind == OperationKind::Arithmetic && !chooses);
    count += computes && is_narrow_float(operation.type);
  });
  return count;
}

}  // namespace

void round_once(Program& program) {
  for (Statement& statement : program.statements) {
    if (!reduced_indices(statement).empty() || is_scatter(statement)) continue;
    // One operation is rounded once anyway, and is what other passes know.
    if (count_rounded(statement.value) < 2) continue;
    const Expr value = widen_operations(statement.value);
    const Type type = statement.value.type();
    statement.value = value.type() == type ? value : Cast::make(type, value);
  }
}

}  // namespace tc::ir
