// Products of a number and sizes, as 2 * H * W: the weights of digits that places are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lang/lowering/ranges.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

struct SizeProduct {
  int64_t number = 1;
  std::vector<std::string> sizes;  ///< in order, each as often as it is a factor

  SizeProduct() = default;
  explicit SizeProduct(int64_t value) : number(value) {}

  bool is_number() const { return sizes.empty(); }
  bool is_one() const { return number == 1 && sizes.empty(); }
  bool operator==(const SizeProduct& other) const {
    return number == other.number && sizes == other.sizes;
  }
  /// Before all products that it divides, but for itself.
  bool operator<(const SizeProduct& other) const {
    if (sizes.size() != other.sizes.size()) return sizes.size() < other.sizes.size();
    return number != other.number ? number < other.number : sizes < other.sizes;
  }

  ExpressionPtr text() const;
  Expr value() const;
};

/// Nothing where the number would not fit subscripts.
std::optional<SizeProduct> product(const SizeProduct& a, const SizeProduct& b);
/// a / b, where b divides a whatever the sizes are.
std::optional<SizeProduct> exact_quotient(const SizeProduct& a, const SizeProduct& b);

/// The product that an expression is, of positive numbers and names of sizes.
std::optional<SizeProduct> find_product(const Expression& e, const ir::Program& signature);
std::optional<SizeProduct> find_product(const Expr& e, const ir::Program& signature);

/// weight * index + rest, where `rest` does not mention the index.
struct WeightedIndex {
  SizeProduct weight;
  ExpressionPtr rest;
};
/// Nothing where the index is not mentioned, or with more than one positive weight.
std::optional<WeightedIndex> split_weighted(const ExpressionPtr& e, const std::string& index,
                                            const ir::Program& signature);

}  // namespace tc::lang
