#include "lang/variants/size_parameters.h"

#include <map>
#include <memory>
#include <utility>

#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

using Size = SizesAsParameters::Size;

class SizeParameters {
 public:
  explicit SizeParameters(const Function& function)
      : function_(clone(function)), names_(function_) {
    for (size_t k = 0; k < function_.parameters.size(); ++k) {
      const std::vector<DimensionSize>& dimensions = function_.parameters[k].dimensions;
      for (size_t d = 0; d < dimensions.size(); ++d)
        places_.emplace(dimensions[d].name, Size{static_cast<int>(k), static_cast<int>(d)});
    }
  }

  SizesAsParameters run() {
    for (TreeStatement& statement : function_.statements) {
      change(statement.value);
      for (WhereClause& clause : statement.clauses)
        if (clause.kind == ClauseKind::Let) change(clause.first);
    }
    if (result_.sizes.empty()) return {};
    function_.name.name += "_sized";
    for (const std::string& parameter : parameters_)
      function_.parameters.push_back({parameter, true, Halide::Int(32), {}, {}, {}});
    result_.text = print(function_);
    return std::move(result_);
  }

 private:
  void change(ExpressionPtr& e) {
    e = rewrite(e, [&](const Expression& node) { return changed(node); });
  }

  /// Null for what is looked into.
  ExpressionPtr changed(const Expression& e) {
    if (is_access(e) || is_comparison(e)) return std::make_shared<Expression>(e);
    if (e.kind == ExpressionKind::Name && e.binding == Binding::Size) return parameter(e.name);
    if (e.kind == ExpressionKind::Dimension)
      for (const Declaration& input : function_.parameters)
        if (input.name == e.name) return parameter(input.dimensions.at(e.dimension).name);
    return nullptr;
  }

  /// What stands for a size; null for one that is a number.
  ExpressionPtr parameter(const std::string& size) {
    if (size.empty()) return nullptr;
    auto [known, is_new] = known_.emplace(size, "");
    if (is_new) {
      known->second = names_.fresh("whole_" + size);
      parameters_.push_back(known->second);
      result_.sizes.push_back(places_.at(size));
    }
    return name(known->second);
  }

  Function function_;
  FreshNames names_;
  std::map<std::string, Size> places_;        ///< of sizes, the first
  std::map<std::string, std::string> known_;  ///< sizes and the parameters that stand for them
  std::vector<std::string> parameters_;
  SizesAsParameters result_;
};

}  // namespace

SizesAsParameters sizes_as_parameters(const Definition& definition) {
  return SizeParameters(*definition.tree).run();
}

}  // namespace tc::lang
