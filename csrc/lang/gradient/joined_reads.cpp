#include "lang/gradient/joined_reads.h"

#include <vector>

#include "lang/syntax/expressions.h"

namespace tc::lang {

bool join(const ReadGradient& part, Contribution* other) {
  if (other->to != part.read->name || !equal(other->subscripts, part.read->operands)) return false;
  if (equal(other->guards, part.guards)) {
    bool twice = equal(*other->weight, *part.weight);
    other->weight = twice ? binary(Operator::Multiply, real(2), part.weight)
                          : binary(Operator::Add, other->weight, part.weight);
    return true;
  }
  if (other->guards.empty() || part.guards.empty()) return false;
  std::vector<ExpressionPtr> outer = other->guards, outer_of_part = part.guards;
  ExpressionPtr condition = outer.back();
  bool complementary = equal(*outer_of_part.back(), *logical_not(condition));
  outer.pop_back();
  outer_of_part.pop_back();
  if (!complementary || !equal(outer, outer_of_part)) return false;
  other->weight = choose(condition, other->weight, part.weight);
  other->guards = outer;
  return true;
}

}  // namespace tc::lang
