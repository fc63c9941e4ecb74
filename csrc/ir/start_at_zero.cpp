#include "ir/start_at_zero.h"

#include "ir/simplify.h"

namespace tc::ir {

Program start_at_zero(const Program& program) {
  Program result = program;
  for (Statement& statement : result.statements) {
    std::map<std::string, Expr> moved;
    Bounds bounds;
    for (Iterator& iterator : statement.domain) {
      if (!Halide::Internal::is_const_zero(iterator.min)) {
        Expr variable = Halide::Internal::Variable::make(Halide::Int(32), iterator.name);
        moved[iterator.name] = variable + iterator.min;
        iterator.min = 0;
      }
      if (*Halide::Internal::as_const_int(iterator.extent) > 1)
        bounds.push(iterator.name,
                    Halide::Internal::Interval(0, Halide::Internal::simplify(iterator.extent - 1)));
    }
    if (moved.empty()) continue;
    auto replaced = [&](const Expr& e) {
      if (!e.defined()) return e;
      return simplify_integers(Halide::Internal::substitute(moved, e), bounds);
    };
    for (Expr& subscript : statement.subscripts) subscript = replaced(subscript);
    statement.value = replaced(statement.value);
    statement.guard = replaced(statement.guard);
  }
  return result;
}

}  // namespace tc::ir
