// The tree of a definition. The parser makes it, `sema` checks it in place and fills the members
// marked so; printing, range inference and lowering read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "ir/program.h"

namespace tc::lang {

using ir::Type;

enum class Operator {
  Negate,
  Not,
  Multiply,
  Divide,
  Remainder,
  Add,
  Subtract,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
  And,
  Or,
  Min,
  Max,  ///< written min(a, b) and max(a, b)
};

enum class ExpressionKind {
  Number,     ///< 3, 0.5f, 0x1F
  Name,       ///< a bare identifier
  Dimension,  ///< T.1
  Apply,      ///< T(i, j) or exp(x)
  Cast,       ///< int32(x)
  Unary,
  Binary,   ///< Min and Max too
  Ternary,  ///< condition ? a : b
};

/// What an identifier stands for; set by sema.
enum class Binding { None, Index, Size, Scalar, Tensor, Let, Builtin, Truth };

/// The value of an expression of literals only.
struct Constant {
  bool is_float = false;
  int64_t integer = 0;
  double real = 0;
  double as_double() const { return is_float ? real : static_cast<double>(integer); }
};

struct Expression;
using ExpressionPtr = std::shared_ptr<Expression>;

struct Expression {
  ExpressionKind kind = ExpressionKind::Number;
  SourceRange where;
  std::string name;   ///< Name, Dimension, Apply: the identifier; Number: its spelling
  int dimension = 0;  ///< Dimension: 1 of T.1
  Operator op = Operator::Add;
  Type cast_type;  ///< Cast
  std::vector<ExpressionPtr> operands;
  int depth = 1;  ///< of the tree below, as parsed; the parser bounds it

  // Filled by sema.
  Binding binding = Binding::None;
  Type type;
  Type operand_type;  ///< Apply of a builtin: the type its arguments are converted to
  /// Made of literals only, so that it takes the type of what it is combined with.
  bool adaptable = false;
  std::optional<Constant> constant;
  /// Name of a let that is adaptable and no constant: its value in the type that it takes here.
  ExpressionPtr let;
};

/// Copies a tree, shared parts included.
ExpressionPtr clone(const ExpressionPtr& expression);

struct Identifier {
  std::string name;
  SourceRange where;
};

/// A dimension of a declared tensor: a size name or an integer.
struct DimensionSize {
  std::string name;  ///< empty for a constant
  int64_t constant = 0;
  SourceRange where;
};

/// A parameter or a returned tensor. Without dimensions a parameter is a scalar.
struct Declaration {
  std::string name;
  bool typed = true;  ///< false for a returned tensor without annotation
  Type type;
  std::vector<DimensionSize> dimensions;
  SourceRange where;       ///< of the whole declaration
  SourceRange name_where;  ///< of the name
};

enum class ClauseKind { Range, Let, Exists };

struct WhereClause {
  ClauseKind kind = ClauseKind::Range;
  Identifier name;            ///< Range, Let
  ExpressionPtr first, last;  ///< Range: name in first:last; Let and Exists: first
};

struct TreeStatement {
  // target(indices) reduction= value where clauses
  Identifier target;
  /// One a dimension of the left-hand side. Where the subscript is an expression, `name` is empty
  /// and `where` covers it.
  std::vector<Identifier> indices;
  /// One a dimension: the expression of a scattered dimension, null at a plain index. Empty where
  /// all are plain.
  std::vector<ExpressionPtr> subscripts;
  ir::Reduction reduction = ir::Reduction::None;
  bool initializes = false;
  SourceRange operator_where;
  ExpressionPtr value;
  std::vector<WhereClause> clauses;
  SourceRange where;

  // (targets) = callee(arguments), when `callee` is set; `target` is then the first of them.
  bool is_call = false;
  std::vector<Identifier> targets;
  Identifier callee;
  std::vector<ExpressionPtr> arguments;

  /// From the text of a definition that is called, which has been checked by itself.
  bool inlined = false;

  // Filled by sema: indices of the left-hand side's expressions and of the value that are no plain
  // indices of the left-hand side, in order of appearance, then those that only have a range.
  std::vector<Identifier> reduction_indices;
  /// Indices that only `exists` and unused lets mention: they take part in inference alone.
  std::vector<Identifier> auxiliary_indices;

  /// The expression of a scattered dimension; null at a plain index.
  Expression* scattered(size_t dimension) const {
    return dimension < subscripts.size() ? subscripts[dimension].get() : nullptr;
  }
  /// Whether some dimension of the left-hand side is scattered.
  bool scatters() const {
    return std::any_of(subscripts.begin(), subscripts.end(),
                       [](const ExpressionPtr& subscript) { return subscript != nullptr; });
  }
};

/// What a call says of a dimension of a tensor that it gives or takes: it has to be as large as
/// another one.
struct SameSize {
  std::string callee, parameter;  ///< or result
  std::string size;               ///< as the callee declares it: "K", "4"
  std::string tensor, other;      ///< of the caller; `other` is empty for a constant
  size_t dimension = 0, other_dimension = 0;
  int64_t constant = 0;
  SourceRange where;
};

/// The type that a call wants of a tensor.
struct WantedType {
  std::string callee, parameter, tensor;
  Type type;
  SourceRange where;
};

struct Function {
  Identifier name;
  std::vector<Declaration> parameters;
  std::vector<Declaration> returns;
  std::vector<TreeStatement> statements;
  // Of the calls that were inlined.
  std::vector<SameSize> same_sizes;
  std::vector<WantedType> wanted_types;
};

}  // namespace tc::lang
