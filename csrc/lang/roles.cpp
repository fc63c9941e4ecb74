#include "lang/roles.h"

#include <algorithm>

#include "base/error.h"

namespace tc::lang {
namespace {

bool reads(const Expression& e, const std::string& tensor) {
  if (e.binding == Binding::Tensor && e.kind != ExpressionKind::Dimension && e.name == tensor) {
    return true;
  }
  return std::any_of(e.operands.begin(), e.operands.end(),
                     [&](const ExpressionPtr& operand) { return reads(*operand, tensor); });
}

bool reads(const TreeStatement& statement, const std::string& tensor) {
  if (reads(*statement.value, tensor)) return true;
  for (const ExpressionPtr& subscript : statement.subscripts) {
    if (subscript && reads(*subscript, tensor)) return true;
  }
  return std::any_of(statement.clauses.begin(), statement.clauses.end(),
                     [&](const WhereClause& clause) {
                       return clause.kind == ClauseKind::Let && reads(*clause.first, tensor);
                     });
}

}  // namespace

bool initial_contents_read(const Function& function, const std::string& tensor,
                           std::vector<std::string>* warnings) {
  for (const TreeStatement& statement : function.statements) {
    if (reads(statement, tensor)) return true;
    if (statement.target.name != tensor) continue;
    bool accumulates = statement.reduction != ir::Reduction::None && !statement.initializes;
    if (accumulates) {
      std::string op(statement.operator_where.str());
      warn(warnings, statement.operator_where,
           concat("Reduction without initialization. If ", tensor,
                  " is not pre-initialized before calling the TC function, consider using the "
                  "!-suffixed reduction operator ",
                  op, "! instead of ", op));
    }
    return accumulates;
  }
  return false;
}

bool elements_read(const Function& function, const std::string& input) {
  return std::any_of(function.statements.begin(), function.statements.end(),
                     [&](const TreeStatement& statement) { return reads(statement, input); });
}

void warn(std::vector<std::string>* warnings, const SourceRange& where,
          const std::string& message) {
  warnings->push_back(LanguageError(where, "warning: " + message).what());
}

}  // namespace tc::lang
