// Types of elements by their names, and as DLPack has them.
#pragma once

#include <string>

#include "ir/halide.h"
#include "tc/tc.h"

namespace tc::ir {

/// "float32", "uint8", "bfloat16", "bool".
std::string dtype_name(DLDataType dtype);
std::string dtype_name(Halide::Type type);
DLDataType to_dlpack(Halide::Type type);
/// ShapeError for elements that the language has no type for; `name` is whose they are.
Halide::Type from_dlpack(DLDataType dtype, const std::string& name);
bool same(DLDataType a, DLDataType b);

}  // namespace tc::ir
