#include "rewrite/algebra/multiply_by_reciprocals.h"

#include <cmath>

#include "ir/expressions/reads.h"
#include "rewrite/algebra/inner_sums.h"

namespace tc::ir {
namespace {

// Between them, a reciprocal is a normal number in float, and products of normal numbers with it
// that are normal are so without it.
constexpr double kSmallest = 0x1p-20, kLargest = 0x1p+20;

}  // namespace

void multiply_by_reciprocals(Program& program) {
  for (Statement& statement : program.statements) {
    if (reduced_indices(statement).empty() || !is_plain_sum(statement, program)) continue;
    const auto* quotient = statement.value.as<Div>();
    if (!quotient || has_data(quotient->b)) continue;
    const auto divisor = as_const_float(simplify(quotient->b));
    if (!divisor || std::abs(*divisor) < kSmallest || std::abs(*divisor) > kLargest) continue;
    statement.value = quotient->a * make_const(quotient->a.type(), 1 / *divisor);
  }
}

}  // namespace tc::ir
