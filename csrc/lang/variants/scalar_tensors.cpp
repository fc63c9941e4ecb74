#include "lang/variants/scalar_tensors.h"

#include "base/error.h"
#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

class ScalarTensors {
 public:
  ScalarTensors(const Function& function, const std::set<std::string>& scalars)
      : function_(clone(function)), scalars_(scalars) {}

  std::string run() {
    function_.name.name += "_tensors";
    for (Declaration& parameter : function_.parameters) {
      if (!scalars_.count(parameter.name)) continue;
      DimensionSize one;
      one.constant = 1;
      parameter.dimensions.push_back(one);
    }
    for (TreeStatement& statement : function_.statements) {
      change(statement.value);
      for (ExpressionPtr& subscript : statement.subscripts) change(subscript);
      for (WhereClause& clause : statement.clauses) {
        change(clause.first);
        change(clause.last);
      }
    }
    return print(function_);
  }

 private:
  void change(ExpressionPtr& e) const {
    if (!e) return;
    e = rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      bool is_read = node.kind == ExpressionKind::Name && node.binding == Binding::Scalar &&
                     scalars_.count(node.name);
      return is_read ? access(node.name, {integer(0)}) : nullptr;
    });
  }

  Function function_;
  const std::set<std::string>& scalars_;
};

}  // namespace

std::string scalar_tensors_text(const Definition& definition,
                                const std::set<std::string>& scalars) {
  for (const std::string& scalar : scalars) {
    auto found = definition.signature.scalars.find(scalar);
    if (found == definition.signature.scalars.end())
      throw UsageError(concat(scalar, " is no scalar of ", definition.name));
    if (found->second.specialized)
      throw UsageError(concat("scalar ", scalar, " of ", definition.name,
                              " decides sizes or subscripts: pass a number for it"));
  }
  return ScalarTensors(*definition.tree, scalars).run();
}

}  // namespace tc::lang
