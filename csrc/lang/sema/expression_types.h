// Types of operators and calls over operands whose types are known.
#pragma once

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Gives an adaptable expression and its adaptable parts another type. LanguageError when a
/// literal has no value in that type: `unless_it_fits` says whose type it is and what to write
/// instead; without it, it is that of another operand.
void adapt(Expression* expression, Type type, const std::string& unless_it_fits = {});

/// LanguageError where a literal becomes infinite in the type that it has taken. Types must be
/// known.
void expect_finite_literals(const Expression& expression);

/// Sets type, adaptable and constant of a node whose operands are checked: numbers, casts, unary,
/// binary and ternary operators, builtins. LanguageError when the operands do not fit.
void set_type(Expression* expression);

/// LanguageError unless the expression is bool; `role` names its place ("the condition of '?'"). A
/// unary operator binds more tightly than the comparison that the message says to write.
void expect_bool(const Expression& expression, const std::string& role, bool in_unary = false);

/// LanguageError unless the expression is an integer; `role` names its place ("a subscript").
void expect_integer(const Expression& expression, const std::string& role);

}  // namespace tc::lang
