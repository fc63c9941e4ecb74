#include "codegen/workarounds/large_arrays.h"

#include <utility>

namespace tc::codegen {

nest::Nest move_large_arrays(const nest::Nest& nest) {
  constexpr int64_t kHalideStack = 16 * 1024;
  nest::Nest moved = nest::map_children(nest, move_large_arrays);
  const auto* buffer = nest::as<nest::Buffer>(moved);
  if (!buffer || buffer->elements * buffer->type.bytes() <= kHalideStack) return moved;
  nest::Buffer large = *buffer;
  large.memory = nest::Memory::Heap;
  return nest::make(std::move(large));
}

}  // namespace tc::codegen
