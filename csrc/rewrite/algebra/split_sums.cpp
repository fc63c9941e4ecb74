#include "rewrite/algebra/split_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/algebra/nested_operations.h"
#include "rewrite/program_pass.h"

namespace tc::ir {
namespace {

std::vector<Factor> factors_of(const Expr& product, const Statement& statement) {
  Statement made = statement;
  made.value = product;
  return ir::factors_of(made);
}

bool has_all_indices(const Factor& factor, const Statement& statement) {
  return factor.indices.size() == statement.domain.size();
}

Expr with_sign(const Addend& addend) {
  if (!addend.minus) return addend.value;
  return addend.value * Halide::Internal::make_const(addend.value.type(), -1);
}

/// Whether a value multiplies or divides two that have indices, and which of these it has.
bool is_product(const Expr& value, const Statement& statement, std::set<std::string>& indices) {
  int count = 0;
  for (const Factor& factor : factors_of(value, statement)) {
    count += !factor.indices.empty();
    indices.insert(factor.indices.begin(), factor.indices.end());
  }
  return count > 1;
}

/// The addends of a product with a factor that is a sum of products; that alone where it has none.
std::vector<Addend> multiply_out(const Addend& addend, const Statement& statement) {
  const std::vector<Factor> factors = factors_of(addend.value, statement);
  for (size_t f = 0; f < factors.size(); ++f) {
    const std::vector<Addend> terms = addends_of(factors[f].value);
    if (factors[f].divides || terms.size() < 2) continue;
    const bool are_products = std::all_of(terms.begin(), terms.end(), [&](const Addend& term) {
      std::set<std::string> indices;
      return is_product(term.value, statement, indices) && indices == factors[f].indices;
    });
    if (!are_products) continue;
    std::vector<Addend> found;
    for (const Addend& term : terms) {
      std::vector<Factor> all = factors;
      all[f].value = term.value;
      for (Addend& part : multiply_out({product_of(all), addend.minus != term.minus}, statement))
        found.push_back(std::move(part));
    }
    return found;
  }
  return {addend};
}

/// Those of a value, and of sums that it multiplies.
size_t count_factors(const Expr& value, const Statement& statement) {
  size_t count = 0;
  for (const Factor& factor : factors_of(value, statement)) {
    const std::vector<Addend> terms = addends_of(factor.value);
    if (terms.size() < 2)
      ++count;
    else
      for (const Addend& term : terms) count += count_factors(term.value, statement);
  }
  return count;
}

class SplitSums : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  std::vector<Statement> split(const Statement& statement) {
    if (!is_plain_sum(statement, program_) || reduced_indices(statement).empty())
      return {statement};
    const std::vector<Addend> addends = addends_of(statement.value);
    // What the sum adds to is read and written once for all addends that stay together.
    const double points = points_of(statement.domain),
                 result = points_of(kept_indices(statement)) * machine::kElementOperations;
    double now = result, then = 0;
    std::vector<Statement> parts;
    Expr rest;
    for (const Addend& addend : addends) {
      std::set<std::string> indices;
      if (!is_product(addend.value, statement, indices) || indices.size() < statement.domain.size())
        return {statement};
      const double operations =
          points * static_cast<double>(count_factors(addend.value, statement));
      now += operations;
      double inner = 0;
      std::vector<Statement> made;
      for (const Addend& term : multiply_out(addend, statement)) {
        made.push_back(statement);
        made.back().value = term.value;
        const auto with_inner = nested_operations(made.back());
        made.back().value = with_sign(term);
        inner = with_inner ? inner + *with_inner : std::numeric_limits<double>::infinity();
      }
      if (std::isfinite(inner)) {
        then += inner;
        parts.insert(parts.end(), made.begin(), made.end());
      } else {
        then += operations;
        rest = rest.defined() ? rest + with_sign(addend) : with_sign(addend);
      }
    }
    if (rest.defined()) {
      then += result;
      parts.push_back(statement);
      parts.back().value = rest;
    }
    if (parts.size() < 2) return {statement};
    if (then > machine::kNestedShare * now ||
        now - then < static_cast<double>(machine_.least(machine::kNestedSavings)))
      return {statement};
    for (size_t k = 1; k < parts.size(); ++k) parts[k].initializes = false;
    return parts;
  }

 private:
  /// The operations of a sum of one product with its inner sums; nothing where it has none, or
  /// where these only multiply later.
  std::optional<double> nested_operations(const Statement& part) {
    const std::vector<Factor> factors = ir::factors_of(part);
    if (std::count_if(factors.begin(), factors.end(), [](const Factor& factor) {
          return has_data(factor.value);
        }) < machine::kNestedFactors)
      return std::nullopt;
    const std::vector<Statement> sums = nested({part}, program_, layouts_, machine_);
    if (sums.size() < 2) return std::nullopt;
    // What runs over all points in rows, one element at each, may as well multiply it there.
    const double points = points_of(part.domain);
    for (const Statement& sum : sums) {
      const std::vector<Factor> inside = ir::factors_of(sum);
      if (points_of(sum.domain) >= points &&
          std::any_of(inside.begin(), inside.end(),
                      [&](const Factor& factor) { return has_all_indices(factor, sum); }))
        return std::nullopt;
    }
    return operations_of(sums);
  }
};

}  // namespace

void split_sums(Program& program, Layouts& layouts, const CpuMachine& machine) {
  SplitSums pass(program, layouts, machine);
  replace_statements(program, [&](Statement& statement) { return pass.split(statement); });
}

}  // namespace tc::ir
