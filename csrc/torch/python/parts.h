// The parts of the Python module. Each function adds one of them.
#pragma once

#include <pybind11/pybind11.h>

namespace tc_torch {

/// The class Differentiable, an operator that differentiates itself, called without PyTorch's
/// dispatch in Python, and the functions that register such operators.
void bind_derivation(pybind11::module_& m);
/// The function direct_call.
void bind_direct_call(pybind11::module_& m);
/// The class Einsum, an equation of extended einsum with its operands.
void bind_einsum(pybind11::module_& m);
/// The classes Space and Trial, which tuning needs, and the record of launches.
void bind_tuning(pybind11::module_& m);
/// The classes Store, StoredText and StoredDefinition.
void bind_store(pybind11::module_& m);

}  // namespace tc_torch
