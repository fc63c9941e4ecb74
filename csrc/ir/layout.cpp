#include "ir/layout.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/memory.h"

namespace tc {
namespace {

std::string size_list(const std::vector<int64_t>& sizes) {
  std::string text;
  for (int64_t size : sizes) text += concat(text.empty() ? "(" : ", ", size);
  return text + ")";
}

}  // namespace

ir::Type memory_type(ir::Type type) { return type.is_bool() ? Halide::UInt(8) : type; }

int64_t count_allocated(const Layout& layout) {
  int64_t elements = 1;
  for (int64_t size : layout.sizes) elements *= size;
  return std::max<int64_t>(1, elements);
}

int64_t dense_bytes(const ir::Tensor& tensor, const Layout& layout) {
  return count_allocated(layout) * memory_type(tensor.type).bytes();
}

Layout row_major(const std::vector<int64_t>& sizes) {
  Layout layout{sizes, std::vector<int64_t>(sizes.size())};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    layout.strides[d] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(1, sizes[d]), &stride))
      throw ShapeError("a dense tensor of these sizes has more elements than 64 bits can count");
  }
  return layout;
}

Layout canonical(Layout layout) {
  const bool empty = std::count(layout.sizes.begin(), layout.sizes.end(), 0) > 0;
  int64_t stride = 1;
  for (size_t d = layout.sizes.size(); d-- > 0;) {
    if (empty || layout.sizes[d] == 1) layout.strides[d] = stride;
    // Elements of an empty tensor, or of a view whose strides are 0, may be too many to count.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(1, layout.sizes[d]), &stride)) stride = 0;
  }
  return layout;
}

Layout row_major(const ir::Tensor& tensor) {
  std::vector<int64_t> sizes;
  for (const ir::Expr& size : tensor.sizes) sizes.push_back(*Halide::Internal::as_const_int(size));
  int64_t bytes = memory_type(tensor.type).bytes();
  const bool empty = std::count(sizes.begin(), sizes.end(), 0) > 0;
  for (int64_t size : sizes)
    if (!empty && (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kAddressSpace))
      throw ShapeError(concat(tensor.name, " has sizes ", size_list(sizes),
                              " for these inputs, more than memory has room for"));
  return row_major(sizes);
}

}  // namespace tc
