// An equation with its operands: which sizes belong together, and the range of every label.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "einsum/equation.h"
#include "ir/program.h"

namespace tc::einsum {

struct Shape {
  std::vector<int64_t> sizes;
  ir::Type type;
};

/// Integers that indices are made of; `values` are row-major.
struct Table {
  std::string name;
  Shape shape;
  std::vector<int64_t> values;
};

/// Half-open.
struct Interval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Interval& other) const { return begin == other.begin && end == other.end; }
};

/// One dimension of an operand. Ellipses have become labels.
struct Dimension {
  Index index;
  int64_t size = 0;
  bool broadcast = false;  ///< of size 1, read at 0 whatever the label
  size_t operand = 0, place = 0;
  bool is_plain() const { return !broadcast && index.is_label(); }
};

struct Binding {
  std::vector<Shape> shapes;
  std::vector<std::vector<Dimension>> operands;
  std::vector<Label> output;
  std::map<Label, Interval> ranges;
  /// Labels whose ranges follow, directly or not, from what tables hold.
  std::set<Label> from_tables;
  std::vector<const Table*> tables;  ///< in the order of their first use
};

/// ShapeError where an equation has another number of operands.
void check_count(const Equation& equation, size_t operands);

/// Ranges are found in rounds as docs/language.md says, with tables for data that is known. Sizes
/// of a label that stands alone must agree, or be 1 and broadcast, as in torch.einsum. ShapeError
/// where operands or tables do not fit, with both values and the place in the equation;
/// LanguageError where the output names what no operand has. The tables must outlive the result.
Binding bind(const Equation& equation, const std::vector<Shape>& operands,
             const std::vector<Table>& tables);

}  // namespace tc::einsum
