#include "ir/nest_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "ir/reads.h"
#include "poly/strides.h"

namespace tc::ir {
namespace {

using Indices = std::set<std::string>;

// Tensors in the product: of two, x * a + x * b stays what it is, a NaN where x is infinite and a
// and b are not of one sign.
constexpr int kFactors = 3;
// Choices, no measurements: operations that a statement more has to save, the share of all that may
// be left, and what an element of a temporary costs, written once and read again.
constexpr int64_t kSaved = 20000;
constexpr double kShare = 0.9, kElement = 4;

struct Factor {
  Expr value;
  Indices indices;
};

void add_factors(const Expr& e, const Statement& statement, std::vector<Factor>& factors) {
  if (const auto* product = e.as<Halide::Internal::Mul>()) {
    add_factors(product->a, statement, factors);
    add_factors(product->b, statement, factors);
    return;
  }
  Factor factor{e, {}};
  for (const Iterator& it : statement.domain)
    if (Halide::Internal::expr_uses_var(e, it.name)) factor.indices.insert(it.name);
  factors.push_back(std::move(factor));
}

Expr product_of(const std::vector<Factor>& factors) {
  Expr product = factors.front().value;
  for (size_t f = 1; f < factors.size(); ++f) product = product * factors[f].value;
  return product;
}

double points_of(const std::vector<Iterator>& domain, const Indices& indices) {
  double points = 1;
  for (const Iterator& it : domain)
    if (indices.count(it.name)) points *= static_cast<double>(extent_of(it));
  return points;
}

/// Which reductions are summed first, over the product of which factors.
struct Inner {
  std::vector<Factor> inside, outside;
  Indices summed, kept;   ///< indices of the factors inside
  double operations = 0;  ///< of both statements
};

class NestSums {
 public:
  NestSums(Program& program, std::map<std::string, Layout>& layouts,
           const poly::CpuMachine& machine)
      : program_(program), layouts_(layouts), machine_(machine) {}

  void run() {
    put_in_front(program_, [&](Statement& statement) { return rewrite(statement); });
  }

 private:
  /// Leaves the statement the outermost sum, and returns those in front of it.
  std::vector<Statement> rewrite(Statement& statement) {
    std::vector<Statement> made;
    while (std::optional<Inner> inner = choose(statement)) {
      Statement sum = make_sum(statement, *inner);
      for (Statement& below : rewrite(sum)) made.push_back(std::move(below));
      made.push_back(std::move(sum));
    }
    return made;
  }

  std::optional<Inner> choose(const Statement& statement) const {
    const Type type = program_.tensor(statement.tensor).type;
    if (statement.reduction != Reduction::Sum || statement.guard.defined() ||
        is_scatter(statement) || !type.is_float() || type.bits() < 32 ||
        reads(statement, statement.tensor))
      return std::nullopt;
    std::vector<Factor> factors;
    add_factors(statement.value, statement, factors);
    if (std::count_if(factors.begin(), factors.end(),
                      [](const Factor& factor) { return has_data(factor.value); }) < kFactors)
      return std::nullopt;

    Indices all;
    for (const Iterator& it : statement.domain) all.insert(it.name);
    const double points = points_of(statement.domain, all);
    const double now = points * static_cast<double>(factors.size());
    std::optional<Inner> best;
    for (const Iterator& it : statement.domain) {
      if (!it.reduction) continue;
      std::optional<Inner> inner = sum_first(statement, factors, it.name);
      if (inner && (!best || inner->operations < best->operations)) best = inner;
    }
    if (!best || best->operations > kShare * now ||
        now - best->operations < static_cast<double>(machine_.least(kSaved)))
      return std::nullopt;
    return best;
  }

