// Extended einsum for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace tc_torch {

/// Adds the class Einsum, an equation with its operands.
void bind_einsum(pybind11::module_& m);

}  // namespace tc_torch
