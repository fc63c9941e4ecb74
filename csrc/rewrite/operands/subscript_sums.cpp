#include "rewrite/operands/subscript_sums.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

/// What an expression adds for each index; nothing where that varies, as of quotients.
std::optional<Sum> match_sum(const Expr& e, const std::vector<Iterator>& domain) {
  Sum sum;
  for (const Iterator& it : domain) {
    std::optional<int64_t> step = step_along(e, it.name);
    if (!step) return std::nullopt;
    if (*step != 0 && extent_of(it) > 1) sum.terms.emplace_back(it, *step);
  }
  return sum;
}

/// Finds the range of a sum; whether it takes all values there.
bool find_range(Sum& sum) {
  // Multiples of one index are its own values.
  if (sum.terms.size() == 1) sum.terms[0].second = 1;
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
  for (const auto& [it, step] : sum.terms) {
    if (std::abs(step) > sum.count) return false;
    const int64_t reach = (extent_of(it) - 1) * std::abs(step);
    if (step < 0) sum.first -= reach;
    sum.count += reach;
  }
  return true;
}

/// Adds the largest sums that a subscript is made of; whether these are without gaps.
bool add_sums(const Expr& subscript, const std::vector<Iterator>& domain, std::vector<Sum>& sums) {
  bool known = true;
  walk(subscript, [&](const Expr& e) {
    if (e.type() != Halide::Int(32)) return true;
    std::optional<Sum> sum = match_sum(e, domain);
    if (!sum) return true;
    known = known && find_range(*sum);
    if (sum->terms.empty()) return false;
    const Expr value = sum->value();
    if (std::none_of(sums.begin(), sums.end(),
                     [&](const Sum& other) { return equal(other.value(), value); }))
      sums.push_back(*std::move(sum));
    return false;
  });
  return known;
}

}  // namespace

Expr Sum::value() const {
  Expr sum = 0;
  for (const auto& [it, step] : terms) sum = sum + make_variable(it.name) * static_cast<int>(step);
  return simplify(sum);
}

bool Sum::moved_by(const Iterator& it) const {
  return std::any_of(terms.begin(), terms.end(),
                     [&](const auto& term) { return term.first.name == it.name; });
}

bool Sum::has_all_values() const {
  int64_t values = 1;
  for (const auto& [it, step] : terms) values += (extent_of(it) - 1) * std::abs(step);
  return values == count;
}

std::string Sum::index_name(const Statement& statement) const {
  std::string name = terms[0].first.name;
  for (size_t i = 1; i < terms.size(); ++i) name += "_" + terms[i].first.name;
  return terms.size() > 1 ? unused_index(statement, name) : name;
}

/// Its multiple, the smallest, is 1 or -1: what the others leave of the sum.
Expr Sum::first_index(const std::string& name) const {
  const auto& [it, sign] = terms[0];
  const Expr others = value() - make_variable(it.name) * static_cast<int>(sign);
  return simplify((make_variable(name) + static_cast<int>(first) - others) *
                  static_cast<int>(sign));
}

SubscriptSums find_sums(const Expr& e, const std::vector<Iterator>& domain) {
  SubscriptSums found;
  visit_graph(e, [&](const Call* op, Visitor& self) {
    self.inside(op);
    if (read_name(op).empty()) return;
    found.tensors.insert(read_name(op));
    if (found.first.empty() && !op->args.empty()) found.first = read_name(op);
    for (const Expr& subscript : op->args) {
      if (subscript.type() != Halide::Int(32) || has_data(subscript)) continue;
      found.known = add_sums(subscript, domain, found.sums) && found.known;
    }
  });
  return found;
}

}  // namespace tc::ir
