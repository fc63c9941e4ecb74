// Scalar types of the language and how they combine. docs/language.md states the rules for users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::lang {

using ir::Type;

/// The type of a spelling ("float", "int32", "byte"); empty when it is none.
std::optional<Type> find_type(const std::string& spelling);
/// The canonical spelling.
std::string type_name(Type type);
/// All spellings, for suggestions.
std::vector<std::string> type_spellings();

/// The type of arithmetic on two values. Both floats: the wider (half with bfloat16: float). An
/// integer with a float: the float. Integers of one sign: the wider; of both signs: the smallest
/// signed type that holds both (int64 where uint64 takes part). bool counts as the narrowest.
Type promote(Type a, Type b);
/// Whether every value of `from` may be stored in `to` without a cast.
bool converts(Type from, Type to);
/// Whether an integer literal can be written in this type.
bool fits(int64_t value, Type type);
/// Whether a number does not become infinite where it is rounded to this floating-point type.
bool stays_finite(double value, Type type);

}  // namespace tc::lang
