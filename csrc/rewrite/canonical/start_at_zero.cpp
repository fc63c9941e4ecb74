#include "rewrite/canonical/start_at_zero.h"

#include <cstdlib>

#include "ir/expressions/simplify.h"

namespace tc::ir {

namespace {

/// Replaces indices by the new ones and what they are shifted by.
class Shift : public IRMutator {
 public:
  explicit Shift(const std::map<std::string, Expr>& by) : by_(by) {}

  Expr subscript(const Expr& e) {
    ++subscripts_;
    Expr result = mutate(e);
    --subscripts_;
    return result;
  }

 private:
  using IRMutator::visit;

  Expr visit(const Variable* op) override {
    auto found = by_.find(op->name);
    if (found == by_.end()) return op;
    // Where a value begins near the end of its type, the simplifier would move the shift about
    // until it overflows. Subscripts are made of sums that do not: the shift goes with another one.
    constexpr int64_t kFar = int64_t{1} << 30;
    if (subscripts_ > 0 || std::abs(*as_const_int(found->second)) < kFar)
      return Expr(op) + found->second;
    const Type bits = Halide::UInt(32);
    return Halide::cast(op->type, Halide::cast(bits, op) + Halide::cast(bits, found->second));
  }
  Expr visit(const Call* op) override {
    const bool read = !read_name(op).empty();
    subscripts_ += read;
    Expr result = IRMutator::visit(op);
    subscripts_ -= read;
    return result;
  }

  const std::map<std::string, Expr>& by_;
  int subscripts_ = 0;
};

}  // namespace

Program start_at_zero(Program program) {
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
    Shift shift(shifted);
    for (Expr& subscript : statement.subscripts)
      subscript = simplify_integers(shift.subscript(subscript), bounds);
    statement.value = simplify_integers(shift.mutate(statement.value), bounds);
    if (statement.guard.defined())
      statement.guard = simplify_integers(shift.mutate(statement.guard), bounds);
  }
  return program;
}

}  // namespace tc::ir
