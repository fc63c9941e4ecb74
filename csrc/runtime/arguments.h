// Checks what a caller passes against a definition's signature.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/dtypes.h"
#include "ir/layout.h"
#include "ir/program.h"
#include "lang/lowering/definition.h"
#include "tc/tc.h"

namespace tc::runtime {

/// What the inputs of one call say: the values of sizes and specialised scalars, and layouts.
struct Arguments {
  std::map<std::string, int64_t> sizes, scalars;
  std::map<std::string, Layout> layouts;
  DLDevice device = {kDLCPU, 0};

  /// Sizes and scalars together, for ir::specialize.
  std::map<std::string, int64_t> values() const;
};

/// ShapeError that names the argument, what was expected and what came: count, dtype, rank, sizes
/// that share a name or are constant, devices, scalars, and what check_tensor refuses. UsageError
/// for what is NULL. Data may be, but that of specialised scalars.
Arguments check_inputs(const lang::Definition& definition, const DLTensor* const* inputs,
                       int32_t count);

/// The values of specialised scalars alone, checked as above; nothing else of the inputs is looked
/// at, and those behind the last of them may be left out.
std::map<std::string, int64_t> scalar_values(const lang::Definition& definition,
                                             const DLTensor* const* inputs, int32_t count);

/// That a size is not the declared one, with both, which may be expressions.
std::string mismatch(const ir::Program& program, const ir::DeclaredSize& declared);

/// The definition's program for these arguments: ranges inferred, sizes constant. ShapeError where
/// a size comes out negative or a read would leave its tensor.
ir::Program specialize(const lang::Definition& definition, const Arguments& arguments);

/// Checks outputs against the specialised program and adds their layouts: count, dtype, sizes,
/// device, no two elements at one place, and unless `addresses` is false no overlap with an input
/// or another output.
void check_outputs(const ir::Program& program, const DLTensor* const* inputs, int32_t input_count,
                   const DLTensor* const* outputs, int32_t output_count, bool addresses,
                   Arguments& arguments);

/// Where the first element is.
void* data_pointer(const DLTensor& tensor);
Layout layout_of(const DLTensor& tensor);

}  // namespace tc::runtime
