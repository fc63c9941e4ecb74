// What the names in an expression stand for, and the types that follow.
#pragma once

#include "lang/sema/scope.h"

namespace tc::lang {

/// Binds every name in an expression and gives every part its type, as far as the scope knows the
/// types of tensors. A new bare name becomes an index of the statement, and a scalar in a subscript
/// one that kernels are specialised to. LanguageError where a name stands for nothing or is used
/// as something else.
void resolve(Expression* expression, Scope* scope);

/// The same for an expression among the subscripts of a left-hand side.
void resolve_subscript(Expression* subscript, Scope* scope);

/// The same for a bound of a range: an integer made of sizes, scalars and literals.
void resolve_bound(Expression* bound, Scope* scope);

}  // namespace tc::lang
