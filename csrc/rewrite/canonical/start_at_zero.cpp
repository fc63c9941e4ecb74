#include "rewrite/canonical/start_at_zero.h"

#include <cstdlib>

#include "ir/expressions/simplify.h"
#include "ir/visit.h"

namespace tc::ir {

namespace {

/// Replaces indices by the new ones and what they are shifted by.
Expr shift(const Expr& e, const std::map<std::string, Expr>& by, bool subscript) {
  return mutate(
      e,
      [&](const Variable* op, Mutator&) -> Expr {
        auto found = by.find(op->name);
        if (found == by.end()) return op;
        // Where a value begins near the end of its type, the simplifier would move the shift about
        // until it overflows. Subscripts are made of sums that do not: the shift goes with another
        // one.
        constexpr int64_t kFar = int64_t{1} << 30;
        if (subscript || std::abs(*as_const_int(found->second)) < kFar)
          return Expr(op) + found->second;
        const Type bits = Halide::UInt(32);
        return Halide::cast(op->type, Halide::cast(bits, op) + Halide::cast(bits, found->second));
      },
      [&](const Call* op, Mutator& self) {
        if (read_name(op).empty()) return self.inside(op);
        return map_arguments(op, op->type, [&](const Expr& each) { return shift(each, by, true); });
      });
}

}  // namespace

void start_at_zero(Program& program) {
  for (Statement& statement : program.statements) {
    std::map<std::string, Expr> shifted;
    Bounds bounds;
    for (Iterator& it : statement.domain) {
      if (!is_const_zero(it.min)) {
        shifted[it.name] = it.min;
        it.min = 0;
      }
      // As in the program: iterators of extent 1 stay in the subscripts.
      if (!is_const_one(it.extent)) bounds.push(it.name, Interval(0, it.extent - 1));
    }
    if (shifted.empty()) continue;
    auto moved = [&](const Expr& e, bool subscript) {
      return simplify_integers(shift(e, shifted, subscript), bounds);
    };
    for (Expr& subscript : statement.subscripts) subscript = moved(subscript, true);
    statement.value = moved(statement.value, false);
    if (statement.guard.defined()) statement.guard = moved(statement.guard, false);
  }
}

}  // namespace tc::ir
