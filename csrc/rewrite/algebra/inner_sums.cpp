#include "rewrite/algebra/inner_sums.h"

#include <algorithm>

#include "base/error.h"
#include "ir/accesses.h"
#include "ir/expressions/reads.h"
#include "ir/visit.h"

namespace tc::ir {

namespace {

void add_factors(const Expr& e, const Statement& statement, bool divides,
                 std::vector<Factor>& factors) {
  if (const auto* product = e.as<Mul>()) {
    add_factors(product->a, statement, divides, factors);
    add_factors(product->b, statement, divides, factors);
    return;
  }
  const auto* quotient = e.as<Div>();
  if (quotient && e.type().is_float()) {
    add_factors(quotient->a, statement, divides, factors);
    add_factors(quotient->b, statement, !divides, factors);
    return;
  }
  Factor factor{e, {}, divides};
  for (const Iterator& it : statement.domain)
    if (expr_uses_var(e, it.name)) factor.indices.insert(it.name);
  factors.push_back(std::move(factor));
}

/// How many of the statement's reads have neighbours along that index.
int rows_along(const std::string& index, const Statement& statement, const Program& program,
               const Layouts& layouts) {
  int count = 0;
  for (const MemoryAccess& access : accesses(program, statement))
    count += !access.write && stride_along(access, layouts.at(access.tensor), index) == 1;
  return count;
}

}  // namespace

std::vector<Factor> factors_of(const Statement& statement) {
  std::vector<Factor> factors;
  add_factors(statement.value, statement, false, factors);
  return factors;
}

Expr product_of(const std::vector<Factor>& factors) {
  Expr product;
  for (const Factor& factor : factors)
    if (!factor.divides) product = product.defined() ? product * factor.value : factor.value;
  if (!product.defined()) product = make_one(factors.front().value.type());
  for (const Factor& factor : factors)
    if (factor.divides) product = product / factor.value;
  return product;
}

Expr multiply(const Expr& product, const Factor& factor) {
  return factor.divides ? product / factor.value : product * factor.value;
}

std::vector<Addend> addends_of(const Expr& e) {
  const auto* sum = e.as<Add>();
  const auto* difference = e.as<Sub>();
  if (is_const_zero(e)) return {};
  if (!sum && !difference) return {{e}};
  std::vector<Addend> addends = addends_of(sum ? sum->a : difference->a);
  for (Addend addend : addends_of(sum ? sum->b : difference->b)) {
    if (difference) addend.minus = !addend.minus;
    addends.push_back(addend);
  }
  return addends;
}

Expr sum_of(const std::vector<Addend>& addends) {
  Expr sum;
  for (const Addend& addend : addends) {
    if (!sum.defined())
      sum = addend.minus ? make_zero(addend.value.type()) - addend.value : addend.value;
    else
      sum = addend.minus ? sum - addend.value : sum + addend.value;
  }
  return sum;
}

bool join_factors(std::vector<Factor>& factors, const JoinCost& cost) {
  for (size_t f = 0; f < factors.size(); ++f) {
    const Factor& factor = factors[f];
    Factor* best = nullptr;
    double least = 0;
    for (Factor& into : factors) {
      if (&into == &factor || into.divides ||
          !std::includes(into.indices.begin(), into.indices.end(), factor.indices.begin(),
                         factor.indices.end()))
        continue;
      const double found = cost(factor, into);
      if (found >= 0 && (!best || found < least)) best = &into, least = found;
    }
    if (!best) continue;
    best->value = multiply(best->value, factor);
    factors.erase(factors.begin() + static_cast<long>(f));
    join_factors(factors, cost);
    return true;
  }
  return false;
}

bool is_plain_sum(const Statement& statement, const Program& program) {
  const Type type = program.tensor(statement.tensor).type;
  return statement.reduction == Reduction::Sum && !statement.guard.defined() &&
         !is_scatter(statement) && type.is_float() && type.bits() >= 32 &&
         !reads(statement, statement.tensor);
}

double points_of(const std::vector<Iterator>& domain, const std::set<std::string>& indices) {
  double points = 1;
  for (const Iterator& it : domain)
    if (indices.count(it.name)) points *= static_cast<double>(extent_of(it));
  return points;
}

double points_of(const std::vector<Iterator>& domain) {
  double points = 1;
  for (const Iterator& it : domain) points *= static_cast<double>(extent_of(it));
  return points;
}

double elements_along(const std::string& index, const Expr& value,
                      const std::vector<Iterator>& domain) {
  double elements = 0;
  for_each<Call>(value, [&](const Call* call) {
    if (read_name(call).empty() || call->args.empty() || !expr_uses_var(call->args.back(), index))
      return;
    std::set<std::string> indices;
    for (const Expr& subscript : call->args) indices.merge(variables_of(subscript));
    elements = std::max(elements, points_of(domain, indices));
  });
  return elements;
}

Statement take_out(const InnerSum& inner, Statement& statement, Program& program,
                   Layouts& layouts) {
  Statement sum = statement;
  sum.initializes = true;
  std::vector<Iterator> kept;
  std::string over;
  for (const Iterator& it : statement.domain) {
    if (inner.kept.count(it.name)) kept.push_back(it);
    if (inner.summed.count(it.name)) over += it.name;
  }
  // Neighbours in what is read are neighbours in what is written.
  std::stable_sort(kept.begin(), kept.end(), [&](const Iterator& a, const Iterator& b) {
    return rows_along(a.name, statement, program, layouts) <
           rows_along(b.name, statement, program, layouts);
  });
  sum.domain = kept;
  for (Iterator& it : sum.domain) it.reduction = false;
  for (const Iterator& it : statement.domain)
    if (inner.summed.count(it.name)) sum.domain.push_back(it);
  sum.value = product_of(inner.inside);
  sum.meaning.clear();
  write_temporary(program, sum, concat(statement.tensor, ".over_", over),
                  program.tensor(statement.tensor).type, kept);
  const Tensor& tensor = program.tensor(sum.tensor);
  layouts[tensor.name] = row_major(tensor);
  read_instead(inner, tensor, sum.subscripts, statement);
  return sum;
}

void read_instead(const InnerSum& inner, const Tensor& sum, const std::vector<Expr>& place,
                  Statement& statement) {
  statement.value = read(sum, place);
  for (const Factor& factor : inner.outside) statement.value = multiply(statement.value, factor);
  statement.domain.erase(
      std::remove_if(statement.domain.begin(), statement.domain.end(),
                     [&](const Iterator& it) { return inner.summed.count(it.name) != 0; }),
      statement.domain.end());
  if (reduced_indices(statement).empty() && statement.initializes) assign(statement);
}

}  // namespace tc::ir
