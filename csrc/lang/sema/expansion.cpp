#include "lang/sema/expansion.h"

#include <algorithm>

#include "base/error.h"
#include "ir/expressions/walk.h"
#include "lang/sema/builtins.h"

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

/// The operations that a composed builtin becomes, and how often each argument stands in them.
struct Composition {
  double operations = 1;
  std::vector<double> copies;
};

Composition measure(const Builtin& builtin) {
  using namespace Halide::Internal;
  std::vector<ir::Expr> arguments;
  for (int k = 0; k < builtin.arity; ++k)
    arguments.push_back(ir::make_variable(
        concat(k), k == builtin.integer_argument ? Halide::Int(32) : Halide::Float(32)));
  std::map<std::string, double> names;
  double operations = 0;
  ir::walk(composed_builtin(builtin.name, arguments), [&](const ir::Expr& e) {
    if (const auto* argument = e.as<Variable>()) ++names[argument->name];
    operations += e.as<Add>() || e.as<Mul>() || e.as<Select>() || e.as<Call>();
    return true;
  });
  Composition result{1 + operations, {}};
  for (int k = 0; k < builtin.arity; ++k) result.copies.push_back(std::max(1.0, names[concat(k)]));
  return result;
}

/// Null for all other expressions.
const Composition* find_composition(const Expression& e) {
  if (e.kind != ExpressionKind::Apply || e.binding != Binding::Builtin) return nullptr;
  static const auto* all = [] {
    auto* made = new std::map<std::string, Composition>;
    for (const std::string& name : all_builtin_names())
      if (const Builtin* builtin = find_builtin(name); builtin && builtin->composed)
        made->emplace(name, measure(*builtin));
    return made;
  }();
  auto found = all->find(e.name);
  return found == all->end() ? nullptr : &found->second;
}

void expect_small(const Expansion& expansion, const SourceRange& where) {
  if (expansion.depth > kMaximumDepth) {
    throw LanguageError(where,
                        "with its lets and calls replaced, this expression is nested more than ",
                        kMaximumDepth, " levels deep; split it over several statements");
  }
  if (expansion.operations > kMaximumOperations) {
    throw LanguageError(where, "with its lets and calls replaced, this expression has more than ",
                        kMaximumOperations, " operations; give a part of it a tensor of its own");
  }
}

}  // namespace

Expansion expand(const Expression& e, const std::map<std::string, Expansion>& names) {
  if (e.kind == ExpressionKind::Name) {
    auto found = names.find(e.name);
    return found == names.end() ? Expansion() : found->second;
  }
  Expansion result;
  const Composition* composition = find_composition(e);
  if (composition) result.operations = composition->operations;
  for (size_t k = 0; k < e.operands.size(); ++k) {
    Expansion part = expand(*e.operands[k], names);
    const double copies =
        composition ? composition->copies.at(k) : static_cast<double>(copies_of_operands(e));
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
  for (const ExpressionPtr& subscript : statement.subscripts)
    if (subscript) check(subscript);
  check(statement.value);
}

}  // namespace tc::lang
