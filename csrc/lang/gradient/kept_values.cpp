#include "lang/gradient/kept_values.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/passes.h"
#include "ir/operations.h"
#include "lang/gradient/versions.h"
#include "lang/sema/builtins.h"
#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

const Pass kKeepValues("derivative", "keep_values");

/// The indices of a step that an expression depends on.
std::set<std::string> indices_of(const Expression& e, const Step& step) {
  std::set<std::string> indices;
  for (const auto& [index, range] : step.ranges)
    if (mentions(e, index)) indices.insert(index);
  return indices;
}

/// Whether neither reads all that the other does.
bool lack_each_other(const std::set<std::string>& a, const std::set<std::string>& b) {
  return !std::includes(a.begin(), a.end(), b.begin(), b.end()) &&
         !std::includes(b.begin(), b.end(), a.begin(), a.end());
}

/// Whether it calls a function that takes many instructions.
bool is_costly(const Expression& e) {
  if (e.kind != ExpressionKind::Apply || e.binding != Binding::Builtin) return false;
  const Builtin* builtin = find_builtin(e.name);
  return builtin && !builtin->composed && !ir::is_cheap(builtin->name);
}

/// Whether keeping the results of a step costs less than computing them again.
bool is_worth_keeping(const Step& step) {
  if (step.reduction == ir::Reduction::None || ir::is_position(step.reduction)) return false;
  std::vector<std::set<std::string>> reads;
  size_t most = 0;
  bool calls = false;
  walk(*step.value, [&](const Expression& node) {
    calls = calls || is_costly(node);
    if (!is_access(node)) return;
    reads.push_back(indices_of(node, step));
    most = std::max(most, node.operands.size());
  });
  if (calls || step.places.size() < most) return true;
  return std::any_of(reads.begin(), reads.end(), [&](const auto& a) {
    return std::any_of(reads.begin(), reads.end(),
                       [&](const auto& b) { return lack_each_other(a, b); });
  });
}

std::string text_with_kept(const Definition& definition, const GradientRequest& request) {
  const std::set<std::string> recomputed = recomputed_versions(definition, request);
  const Versions versions = number_versions(definition, request.scalars);
  Function function = clone(*definition.tree);
  const size_t results = function.returns.size();
  for (const Step& step : versions.steps) {
    const std::string tensor = FreshNames::plain(step.target);
    const std::vector<std::string>& outputs = definition.signature.outputs;
    // Steps in between have names of their own.
    const auto last = versions.last.find(tensor);
    if (last == versions.last.end() || !recomputed.count(step.target) || !step.covers ||
        !step.initializes || step.scatters() || !step.type.is_float() ||
        step.target != version_name(tensor, last->second) ||
        std::count(outputs.begin(), outputs.end(), tensor) || !is_worth_keeping(step))
      continue;
    function.returns.push_back({tensor, /*typed=*/false, {}, {}, {}, {}});
  }
  return function.returns.size() > results ? print(function) : "";
}

}  // namespace

std::string keeping_text(const Definition& definition, const GradientRequest& request) {
  return run_pass(
      kKeepValues, [&] { return text_with_kept(definition, request); },
      [](const std::string& text) { return !text.empty(); });
}

}  // namespace tc::lang
