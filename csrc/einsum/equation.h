// Equations of extended einsum, and what they are made of.
//
//   equation  = operand { "," operand } [ "->" output ]
//   operand   = { index | "..." }
//   index     = label | "(" term { ("+" | "-") term } ")"
//   term      = label | integer [ "*" label ] | label "*" integer | table "[" label { "," label }
//   "]" output    = { label | "..." }
//
// A label is one letter; blanks mean nothing. The rest is torch.einsum's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"

namespace tc::einsum {

/// A letter of the equation, or a dimension that the ellipsis stands for: 0 for the last one.
using Label = int;
constexpr Label kFirstEllipsis = 256;
/// How messages and texts call it: "h", or "...2" for dimensions of an ellipsis.
std::string label_text(Label label);

/// factor * label, an integer, or factor * table[labels].
struct Term {
  enum class Kind { Label, Integer, Table } kind = Kind::Label;
  int64_t factor = 1;         ///< the value itself for integers
  Label label = 0;            ///< of Kind::Label
  std::string table;          ///< of Kind::Table
  std::vector<Label> labels;  ///< its lookups
  SourceRange where;
};

/// What stands for one dimension of an operand.
struct Index {
  std::vector<Term> terms;
  SourceRange where;
  /// A label alone, with or without parentheses.
  bool is_label() const;
  Label label() const { return terms[0].label; }
};

/// The index that is this label alone.
Index label_index(Label label, const SourceRange& where = {});

struct Operand {
  std::vector<Index> indices;
  std::optional<size_t> ellipsis;  ///< the index that it stands before
  SourceRange where;
};

struct Equation {
  std::vector<Operand> operands;
  std::optional<Operand> output;  ///< labels and the ellipsis alone
};

/// LanguageError with a caret into the equation.
Equation parse_equation(const std::string& text);

}  // namespace tc::einsum
