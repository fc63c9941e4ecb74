#include "rewrite/canonical/round_once.h"

#include "ir/expressions/narrow_floats.h"

namespace tc::ir {

void round_once(Program& program) {
  for (Statement& statement : program.statements) {
    if (!reduced_indices(statement).empty() || is_scatter(statement)) continue;
    // One operation is rounded once anyway, and is what other passes know.
    if (count_narrow_operations(statement.value) < 2) continue;
    const Expr value = widen_operations(statement.value);
    const Type type = statement.value.type();
    statement.value = value.type() == type ? value : Cast::make(type, value);
  }
}

}  // namespace tc::ir
