// Operators that differentiate themselves, for Python: made, and called without its dispatch.
#pragma once

#include <pybind11/pybind11.h>

namespace tc_torch {

/// Adds the class Differentiable, and the functions that register such operators, to the module.
void bind_derivation(pybind11::module_& m);

}  // namespace tc_torch
