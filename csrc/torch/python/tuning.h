// What tuning needs of the library, as objects of Python.
#pragma once

#include <pybind11/pybind11.h>

namespace tc_torch {

/// Adds the classes Space and Trial, and the record of launches, to the module.
void bind_tuning(pybind11::module_& m);

}  // namespace tc_torch
