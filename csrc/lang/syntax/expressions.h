// Making expressions of the tree, and taking them apart. What is made has the structure that the
// parser would give its text, without places and types: the text is checked like any other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

ExpressionPtr integer(int64_t value);
ExpressionPtr real(double value);
ExpressionPtr name(const std::string& name);
/// T(i, j), or T where there are no operands.
ExpressionPtr access(const std::string& name, std::vector<ExpressionPtr> operands);
/// The same of a tensor that the text does not declare, as checking would leave it.
ExpressionPtr read(const std::string& tensor, std::vector<ExpressionPtr> places, Type type = {});
ExpressionPtr cast(Type type, const ExpressionPtr& operand);
/// Sums and products without zeros and ones, of constants a constant.
ExpressionPtr binary(Operator op, const ExpressionPtr& a, const ExpressionPtr& b);
ExpressionPtr negate(const ExpressionPtr& operand);
ExpressionPtr logical_not(const ExpressionPtr& operand);
ExpressionPtr choose(const ExpressionPtr& condition, const ExpressionPtr& yes,
                     const ExpressionPtr& no);
/// All of them, grouped as && groups; empty for none.
ExpressionPtr all_of(const std::vector<ExpressionPtr>& conditions);
/// The conditions one by one where `&&` joins them.
std::vector<ExpressionPtr> terms_of(const std::vector<ExpressionPtr>& conditions);
/// Whether an expression of sizes, which are not negative, cannot be negative either.
bool never_negative(const ir::Expr& e);
/// The expression of sizes that range inference found, whose divisions round down.
ExpressionPtr from_halide(const ir::Expr& e);
/// An expression of sizes and integers as a Halide one; undefined where there is more.
ir::Expr to_halide(const Expression& e);
/// What an ordering of such expressions says is not negative; undefined for anything else.
ir::Expr not_negative(const Expression& condition);

/// The integer that a literal, or a literal with a sign, stands for.
std::optional<int64_t> constant_value(const Expression& e);
bool is_constant(const Expression& e, int64_t value);
bool is_binary(const Expression& e, Operator op);
bool is_negation(const Expression& e);
/// Whether it compares by size: <, <=, >, >=.
bool is_ordering(const Expression& e);
/// The same, or == or !=.
bool is_comparison(const Expression& e);
/// Whether it reads an element of a tensor, as T(i) and T do, but not T.1. Names must be resolved.
bool is_access(const Expression& e);
/// Whether both are written the same way.
bool equal(const Expression& a, const Expression& b);
bool equal(const std::vector<ExpressionPtr>& a, const std::vector<ExpressionPtr>& b);
bool mentions(const Expression& e, const std::string& name);
/// Whether it mentions one of several.
bool mentions(const Expression& e, const std::vector<std::string>& names);
/// Whether `holds` for the expression or something below it.
bool any(const Expression& e, const std::function<bool(const Expression&)>& holds);
/// Calls `visit` with the value, the subscripts and the expressions of the clauses of a statement,
/// as they are held there.
template <class SomeStatement, class Visit>
void for_each_expression(SomeStatement& statement, const Visit& visit) {
  if (statement.value) visit(statement.value);
  for (auto& subscript : statement.subscripts)
    if (subscript) visit(subscript);
  for (auto& clause : statement.clauses) {
    if (clause.first) visit(clause.first);
    if (clause.last) visit(clause.last);
  }
}
/// Calls `visit` for the expression and all below it, parents first.
void walk(const Expression& e, const std::function<void(const Expression&)>& visit);
/// The same for the value, the subscripts and the clauses of a statement.
void walk(const TreeStatement& statement, const std::function<void(const Expression&)>& visit);
/// Replaces the expressions for which `replace` gives another; those are not looked into.
ExpressionPtr rewrite(const ExpressionPtr& e,
                      const std::function<ExpressionPtr(const Expression&)>& replace);
/// The same in the value, the subscripts and the clauses of a statement.
void rewrite(TreeStatement& statement,
             const std::function<ExpressionPtr(const Expression&)>& replace);
/// Replaces bare names.
ExpressionPtr substitute(const ExpressionPtr& e, const std::map<std::string, ExpressionPtr>& names);

/// coefficient * index + rest, where `rest` does not mention the index.
struct AffineInIndex {
  int64_t coefficient = 0;
  ExpressionPtr rest;
};
/// Nothing where the index stands in a subscript, a division, a product with more than a literal.
std::optional<AffineInIndex> split_affine(const ExpressionPtr& e, const std::string& index);

}  // namespace tc::lang
