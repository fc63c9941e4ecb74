#include "lang/sema/types.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tc::lang {
namespace {

// The first spelling of a type is the canonical one.
const std::vector<std::pair<const char*, Type>>& spellings() {
  static const std::vector<std::pair<const char*, Type>> table = {
      {"bool", Halide::Bool()},         {"uint8", Halide::UInt(8)},
      {"uint16", Halide::UInt(16)},     {"uint32", Halide::UInt(32)},
      {"uint64", Halide::UInt(64)},     {"int8", Halide::Int(8)},
      {"int16", Halide::Int(16)},       {"int32", Halide::Int(32)},
      {"int64", Halide::Int(64)},       {"half", Halide::Float(16)},
      {"bfloat16", Halide::BFloat(16)}, {"float", Halide::Float(32)},
      {"double", Halide::Float(64)},    {"byte", Halide::UInt(8)},
      {"int", Halide::Int(32)},         {"float16", Halide::Float(16)},
      {"float32", Halide::Float(32)},   {"float64", Halide::Float(64)},
  };
  return table;
}

}  // namespace

std::optional<Type> find_type(const std::string& spelling) {
  for (const auto& [name, type] : spellings()) {
    if (spelling == name) return type;
  }
  return std::nullopt;
}

std::string type_name(Type type) {
  for (const auto& [name, candidate] : spellings()) {
    if (candidate == type) return name;
  }
  return "unknown";
}

std::vector<std::string> type_spellings() {
  std::vector<std::string> names;
  for (const auto& [name, type] : spellings()) names.push_back(name);
  return names;
}

Type promote(Type a, Type b) {
  if (a == b) return a;
  if (a.is_bool()) return b;
  if (b.is_bool()) return a;
  if (a.is_float() != b.is_float()) return a.is_float() ? a : b;
  if (a.is_float()) {
    if (a.bits() == b.bits()) return Halide::Float(32);  // half with bfloat16
    return a.bits() > b.bits() ? a : b;
  }
  if (a.is_uint() == b.is_uint()) return a.bits() > b.bits() ? a : b;
  int signed_bits = a.is_uint() ? b.bits() : a.bits();
  int unsigned_bits = a.is_uint() ? a.bits() : b.bits();
  return Halide::Int(std::min(64, std::max(signed_bits, 2 * unsigned_bits)));
}

bool converts(Type from, Type to) { return promote(from, to) == to; }

bool stays_finite(double value, Type type) {
  if (type.bits() == 64) return std::isfinite(value);
  const bool half = type == Halide::Float(16);
  const int digits = half ? 11 : type.bits() == 16 ? 8 : 24, exponent = half ? 15 : 127;
  // Halfway between the largest number and what would follow it.
  return std::fabs(value) < std::ldexp(2 - std::ldexp(1.0, -digits), exponent);
}

bool fits(int64_t value, Type type) { return type.is_float() || type.can_represent(value); }

}  // namespace tc::lang