  /// The factors that depend on `index`, summed over it and over all that only they depend on.
  static std::optional<Inner> sum_first(const Statement& statement,
                                        const std::vector<Factor>& factors,
                                        const std::string& index) {
    Inner inner;
    Indices outside;
    for (const Factor& factor : factors) {
      // What scales every term may be what keeps their sum finite.
      bool goes_inside = factor.indices.empty() || factor.indices.count(index);
      (goes_inside ? inner.inside : inner.outside).push_back(factor);
      (goes_inside ? inner.kept : outside).insert(factor.indices.begin(), factor.indices.end());
    }
    if (inner.kept.empty() || inner.outside.empty()) return std::nullopt;
    Indices all, rest;  // of the domain, and without what is summed
    for (const Iterator& it : statement.domain) {
      bool summed = it.reduction && inner.kept.count(it.name) && !outside.count(it.name);
      (summed ? inner.summed : rest).insert(it.name);
      all.insert(it.name);
    }
    const auto products = std::count_if(inner.inside.begin(), inner.inside.end(),
                                        [](const Factor& f) { return !f.indices.empty(); });
    if (products == 1 && inner.kept == all) return std::nullopt;
    inner.operations =
        points_of(statement.domain, inner.kept) * static_cast<double>(inner.inside.size()) +
        points_of(statement.domain, rest) * static_cast<double>(inner.outside.size() + 1);
    for (const std::string& summed : inner.summed) inner.kept.erase(summed);
    inner.operations += points_of(statement.domain, inner.kept) * kElement;
    return inner;
  }

  /// The sum over what is inside, which the statement reads from then on.
  Statement make_sum(Statement& statement, const Inner& inner) {
    Statement sum = statement;
    sum.initializes = true;
    sum.domain.clear();
    sum.subscripts.clear();
    std::vector<Iterator> kept;
    std::string over;
    for (const Iterator& it : statement.domain) {
      if (inner.kept.count(it.name)) kept.push_back(it);
      if (inner.summed.count(it.name)) over += it.name;
    }
    // Neighbours in what is read are neighbours in what is written.
    std::stable_sort(kept.begin(), kept.end(), [&](const Iterator& a, const Iterator& b) {
      return rows_along(a.name, statement) < rows_along(b.name, statement);
    });
    std::vector<Expr> sizes;
    for (Iterator it : kept) {
      it.reduction = false;
      sum.domain.push_back(it);
      sum.subscripts.push_back(make_variable(it.name));
      sizes.push_back(it.extent);
    }
    for (const Iterator& it : statement.domain)
      if (inner.summed.count(it.name)) sum.domain.push_back(it);
    sum.value = product_of(inner.inside);
    sum.meaning.clear();
    const Tensor& tensor =
        add_temporary(program_, concat(statement.tensor, ".over_", over),
                      program_.tensor(statement.tensor).type, sizes, statement.where);
    layouts_[tensor.name] = row_major(tensor);
    sum.tensor = tensor.name;

    Expr value = read(tensor, sum.subscripts);
    for (const Factor& factor : inner.outside) value = value * factor.value;
    statement.value = value;
    statement.domain.erase(
        std::remove_if(statement.domain.begin(), statement.domain.end(),
                       [&](const Iterator& it) { return inner.summed.count(it.name) != 0; }),
        statement.domain.end());
    bool reduces = std::any_of(statement.domain.begin(), statement.domain.end(),
                               [](const Iterator& it) { return it.reduction; });
    if (!reduces && statement.initializes) {
      statement.reduction = Reduction::None;
      statement.initializes = false;
    }
    return sum;
  }

  /// How many of the statement's reads have neighbours along that index.
  int rows_along(const std::string& index, const Statement& statement) const {
    int count = 0;
    for (const poly::MemoryAccess& access : poly::accesses(program_, statement))
      count += !access.write && poly::stride_along(access, layouts_.at(access.tensor), index) == 1;
    return count;
  }

  Program& program_;
  std::map<std::string, Layout>& layouts_;
  const poly::CpuMachine& machine_;
};

}  // namespace

void nest_sums(Program& program, std::map<std::string, Layout>& layouts,
               const poly::CpuMachine& machine) {
  NestSums(program, layouts, machine).run();
}

}  // namespace tc::ir
