#include "lang/variants/scalar_tensors.h"

#include "base/error.h"
#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/printer.h"

namespace tc::lang {

std::string scalar_tensors_text(const Definition& definition,
                                const std::set<std::string>& scalars) {
  for (const std::string& scalar : scalars) {
    auto found = definition.signature.scalars.find(scalar);
    if (found == definition.signature.scalars.end())
      throw UsageError(scalar, " is no scalar of ", definition.name);
    if (found->second.specialized)
      throw UsageError("scalar ", scalar, " of ", definition.name,
                       " decides sizes or subscripts: pass a number for it");
  }
  Function function = clone(*definition.tree);
  function.name.name += "_tensors";
  for (Declaration& parameter : function.parameters) {
    if (scalars.count(parameter.name)) parameter.dimensions.push_back({"", 1, {}});
  }
  for (TreeStatement& statement : function.statements)
    rewrite(statement, [&](const Expression& node) -> ExpressionPtr {
      // Also a().
      bool is_read = node.binding == Binding::Scalar && scalars.count(node.name);
      return is_read ? access(node.name, {integer(0)}) : nullptr;
    });
  return print(function);
}

}  // namespace tc::lang
