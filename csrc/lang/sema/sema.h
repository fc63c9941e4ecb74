// Names and types of a definition: the pass between the parser and everything else.
#pragma once

#include <string>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Checks a parsed definition whose calls are already inlined, in place: resolves every name,
/// gives every expression its type, lists reduction indices. Returns the signature that
/// `Definition` promises; adds messages with carets to `warnings`. LanguageError otherwise.
ir::Program check(Function* function, std::vector<std::string>* warnings);

}  // namespace tc::lang
