// Element types: those of Caffe2's tensors, of its shapes, of DLPack, and their names in a text.
#pragma once

#include <string>

#include "caffe2/caffe2.h"
#include "tc/tc.hpp"

namespace tc_caffe2 {

/// UsageError, which names what has the type, for one that texts have no word for.
DLDataType to_dlpack(caffe2::TypeMeta type, const std::string& what);
/// UsageError for types that Caffe2's tensors cannot have (uint32, uint64).
caffe2::TypeMeta to_caffe2(DLDataType type);
/// "float", "int64": the word of a text.
std::string to_word(DLDataType type);

}  // namespace tc_caffe2
