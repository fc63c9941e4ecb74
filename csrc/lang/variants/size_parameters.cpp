#include "lang/variants/size_parameters.h"

#include <map>
#include <memory>

#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/printer.h"

namespace tc::lang {

SizesAsParameters sizes_as_parameters(const Definition& definition) {
  Function function = clone(*definition.tree);
  FreshNames names(function);
  std::map<std::string, SizesAsParameters::Size> places;  // of sizes, the first
  for (size_t k = 0; k < function.parameters.size(); ++k) {
    const std::vector<DimensionSize>& dimensions = function.parameters[k].dimensions;
    for (size_t d = 0; d < dimensions.size(); ++d)
      places.emplace(dimensions[d].name,
                     SizesAsParameters::Size{static_cast<int>(k), static_cast<int>(d)});
  }
  SizesAsParameters result;
  std::map<std::string, std::string> known;  // sizes and the parameters that stand for them
  std::vector<Declaration> parameters;
  // What stands for a size; null for one that is a number.
  auto parameter = [&](const std::string& size) -> ExpressionPtr {
    if (size.empty()) return nullptr;
    auto [entry, is_new] = known.emplace(size, "");
    if (is_new) {
      entry->second = names.fresh("whole_" + size);
      parameters.push_back({entry->second, true, Halide::Int(32), {}, {}, {}});
      result.sizes.push_back(places.at(size));
    }
    return name(entry->second);
  };
  // Null for what is looked into.
  auto change = [&](const Expression& e) -> ExpressionPtr {
    if (is_access(e) || is_comparison(e)) return std::make_shared<Expression>(e);
    if (e.kind == ExpressionKind::Name && e.binding == Binding::Size) return parameter(e.name);
    if (e.kind == ExpressionKind::Dimension)
      for (const Declaration& input : function.parameters)
        if (input.name == e.name) return parameter(input.dimensions.at(e.dimension).name);
    return nullptr;
  };
  for (TreeStatement& statement : function.statements) {
    statement.value = rewrite(statement.value, change);
    for (WhereClause& clause : statement.clauses)
      if (clause.kind == ClauseKind::Let) clause.first = rewrite(clause.first, change);
  }
  if (result.sizes.empty()) return {};
  function.name.name += "_sized";
  function.parameters.insert(function.parameters.end(), parameters.begin(), parameters.end());
  result.text = print(function);
  return result;
}

}  // namespace tc::lang
