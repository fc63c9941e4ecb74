// How tensors lie in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc {

/// How a tensor lies in memory. Strides count elements and may be 0 or negative.
struct Layout {
  std::vector<int64_t> sizes, strides;
  bool operator==(const Layout& other) const {
    return sizes == other.sizes && strides == other.strides;
  }
};
/// Of tensors, by their names.
using Layouts = std::map<std::string, Layout>;
Layout row_major(const std::vector<int64_t>& sizes);
/// Of a tensor of a specialised program.
Layout row_major(const ir::Tensor& tensor);
/// With the strides of row_major where no element is reached by them: of dimensions of one element,
/// and of all of an empty tensor. What differs in these alone lies in the same way.
Layout canonical(Layout layout);
/// How an element lies in memory: a bool takes a byte.
ir::Type memory_type(ir::Type type);
/// Elements to allocate where nothing lies between them: one of an empty tensor.
int64_t count_allocated(const Layout& layout);
/// What a tensor of these sizes takes when nothing lies between its elements; bool is a byte.
int64_t dense_bytes(const ir::Tensor& tensor, const Layout& layout);

}  // namespace tc
