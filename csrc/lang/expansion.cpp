#include "lang/expansion.h"

#include <algorithm>

#include "base/error.h"

namespace tc::lang {
namespace {

/// How often the operands of an integer division or of abs stand in what these are lowered to
/// (ir::c_div, c_mod), at most.
int copies_of_operands(const Expression& e) {
  if (!e.type.is_int()) return 1;
  if (e.kind == ExpressionKind::Apply && e.binding == Binding::Builtin && e.name == "abs") return 3;
  bool division =
      e.kind == ExpressionKind::Binary && (e.op == Operator::Divide || e.op == Operator::Remainder);
  if (!division || e.binding != Binding::None || e.constant) return 1;
  const std::optional<Constant>& divisor = e.operands[1]->constant;
  if (!divisor || divisor->integer < 0) return 7;
  return e.op == Operator::Divide ? 2 : 4;
}

void expect_small(const Expansion& expansion, const SourceRange& where) {
  if (expansion.depth > kMaximumDepth) {
    throw LanguageError(where,
                        concat("with its lets and calls replaced, this "
                               "expression is nested more than ",
                               kMaximumDepth, " levels deep; split it over several statements"));
  }
  if (expansion.operations > kMaximumOperations) {
    throw LanguageError(
        where, concat("with its lets and calls replaced, this "
                      "expression has more than ",
                      kMaximumOperations, " operations; give a part of it a tensor of its own"));
  }
}

}  // namespace

Expansion expand(const Expression& e, const std::map<std::string, Expansion>& names) {
  if (e.kind == ExpressionKind::Name) {
    auto found = names.find(e.name);
    return found == names.end() ? Expansion() : found->second;
  }
  Expansion result;
  int copies = copies_of_operands(e);
  for (const ExpressionPtr& operand : e.operands) {
    Expansion part = expand(*operand, names);
    result.operations += copies * part.operations;
    result.depth = std::max(result.depth, part.depth + 1);
  }
  return result;
}

void expect_small(const TreeStatement& statement, std::map<std::string, Expansion> names,
                  const SourceRange& where) {
  auto check = [&](const ExpressionPtr& expression) {
    Expansion expansion = expand(*expression, names);
    expect_small(expansion, where.valid() ? where : expression->where);
    return expansion;
  };
  for (const WhereClause& clause : statement.clauses) {
    Expansion first = check(clause.first);
    if (clause.last) check(clause.last);
    if (clause.kind == ClauseKind::Let) names[clause.name.name] = first;
  }
  check(statement.value);
}

}  // namespace tc::lang
