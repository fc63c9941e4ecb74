#include "lang/variants/batch.h"

#include "base/error.h"
#include "lang/sema/calls.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

class Batcher {
 public:
  Batcher(const Definition& definition, const std::set<std::string>& inputs)
      : function_(clone(*definition.tree)), batched_(inputs) {
    FreshNames names(function_);
    size_ = names.fresh("Batch");
    index_ = names.fresh("batch");
  }

  std::string run() {
    find_batched();
    function_.name.name += "_batch";
    for (Declaration& parameter : function_.parameters) declare(parameter);
    for (Declaration& result : function_.returns)
      if (!result.dimensions.empty()) declare(result);
    for (TreeStatement& statement : function_.statements) extend(statement);
    return print(function_);
  }

 private:
  /// What is computed from a batch is one, in every statement about it.
  void find_batched() {
    for (size_t before = 0; before != batched_.size();) {
      before = batched_.size();
      for (const TreeStatement& statement : function_.statements)
        walk(statement, [&](const Expression& e) {
          if (is_read(e)) batched_.insert(statement.target.name);
        });
    }
  }
  bool is_read(const Expression& e) const { return is_access(e) && batched_.count(e.name); }

  void declare(Declaration& declaration) const {
    if (!batched_.count(declaration.name)) return;
    declaration.dimensions.insert(declaration.dimensions.begin(), DimensionSize{size_, 0, {}});
  }

  void extend(TreeStatement& statement) const {
    rewrite(statement, [&](const Expression& node) { return extended(node); });
    if (!batched_.count(statement.target.name)) return;
    statement.indices.insert(statement.indices.begin(), Identifier{index_, {}});
    if (!statement.subscripts.empty())
      statement.subscripts.insert(statement.subscripts.begin(), nullptr);
    // Not every statement about a batch reads one.
    statement.clauses.insert(statement.clauses.begin(),
                             WhereClause{ClauseKind::Range, {index_, {}}, integer(0), name(size_)});
  }

  /// Null for what stays as it is.
  ExpressionPtr extended(const Expression& e) const {
    if (e.kind == ExpressionKind::Dimension && batched_.count(e.name)) {
      auto dimension = std::make_shared<Expression>(e);
      ++dimension->dimension;
      return dimension;
    }
    if (!is_read(e)) return nullptr;
    std::vector<ExpressionPtr> places = {name(index_)};
    for (const ExpressionPtr& operand : e.operands)
      places.push_back(rewrite(operand, [&](const Expression& node) { return extended(node); }));
    return access(e.name, places);
  }

  Function function_;
  std::set<std::string> batched_;
  std::string size_, index_;
};

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
  return Batcher(definition, inputs).run();
}

}  // namespace tc::lang
