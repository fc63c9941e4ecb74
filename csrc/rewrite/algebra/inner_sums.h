// Sums of products, and the part of one that is a sum by itself.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::ir {

/// What a value multiplies or divides, and the indices of its statement that it depends on.
struct Factor {
  Expr value;
  std::set<std::string> indices;
  bool divides = false;
};

/// Floats are divided by the factors of what divides them.
std::vector<Factor> factors_of(const Statement& statement);
Expr product_of(const std::vector<Factor>& factors);
/// The product with one more factor, or without it where that divides.
Expr multiply(const Expr& product, const Factor& factor);

/// What a sum adds or subtracts.
struct Addend {
  Expr value;
  bool minus = false;
};

/// The terms of sums and differences, but for zeros; of anything else that alone.
std::vector<Addend> addends_of(const Expr& e);
/// Of at least one term.
Expr sum_of(const std::vector<Addend>& addends);

/// Multiplies factors into others that have all their indices, each into the one that costs least,
/// as long as one may be, which a cost below 0 denies; returns whether any was.
using JoinCost = std::function<double(const Factor& factor, const Factor& into)>;
bool join_factors(std::vector<Factor>& factors, const JoinCost& cost);

/// Whether it sums floats that are no narrower than what they are summed in, at all points of its
/// domain and from zero or from its tensor's earlier values, into plain elements.
bool is_plain_sum(const Statement& statement, const Program& program);

/// How many points of a domain differ in these indices.
double points_of(const std::vector<Iterator>& domain, const std::set<std::string>& indices);
double points_of(const std::vector<Iterator>& domain);

/// Which reductions of a statement are summed first, over the product of which factors.
struct InnerSum {
  std::vector<Factor> inside, outside;
  std::set<std::string> summed, kept;  ///< indices of the factors inside
};

/// The elements of the largest read whose neighbours lie along that index, by its last subscript.
double elements_along(const std::string& index, const Expr& value,
                      const std::vector<Iterator>& domain);

/// The statement that makes the inner sum, into a temporary whose layout is added. `statement`
/// reads it from then on, and sums what is left.
Statement take_out(const InnerSum& inner, Statement& statement, Program& program, Layouts& layouts);
/// Lets `statement` read `sum` at `place` for its inner sum.
void read_instead(const InnerSum& inner, const Tensor& sum, const std::vector<Expr>& place,
                  Statement& statement);

}  // namespace tc::ir
