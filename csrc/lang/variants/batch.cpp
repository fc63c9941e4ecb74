#include "lang/variants/batch.h"

#include <functional>

#include "base/error.h"
#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

/// What is computed from a batch is one, in every statement about it.
std::set<std::string> find_batched(const Function& function, std::set<std::string> batched) {
  for (size_t before = 0; before != batched.size();) {
    before = batched.size();
    for (const TreeStatement& statement : function.statements)
      walk(statement, [&](const Expression& e) {
        if (is_access(e) && batched.count(e.name)) batched.insert(statement.target.name);
      });
  }
  return batched;
}

std::string make_batch(Function function, const std::set<std::string>& inputs) {
  const std::set<std::string> batched = find_batched(function, inputs);
  FreshNames names(function);
  const std::string size = names.fresh("Batch"), index = names.fresh("batch");
  function.name.name += "_batch";
  auto declare = [&](Declaration& declaration) {
    if (batched.count(declaration.name))
      declaration.dimensions.insert(declaration.dimensions.begin(), DimensionSize{size, 0, {}});
  };
  for (Declaration& parameter : function.parameters) declare(parameter);
  // The sizes of others are not printed.
  for (Declaration& result : function.returns)
    if (result.typed) declare(result);
  // Null for what stays as it is.
  std::function<ExpressionPtr(const Expression&)> extend;
  extend = [&](const Expression& e) -> ExpressionPtr {
    if (e.kind == ExpressionKind::Dimension && batched.count(e.name)) {
      auto dimension = std::make_shared<Expression>(e);
      ++dimension->dimension;
      return dimension;
    }
    if (!is_access(e) || !batched.count(e.name)) return nullptr;
    std::vector<ExpressionPtr> places = {name(index)};
    for (const ExpressionPtr& operand : e.operands) places.push_back(rewrite(operand, extend));
    return access(e.name, places);
  };
  for (TreeStatement& statement : function.statements) {
    rewrite(statement, extend);
    if (!batched.count(statement.target.name)) continue;
    statement.indices.insert(statement.indices.begin(), Identifier{index, {}});
    if (!statement.subscripts.empty())
      statement.subscripts.insert(statement.subscripts.begin(), nullptr);
    // Not every statement about a batch reads one.
    statement.clauses.insert(statement.clauses.begin(),
                             WhereClause{ClauseKind::Range, {index, {}}, integer(0), name(size)});
  }
  return print(function);
}

}  // namespace

std::string batch_text(const Definition& definition, const std::set<std::string>& inputs) {
  const ir::Program& signature = definition.signature;
  for (const std::string& input : inputs)
    if (!signature.tensors.count(input))
      throw UsageError("scalar ", input, " of ", definition.name,
                       " has one value for all examples of a batch");
  for (const std::string& output : signature.outputs)
    if (signature.tensor(output).role == ir::TensorRole::InOut)
      throw UsageError(definition.name, " adds to ", output,
                       ", which its caller passes: no batch of it can be computed; write +=! to "
                       "begin from zero");
  return make_batch(clone(*definition.tree), inputs);
}

}  // namespace tc::lang
