// The text of Tensor Comprehensions that computes an equation.
#pragma once

#include <string>
#include <vector>

#include "einsum/bind.h"

namespace tc::einsum {

/// Operands by their place in what is left: each step takes some out, in any order, and puts their
/// product at the end, as opt_einsum's paths do.
using Path = std::vector<std::vector<int>>;

struct Source {
  /// One definition, "einsum", of the operands, the tables as int32 in the order of
  /// `Binding::tables`, and the scalars. Operands without dimensions are declared with one of
  /// size 1.
  std::string text;
  /// The begin and end of ranges that the text leaves open: those that tables decide, and those
  /// that no single statement of a longer path could infer.
  std::vector<int64_t> scalars;
};

/// An empty path multiplies all operands in one statement. Labels that are summed over and stand in
/// one operand alone are summed first where that saves work. UsageError for what is no path.
Source make_source(const Binding& binding, const Path& path);

/// The labels of an operand, those by which tables are looked up as well; each once.
std::vector<Label> labels_of(const std::vector<Dimension>& operand);

}  // namespace tc::einsum
