#include "runtime/size_text.h"

#include "base/error.h"

namespace tc::runtime {

std::string size_text(const ir::Expr& e) {
  using namespace Halide::Internal;
  auto binary = [](const auto* op, const char* symbol) {
    return "(" + size_text(op->a) + symbol + size_text(op->b) + ")";
  };
  auto call = [](const char* name, const auto* op) {
    return name + ("(" + size_text(op->a)) + ", " + size_text(op->b) + ")";
  };
  if (auto constant = as_const_int(e)) return std::to_string(*constant);
  if (const auto* op = e.as<Variable>()) return op->name;
  if (const auto* op = e.as<Add>()) return binary(op, " + ");
  if (const auto* op = e.as<Sub>()) return binary(op, " - ");
  if (const auto* op = e.as<Mul>()) return binary(op, " * ");
  if (const auto* op = e.as<Div>()) return binary(op, " // ");
  if (const auto* op = e.as<Mod>()) return binary(op, " % ");
  if (const auto* op = e.as<Min>()) return call("min", op);
  if (const auto* op = e.as<Max>()) return call("max", op);
  if (const auto* op = e.as<LT>()) return binary(op, " < ");
  if (const auto* op = e.as<LE>()) return binary(op, " <= ");
  if (const auto* op = e.as<EQ>()) return binary(op, " == ");
  if (const auto* op = e.as<NE>()) return binary(op, " != ");
  if (const auto* op = e.as<And>()) return binary(op, " & ");
  if (const auto* op = e.as<Or>()) return binary(op, " | ");
  if (const auto* op = e.as<Select>())
    return "select(" + size_text(op->condition) + ", " + size_text(op->true_value) + ", " +
           size_text(op->false_value) + ")";
  if (const auto* op = e.as<Call>()) {
    // Sizes are not negative, where C's division agrees with rounding down.
    if (op->is_intrinsic(Call::div_round_to_zero))
      return "(" + size_text(op->args[0]) + " // " + size_text(op->args[1]) + ")";
    if (op->is_intrinsic(Call::mod_round_to_zero))
      return "(" + size_text(op->args[0]) + " % " + size_text(op->args[1]) + ")";
    if (op->is_intrinsic(Call::signed_integer_overflow))
      throw ShapeError(
          "the size of a result does not fit 32 bits; give its indices smaller ranges");
  }
  throw InternalError(__FILE__, __LINE__, concat("a size has no text: ", e));
}

}  // namespace tc::runtime
