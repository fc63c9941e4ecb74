// Stores as objects of Python.
#pragma once

#include <pybind11/pybind11.h>

namespace tc_torch {

/// Adds the classes Store, StoredText and StoredDefinition to the module.
void bind_store(pybind11::module_& m);

}  // namespace tc_torch
