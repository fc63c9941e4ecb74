// Sums of indices that subscripts take.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// A sum of multiples of indices that a subscript takes, apart from what it adds, as h + kh of h +
/// kh - 1, or that it is a function of, as i of i/32 and t + k of min(t + k, T - 1): all values
/// from `first` on, `count` of them, each for some indices.
struct Sum {
  std::vector<std::pair<Iterator, int64_t>> terms;  ///< smallest multiple first
  int64_t first = 0, count = 1;

  Expr value() const;
  bool moved_by(const Iterator& it) const;
  /// Whether it takes all these values: not so where multiples leave some out.
  bool has_all_values() const;
  /// "i_r", with underscores behind it where the statement has an index of that name.
  std::string index_name(const Statement& statement) const;
  /// The first of its indices, by an index of that name for the sum's values, counted from 0, and
  /// the other ones.
  Expr first_index(const std::string& name) const;
};

/// What an expression reads.
struct SubscriptSums {
  std::vector<Sum> sums;  ///< of all subscripts without reads inside, each once
  std::set<std::string> tensors;
  std::string first;  ///< tensor that has subscripts
  /// Whether all these subscripts are such sums or functions of them, without gaps.
  bool known = true;
};
/// Indices count from 0.
SubscriptSums find_sums(const Expr& e, const std::vector<Iterator>& domain);

}  // namespace tc::ir
