#include "ir/operations.h"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "ir/scan.h"
#include "machine/operation_costs.h"

namespace tc::ir {
namespace {

/// The operation that a power by a literal costs as much as, see codegen/math/vector_math; "pow"
/// for others.
std::string cost_of_power(const Call* call) {
  const auto exponent = as_const_float(call->args[1]);
  if (!exponent) return "pow";
  const double by = *exponent, magnitude = std::abs(by);
  if (by >= 0 && by <= 3 && by == std::floor(by)) return "*";
  if (by == -1) return "/";
  if (by == 0.5 || by == 1.5) return "sqrt";
  if (by == -0.5) return "rsqrt";
  const bool is_whole = by == std::floor(by);
  const bool is_short = call->type.bits() > 32 ? by >= 4 && by <= 6 : magnitude <= 16;
  return is_whole && is_short ? "whole power" : "pow";
}

}  // namespace

void for_each_operation(const Expr& value, const std::function<void(const Operation&)>& each,
                        bool of_indices) {
  static const std::map<IRNodeType, const char*> arithmetic = {
      {IRNodeType::Add, "+"},  {IRNodeType::Sub, "-"}, {IRNodeType::Mul, "*"},
      {IRNodeType::Div, "/"},  {IRNodeType::Mod, "%"}, {IRNodeType::Min, "min"},
      {IRNodeType::Max, "max"}};
  static const std::set<IRNodeType> comparisons = {IRNodeType::EQ, IRNodeType::NE, IRNodeType::LT,
                                                   IRNodeType::LE, IRNodeType::GT, IRNodeType::GE};
  walk(value, [&](const Expr& e) {
    const auto tell = [&](OperationKind kind, const std::string& name) {
      each({kind, name, e.type(), e.get(), of_indices});
    };
    if (const auto scan = find_scan(e)) {
      for_each_operation(scan_value(scan->scan, scan->term), each, of_indices);
      return false;
    }
    if (const auto choice = find_choice(e)) {
      const bool by_data = has_data(choice->condition);
      tell(OperationKind::Choice, by_data ? "?" : "choice");
      for_each_operation(choice->condition, each, of_indices || !by_data);
      for_each_operation(choice->yes, each, of_indices);
      for_each_operation(choice->no, each, of_indices);
      return false;
    }
    if (const auto* call = e.as<Call>()) {
      const std::string read = read_name(call), function = math_name(call);
      if (!read.empty())
        tell(OperationKind::Read, read);
      else if (!function.empty())
        tell(OperationKind::Function, function == "pow" ? cost_of_power(call) : function);
      else
        tell(OperationKind::Other, "?");
      return read.empty();
    }
    if (const auto* cast = e.as<Cast>()) {
      const Type from = cast->value.type(), to = cast->type;
      const bool brain = from.is_bfloat() || to.is_bfloat();
      const bool half = !brain && (from == Halide::Float(16) || to == Halide::Float(16));
      tell(OperationKind::Conversion, brain ? "bfloat16" : half ? "half" : "conversion");
    } else if (comparisons.count(e.node_type())) {
      tell(OperationKind::Comparison, "comparison");
    } else if (const auto found = arithmetic.find(e.node_type()); found != arithmetic.end()) {
      tell(OperationKind::Arithmetic, found->second);
    }
    return true;
  });
}

bool is_cheap(const std::string& function) {
  return machine::operation_cost(function).instructions < machine::kFewInstructions;
}

int64_t count_functions(const Expr& value) {
  int64_t count = 0;
  for_each_operation(value, [&](const Operation& operation) {
    count += operation.kind == OperationKind::Function && !is_cheap(operation.name);
  });
  return count;
}

int64_t count_instructions(const Expr& value) {
  int64_t count = 1;
  for_each_operation(value, [&](const Operation& operation) {
    if (operation.kind == OperationKind::Read || operation.kind == OperationKind::Comparison)
      return;
    const bool emulated = operation.kind != OperationKind::Function && operation.type.is_float() &&
                          operation.type.bits() < 32;
    count += emulated ? machine::kEmulatedInstructions
                      : machine::operation_cost(operation.name).instructions;
  });
  return count;
}

int registers_of_results(const Statement& statement) {
  const bool chooses =
      statement.reduction == Reduction::Max || statement.reduction == Reduction::Min;
  return chooses && statement.value.type().is_float() ? 2 : 1;
}

}  // namespace tc::ir
