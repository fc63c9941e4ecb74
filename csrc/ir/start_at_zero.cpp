#include "ir/start_at_zero.h"

#include "ir/simplify.h"

namespace tc::ir {

Program start_at_zero(Program program) {
  for (Statement& statement : program.statements) {
    std::map<std::string, Expr> shifted;
    Bounds bounds;
    for (Iterator& it : statement.domain) {
      if (!Halide::Internal::is_const_zero(it.min)) {
        shifted[it.name] = make_variable(it.name) + it.min;
        it.min = 0;
      }
      // As in the program: iterators of extent 1 stay in the subscripts.
      if (!Halide::Internal::is_const_one(it.extent)) {
        bounds.push(it.name, Halide::Internal::Interval(0, it.extent - 1));
      }
    }
    if (shifted.empty()) continue;
    auto shift = [&](const Expr& e) {
      return simplify_integers(Halide::Internal::substitute(shifted, e), bounds);
    };
    for (Expr& subscript : statement.subscripts) subscript = shift(subscript);
    statement.value = shift(statement.value);
    if (statement.guard.defined()) statement.guard = shift(statement.guard);
  }
  return program;
}

}  // namespace tc::ir
