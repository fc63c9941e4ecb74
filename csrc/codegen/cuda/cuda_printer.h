// CUDA C from Halide statements: one translation unit that needs no header, neither of CUDA nor of
// the C++ library, so that NVRTC compiles it without include paths.
//
// What must have run before: the middle end has turned reads into loads, mapped loops to blocks and
// threads, placed barriers and scalarised everything (no vector types, no Provide or Realize).
//
// What the text promises:
//  - Integer division and remainder are Halide's: they round down, and by zero they give zero.
//    Only div_round_to_zero and mod_round_to_zero are C's.
//  - Min and Max of floats propagate NaN, as PyTorch's do; the builtins fmin and fmax ignore it.
//  - Values of 16-bit float types are computed in float and rounded to their type after every
//    operation, as the CPU does; in memory they take two bytes.
//  - Select, if_then_else, And and Or evaluate only what they need.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/halide.h"
#include "ir/program.h"
#include "runtime/cuda/cuda_program.h"

namespace tc::codegen {

/// A pointer argument of a launch, or device memory made for one run.
struct GpuBuffer {
  std::string name;
  ir::Type type;
  bool written = false;
  int64_t elements = 0;  ///< of memory made for a run
};

/// An argument passed by value; the body reads it as a Variable of this name and type.
struct GpuScalar {
  std::string name;
  ir::Type type;
};

/// One __global__ function and how it is launched.
struct GpuLaunch {
  std::string name;
  /// Loops of ForType::GPUBlock and GPUThread start at 0; several may use one dimension, one after
  /// the other or nested. One whose extent is smaller than the grid or block gets a guard; no
  /// barrier may stand under such a guard, and no store to memory that threads share may stand
  /// outside a loop over every dimension that is larger than 1.
  ir::Stmt body;
  std::map<std::string, int> axes;  ///< of these loops, by their names: 0 is x
  /// In the order of the arguments: everything the body loads or stores and does not allocate.
  std::vector<GpuBuffer> buffers;
  std::vector<GpuScalar> scalars;  ///< arguments after the buffers
  /// Whether the body has calls of ir::checked_index. Two arguments follow the scalars: where the
  /// first bad index is reported (struct tc::bad_index of the text), and a number that tells the
  /// host which kernel it was.
  bool checks_indices = false;
  int64_t grid[3] = {1, 1, 1};
  int64_t block[3] = {1, 1, 1};
};

struct GpuProgram {
  std::vector<GpuLaunch> launches;     ///< run one after the other on one stream
  std::vector<GpuBuffer> temporaries;  ///< device memory that lives for one run
};

/// The translation unit. Anything it cannot express is an InternalError.
std::string print_cuda(const GpuProgram& program);
/// The same with what is needed to run it.
runtime::CudaProgram make_cuda_program(const GpuProgram& program);

/// The name of a launch's function in the text: never a name that CUDA has already.
std::string kernel_symbol(const std::string& launch_name);

/// Bytes of shared memory that must be given at launch. 0 up to 48 KB, where the arrays are static;
/// above, all of them live in the one dynamic array, since static arrays may not be larger.
int64_t dynamic_shared_bytes(const GpuLaunch& launch);

/// __syncthreads().
ir::Stmt make_barrier();

/// Combines what a place of a buffer holds with a value, in one step: `place` is a load of it, of
/// 32 or 64 bits.
ir::Stmt make_atomic_update(ir::Reduction reduction, const ir::Expr& place, const ir::Expr& value);
/// The place that a call made by make_atomic_update writes; null for other calls.
const Halide::Internal::Load* atomic_place(const Halide::Internal::Call* call);

/// The value of the thread of the same warp whose lane number differs in the bits of `lane_mask`.
/// All 32 lanes must reach it.
ir::Expr shuffle_xor(const ir::Expr& value, int lane_mask);

}  // namespace tc::codegen
