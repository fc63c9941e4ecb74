// What calls ask of the tensors that they give, once they are replaced by statements.
#pragma once

#include "ir/program.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

/// LanguageError where a call gives a tensor of another type than its parameter has. `signature` is
/// what `check` returns for the function.
void check_wanted_types(const Function& function, const ir::Program& signature);

/// Makes sizes that calls give one name one: a size of an input takes the name, or the number, that
/// it has to agree with, in the function as it was parsed. True when something was renamed; the
/// function has to be checked again then. `program` may be the signature, where the sizes of
/// computed tensors are not known. LanguageError where two sizes cannot agree.
bool unify_sizes(Function* function, const ir::Program& program);

/// The conditions on sizes that only a call can check.
std::vector<ir::DeclaredSize> open_conditions(const Function& function, const ir::Program& program);

}  // namespace tc::lang
