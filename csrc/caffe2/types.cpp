#include "caffe2/types.h"

#include "caffe2/errors.h"

namespace tc_caffe2 {
namespace {

struct Type {
  caffe2::TypeMeta caffe2;
  DLDataType dlpack;
  const char* word;
};

const std::vector<Type>& types() {
  using caffe2::TypeMeta;
  static const std::vector<Type> all = {
      {TypeMeta::Make<float>(), {kDLFloat, 32, 1}, "float"},
      {TypeMeta::Make<double>(), {kDLFloat, 64, 1}, "double"},
      {TypeMeta::Make<at::Half>(), {kDLFloat, 16, 1}, "half"},
      {TypeMeta::Make<at::BFloat16>(), {kDLBfloat, 16, 1}, "bfloat16"},
      {TypeMeta::Make<int32_t>(), {kDLInt, 32, 1}, "int32"},
      {TypeMeta::Make<int64_t>(), {kDLInt, 64, 1}, "int64"},
      {TypeMeta::Make<int16_t>(), {kDLInt, 16, 1}, "int16"},
      {TypeMeta::Make<int8_t>(), {kDLInt, 8, 1}, "int8"},
      {TypeMeta::Make<uint8_t>(), {kDLUInt, 8, 1}, "uint8"},
      {TypeMeta::Make<uint16_t>(), {kDLUInt, 16, 1}, "uint16"},
      {TypeMeta::Make<bool>(), {kDLBool, 8, 1}, "bool"},
  };
  return all;
}

const Type* find(DLDataType type) {
  for (const Type& each : types())
    if (each.dlpack.code == type.code && each.dlpack.bits == type.bits) return &each;
  return nullptr;
}

}  // namespace

DLDataType to_dlpack(caffe2::TypeMeta type, const std::string& what) {
  for (const Type& each : types())
    if (each.caffe2 == type) return each.dlpack;
  usage_error(what, ": tensors of ", type.name(),
              " have no place in a text; expected bool, float16, bfloat16, float, "
              "double, uint8, uint16 or int8 to int64");
}

caffe2::TypeMeta to_caffe2(DLDataType type) {
  if (const Type* found = find(type)) return found->caffe2;
  usage_error("a result of type uint", int{type.bits},
              " is none that Caffe2 has: cast it in the text, as by int64(...)");
}

std::string to_word(DLDataType type) {
  const Type* found = find(type);
  return found ? found->word : "float";
}

}  // namespace tc_caffe2
