#include "codegen/lower_nest.h"

#include <vector>

#include "base/error.h"
#include "codegen/cuda/cuda_printer.h"
#include "codegen/names.h"
#include "codegen/tiles/accumulations.h"
#include "codegen/tiles/intrinsics.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

ForType type_of(Role role) {
  switch (role) {
    case Role::Serial: return ForType::Serial;
    case Role::Parallel: return ForType::Parallel;
    case Role::Vector: return ForType::Vectorized;
    case Role::Unrolled: return ForType::Unrolled;
    case Role::Block: return ForType::GPUBlock;
    case Role::Thread: return ForType::GPUThread;
  }
  throw InternalError(__FILE__, __LINE__, "a loop without a role");
}

Stmt lower_node(const Loop& loop) {
  return ir::make_for(loop.name, loop.min, loop.extent, type_of(loop.role), lower(loop.body));
}

Stmt lower_node(const nest::Sequence& sequence) {
  std::vector<Stmt> parts;
  for (const Nest& part : sequence.parts) parts.push_back(lower(part));
  return parts.empty() ? Evaluate::make(0) : Block::make(parts);
}

Stmt lower_node(const nest::Guard& guard) {
  return IfThenElse::make(guard.likely ? ir::likely_branch(guard.condition) : guard.condition,
                          lower(guard.then), guard.otherwise ? lower(guard.otherwise) : Stmt());
}

Stmt lower_node(const nest::Binding& binding) {
  return LetStmt::make(binding.name, binding.value, lower(binding.body));
}

Halide::MemoryType type_of(nest::Memory memory) {
  switch (memory) {
    case nest::Memory::Registers:
    case nest::Memory::Stack: return Halide::MemoryType::Stack;
    case nest::Memory::Heap: return Halide::MemoryType::Heap;
    case nest::Memory::Shared: return Halide::MemoryType::GPUShared;
  }
  throw InternalError(__FILE__, __LINE__, "a buffer without a place");
}

Stmt lower_node(const nest::Buffer& buffer) {
  return Allocate::make(buffer.name, buffer.type, type_of(buffer.memory),
                        {static_cast<int>(buffer.elements)}, const_true(), lower(buffer.body));
}

Stmt lower_node(const nest::Tile&) {
  throw InternalError(__FILE__, __LINE__, "a register tile that no pass has expanded");
}

Stmt lower_node(const nest::Intrinsic& intrinsic) { return lower_intrinsic(intrinsic); }

// Those that no pass knew how to make vectors of.
Stmt lower_node(const nest::Copy& copy) { return lower(copy.body); }

Stmt lower_node(const Compute& compute) {
  if (compute.atomic && compute.reduction != ir::Reduction::None)
    return make_atomic_update(
        compute.reduction, nest::from_memory(nest::load_of(compute), compute.type), compute.value);
  const Expr value = compute.contracts ? make_accumulation(nest::load_of(compute), compute.value)
                                       : nest::stored_value(compute);
  return ir::make_store(compute.buffer, compute.index, value, compute.parameter);
}

Stmt lower_node(const nest::Prefetch& prefetch) {
  return ir::make_prefetch(prefetch.type, prefetch.buffer, prefetch.index, prefetch.cache);
}

Stmt lower_node(const nest::Barrier&) { return make_barrier(); }

Stmt lower_node(const nest::Lowered& lowered) { return lowered.stmt; }

}  // namespace

Stmt lower(const Nest& nest) {
  return std::visit([](const auto& node) { return lower_node(node); }, nest->value);
}

}  // namespace tc::codegen
