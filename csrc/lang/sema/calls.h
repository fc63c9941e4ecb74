// Definitions that call definitions.
#pragma once

#include <map>
#include <set>
#include <string>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Replaces every call statement, `(a, b) = f(x, y)` or `a = f(x)`, by the statements of the
/// definition it names: parameters become the arguments, returned tensors the targets, sizes the
/// dimensions of the arguments, other left-hand sides get new names. What the definition declares
/// of its tensors goes to `same_sizes` and `wanted_types` (see call_conditions). `known` holds the
/// earlier definitions of the text, with their own calls already replaced, before checking.
/// LanguageError when there is no such definition or the call does not fit it.
void inline_calls(Function* function, const std::map<std::string, Function>& known);

/// Every name of the signature and of left-hand sides.
std::set<std::string> names_of(const Function& function);

/// A copy that shares no node.
Function clone(const Function& function);

}  // namespace tc::lang
