#include "lang/gradient/shared_weights.h"

#include "base/error.h"
#include "lang/sema/expansion.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

double operations_of(const Contribution& contribution) {
  double operations = expand(*contribution.weight, {}).operations;
  for (const ExpressionPtr& guard : contribution.guards)
    operations += expand(*guard, {}).operations;
  return operations;
}

}  // namespace

std::vector<GradientStatement> share_weights(const Step& step,
                                             std::vector<Contribution>* contributions,
                                             const std::function<Type(const std::string&)>& type_of,
                                             FreshNames* names) {
  double all = 0;
  for (const Contribution& each : *contributions) {
    const double operations = operations_of(each);
    if (operations > kMaximumOperations)
      throw LanguageError(step.where, "what ", FreshNames::plain(each.to),
                          " receives in the derivative of this statement has more than ",
                          kMaximumOperations,
                          " operations; give a part of the statement a tensor of its own");
    all += operations;
  }
  std::vector<GradientStatement> statements;
  // One of a reduction would be kept for every term.
  if (!is_long(all) || step.scatters() || !step.reduced.empty()) return statements;
  std::vector<bool> seen(contributions->size());
  for (size_t k = 0; k < contributions->size(); ++k) {
    const Contribution first = (*contributions)[k];
    if (seen[k] || !first.guards.empty() || is_access(*first.weight)) continue;
    std::vector<Contribution*> same;
    for (size_t other = k; other < contributions->size(); ++other) {
      Contribution& each = (*contributions)[other];
      if (!each.guards.empty() || !equal(*each.weight, *first.weight)) continue;
      seen[other] = true;
      same.push_back(&each);
    }
    if (same.size() < 2) continue;
    const std::string weight = names->fresh(first.source + "_weight");
    statements.push_back({weight, step.places, ir::Reduction::None, true, first.weight,
                          ranges_of(step.left, step.ranges)});
    for (Contribution* each : same) {
      each->weight = read(weight, step.places, type_of(each->to));
      each->source = weight;
    }
  }
  return statements;
}

}  // namespace tc::lang
