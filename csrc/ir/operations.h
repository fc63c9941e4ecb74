// The operations that a value is made of: the one place that says what counts as one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ir/program.h"

namespace tc::ir {

enum class OperationKind {
  Arithmetic,  ///< + - * / % min max
  Comparison,
  Choice,
  Conversion,
  Function,  ///< a builtin
  Read,      ///< of a tensor or a scalar
  Other      ///< intrinsics that are none of these
};

/// One operation of a value. `name` is that of machine::operation_cost.
struct Operation {
  OperationKind kind = OperationKind::Other;
  std::string name;
  Type type;
  const Halide::Internal::BaseExprNode* node = nullptr;
  /// It is part of a condition that speaks of indices alone: what is decided once for a range of
  /// them.
  bool of_indices = false;
};

/// Every operation of a value, or of a condition `of_indices`. Those of subscripts are left out:
/// increments are made of them.
void for_each_operation(const Expr& value, const std::function<void(const Operation&)>& each,
                        bool of_indices = false);

/// Whether a function takes an instruction or a few.
bool is_cheap(const std::string& function);

/// The functions of a value that take more.
int64_t count_functions(const Expr& value);

/// Instructions of a point of a reduction over this value: those of the value and of the reduction.
/// Types that have no arithmetic of their own take more.
int64_t count_instructions(const Expr& value);

/// Registers that a vector of a statement's results takes while terms are added to it. A maximum of
/// floats keeps NaN by a choice, which LLVM writes to another register than the one it reads.
int registers_of_results(const Statement& statement);

}  // namespace tc::ir
