// The plain names of operators: ns::f leads to the operator ns::f__<contents> of a definition f.
#pragma once

#include <string>

#include "torch/operator.h"

namespace tc_torch {

/// The name of the contents that ns::name, a definition's own name, runs in this process; empty
/// where no definition has that name.
std::string owner_of(const std::string& ns, const std::string& name);

/// Makes ns::name the operator ns::contents, of this definition, which is registered. Where another
/// definition had the name, it is taken from it: whoever looks it up finds this one, and whoever
/// looked it up before calls this one, or is told where its arguments do not fit. Graphs hold
/// contents, and are not concerned.
void set_owner(const std::string& ns, const std::string& name, const Definition& definition,
               const std::string& contents);

/// Takes the name away, from whatever it is. Nobody may have looked it up (see
/// unregister_operator).
void remove_owner(const std::string& ns, const std::string& name);

/// Forgets what names were before they moved: no compiled script is there that may have noted it.
void forget_moves();

}  // namespace tc_torch
