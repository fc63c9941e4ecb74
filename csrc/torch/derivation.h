// Calls of operators whose derivatives are derived, recorded for autograd.
#pragma once

#include <pybind11/pybind11.h>

namespace tc_torch {

/// Adds the class Derivation to the module.
void bind_derivation(pybind11::module_& m);

}  // namespace tc_torch
