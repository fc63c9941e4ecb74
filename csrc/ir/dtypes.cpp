#include "ir/dtypes.h"

#include <vector>

#include "base/error.h"

namespace tc::ir {

bool same(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::string dtype_name(DLDataType dtype) {
  const char* kind = dtype.code == kDLInt      ? "int"
                     : dtype.code == kDLUInt   ? "uint"
                     : dtype.code == kDLFloat  ? "float"
                     : dtype.code == kDLBfloat ? "bfloat"
                     : dtype.code == kDLBool   ? "bool"
                     : dtype.code == 5         ? "complex"  // kDLComplex of newer headers
                                               : nullptr;
  if (!kind) return concat("a type with DLPack code ", static_cast<int>(dtype.code));
  std::string name = kind;
  if (dtype.code != kDLBool || dtype.bits != 8) name += std::to_string(dtype.bits);
  if (dtype.lanes != 1) name += concat(" in vectors of ", dtype.lanes);
  return name;
}

std::string dtype_name(Halide::Type type) { return dtype_name(to_dlpack(type)); }

DLDataType to_dlpack(Halide::Type type) {
  uint8_t code = type.is_bool()     ? kDLBool
                 : type.is_bfloat() ? kDLBfloat
                 : type.is_float()  ? kDLFloat
                 : type.is_uint()   ? kDLUInt
                                    : kDLInt;
  return {code, static_cast<uint8_t>(type.is_bool() ? 8 : type.bits()), 1};
}

Halide::Type from_dlpack(DLDataType dtype, const std::string& name) {
  static const std::vector<Halide::Type> known = {
      Halide::Bool(),     Halide::UInt(8),   Halide::UInt(16), Halide::UInt(32), Halide::UInt(64),
      Halide::Int(8),     Halide::Int(16),   Halide::Int(32),  Halide::Int(64),  Halide::Float(16),
      Halide::BFloat(16), Halide::Float(32), Halide::Float(64)};
  for (const Halide::Type& type : known)
    if (same(to_dlpack(type), dtype)) return type;
  throw ShapeError(concat(name, " is ", dtype_name(dtype), ", which the language has no type for"));
}

}  // namespace tc::ir
