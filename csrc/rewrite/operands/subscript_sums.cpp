#include "rewrite/operands/subscript_sums.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/expressions/reads.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

/// The sum in a subscript; nothing where a value is left out or the subscript is no such sum.
std::optional<Sum> match_sum(const Expr& subscript, const std::vector<Iterator>& domain) {
  Sum sum;
  for (const Iterator& it : domain) {
    std::optional<int64_t> step = step_along(subscript, it.name);
    if (!step) return std::nullopt;
    if (*step != 0 && extent_of(it) > 1) sum.terms.emplace_back(it, *step);
  }
  // Multiples of one index are its own values.
  if (sum.terms.size() == 1) sum.terms[0].second = 1;
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
  for (const auto& [it, step] : sum.terms) {
    if (std::abs(step) > sum.count) return std::nullopt;
    const int64_t reach = (extent_of(it) - 1) * std::abs(step);
    if (step < 0) sum.first -= reach;
    sum.count += reach;
  }
  return sum;
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

SubscriptSums find_sums(const Expr& e, const std::vector<Iterator>& domain) {
  SubscriptSums found;
  visit_graph(e, [&](const Call* op, Visitor& self) {
    self.inside(op);
    if (read_name(op).empty()) return;
    found.tensors.insert(read_name(op));
    if (found.first.empty() && !op->args.empty()) found.first = read_name(op);
    for (const Expr& subscript : op->args) {
      if (subscript.type() != Halide::Int(32) || has_data(subscript)) continue;
      std::optional<Sum> sum = match_sum(subscript, domain);
      found.known = found.known && sum;
      if (!sum || sum->terms.empty()) continue;
      Expr value = sum->value();
      if (std::none_of(found.sums.begin(), found.sums.end(),
                       [&](const Sum& other) { return equal(other.value(), value); }))
        found.sums.push_back(*sum);
    }
  });
  return found;
}

}  // namespace tc::ir
