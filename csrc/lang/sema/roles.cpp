#include "lang/sema/roles.h"

#include <algorithm>
#include <set>

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

bool reads(const Expression& e, const std::string& tensor) {
  return any(e, [&](const Expression& node) { return is_access(node) && node.name == tensor; });
}

/// Whether an access has the indices of a left-hand side in their own dimensions but the second.
bool is_parallel(const Expression& read, const TreeStatement& statement) {
  if (read.operands.size() != statement.indices.size()) return false;
  for (size_t d = 0; d < read.operands.size(); ++d)
    if (d != 1 &&
        (statement.scattered(d) || !mentions(*read.operands[d], statement.indices[d].name)))
      return false;
  return true;
}

/// The first input found on the way back from a tensor; `seen` are those that were passed.
std::string find_parallel(const Function& function, const std::string& tensor,
                          std::set<std::string>* seen) {
  seen->insert(tensor);
  for (const Declaration& parameter : function.parameters)
    if (parameter.name == tensor) return tensor;
  for (const TreeStatement& statement : function.statements) {
    if (statement.target.name != tensor) continue;
    std::string found;
    auto visit = [&](const Expression& e) {
      if (!found.empty() || e.binding != Binding::Tensor || e.kind != ExpressionKind::Apply ||
          seen->count(e.name) || !is_parallel(e, statement))
        return;
      found = find_parallel(function, e.name, seen);
    };
    walk(*statement.value, visit);
    for (const WhereClause& clause : statement.clauses)
      if (clause.kind == ClauseKind::Let) walk(*clause.first, visit);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

bool reads(const TreeStatement& statement, const std::string& tensor) {
  bool found = reads(*statement.value, tensor);
  for (const ExpressionPtr& subscript : statement.subscripts)
    found = found || (subscript && reads(*subscript, tensor));
  for (const WhereClause& clause : statement.clauses)
    found = found || (clause.kind == ClauseKind::Let && reads(*clause.first, tensor));
  return found;
}

bool initial_contents_read(const Function& function, const std::string& tensor,
                           std::vector<std::string>* warnings) {
  for (const TreeStatement& statement : function.statements) {
    if (reads(statement, tensor)) return true;
    if (statement.target.name != tensor) continue;
    bool accumulates = statement.reduction != ir::Reduction::None && !statement.initializes;
    if (accumulates) {
      std::string op(statement.operator_where.str());
      warn(warnings, statement.operator_where, "Reduction without initialization. If ", tensor,
           " is not pre-initialized before calling the TC function, consider using the !-suffixed "
           "reduction operator ",
           op, "! instead of ", op);
    }
    return accumulates;
  }
  return false;
}

bool elements_read(const Function& function, const std::string& input) {
  return std::any_of(function.statements.begin(), function.statements.end(),
                     [&](const TreeStatement& statement) { return reads(statement, input); });
}

std::string laid_out_like(const Function& function, const std::string& result) {
  std::set<std::string> seen;
  return find_parallel(function, result, &seen);
}

}  // namespace tc::lang
