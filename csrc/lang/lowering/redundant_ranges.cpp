#include "lang/lowering/redundant_ranges.h"

#include <algorithm>

#include "base/error.h"
#include "lang/lowering/lowering.h"
#include "lang/lowering/ranges.h"
#include "lang/sema/sema.h"
#include "lang/syntax/parser.h"
#include "lang/syntax/printer.h"

namespace tc::lang {
namespace {

using Ranges = std::vector<std::map<std::string, Range>>;

struct Inferred {
  Ranges ranges;
  ir::Program signature;
  size_t warnings = 0;
};

Inferred infer_ranges_of(const Function& function) {
  std::vector<Function> parsed = parse_text(print(function));
  std::vector<std::string> warnings;
  Inferred result;
  result.signature = check(&parsed[0], &warnings);
  result.warnings = warnings.size();
  result.ranges =
      infer(parsed[0], result.signature, lower(parsed[0], result.signature, {})).statements;
  return result;
}

bool same(const Ranges& a, const Ranges& b, const ir::Program& signature) {
  auto same_range = [&](const auto& x, const auto& y) {
    return x.first == y.first && always_equal(x.second, y.second, signature);
  };
  return std::equal(a.begin(), a.end(), b.begin(), [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_range);
  });
}

}  // namespace

bool drop_redundant_ranges(Function* function) {
  const Inferred wanted = infer_ranges_of(*function);
  auto keeps_ranges = [&] {
    try {
      const Inferred found = infer_ranges_of(*function);
      return found.warnings <= wanted.warnings &&
             same(wanted.ranges, found.ranges, wanted.signature);
    } catch (const LanguageError&) {
      return false;
    }
  };
  bool dropped = false;
  for (TreeStatement& statement : function->statements) {
    std::vector<WhereClause> all = std::move(statement.clauses);
    statement.clauses.clear();
    if (all.empty()) continue;
    if (keeps_ranges()) {
      dropped = true;
      continue;
    }
    statement.clauses = all;
    for (const WhereClause& clause : all) {
      std::vector<WhereClause> before = statement.clauses;
      auto at = std::find_if(statement.clauses.begin(), statement.clauses.end(),
                             [&](const WhereClause& c) { return c.name.name == clause.name.name; });
      statement.clauses.erase(at);
      if (!keeps_ranges()) statement.clauses = before;
    }
    dropped = dropped || statement.clauses.size() < all.size();
  }
  return dropped;
}

}  // namespace tc::lang
