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
/// kh - 1: all values from `first` on, `count` of them, each for some indices.
struct Sum {
  std::vector<std::pair<Iterator, int64_t>> terms;  ///< smallest multiple first
  int64_t first = 0, count = 1;

  Expr value() const;
  bool moved_by(const Iterator& it) const;
};

/// What an expression reads.
struct SubscriptSums {
  std::vector<Sum> sums;  ///< of all subscripts without reads inside, each once
  std::set<std::string> tensors;
  std::string first;  ///< tensor that has subscripts
  /// Whether all these subscripts are such sums, without gaps.
  bool known = true;
};
/// Indices count from 0.
SubscriptSums find_sums(const Expr& e, const std::vector<Iterator>& domain);

}  // namespace tc::ir
