#include "lang/syntax/fresh_names.h"

#include <algorithm>

#include "lang/sema/builtins.h"
#include "lang/sema/calls.h"
#include "lang/sema/types.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {

FreshNames::FreshNames(const Function& function) { take(function); }

void FreshNames::take(const Function& function) {
  taken_.merge(names_of(function));
  taken_.insert(function.name.name);
  for (const TreeStatement& statement : function.statements) {
    for (const Identifier& index : statement.indices) taken_.insert(index.name);
    for (const WhereClause& clause : statement.clauses) taken_.insert(clause.name.name);
    walk(statement, [&](const Expression& e) { taken_.insert(e.name); });
  }
}

std::string FreshNames::fresh(const std::string& base) {
  std::string result = base;
  for (int k = 1; find_builtin(result) || find_type(result) || !taken_.insert(result).second; ++k)
    result = base + "_" + std::to_string(k);
  return result;
}

std::string FreshNames::index(const std::string& base) const {
  std::string result = base;
  for (int k = 1; taken_.count(result); ++k) result = base + "_" + std::to_string(k);
  return result;
}

std::string FreshNames::plain(const std::string& version) {
  std::string result = version.substr(0, version.find('#'));
  std::replace(result.begin(), result.end(), '.', '_');
  return result;
}

}  // namespace tc::lang
