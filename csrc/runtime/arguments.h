// Checks what a caller passes against a definition's signature.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "ir/dtypes.h"
#include "ir/layout.h"
#include "ir/program.h"
#include "lang/lowering/definition.h"
#include "tc/tc.h"

namespace tc::runtime {

/// What the inputs of one call say: the values of sizes and specialised scalars, and layouts.
struct Arguments {
  std::map<std::string, int64_t> sizes, scalars;
  Layouts layouts;
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
/// A canonical one: strides that lead nowhere are no reason for another kernel, or to refuse.
Layout layout_of(const DLTensor& tensor);

/// What `use` makes of the integer, or truth value, at a place, which it gets in its own type.
template <class Use>
int64_t read_integer(DLDataType type, const void* place, const Use& use) {
  auto read = [&](auto value) -> int64_t {
    std::memcpy(&value, place, sizeof value);
    return use(value);
  };
  if (type.code == kDLInt) {
    switch (type.bits) {
      case 8: return read(int8_t());
      case 16: return read(int16_t());
      case 32: return read(int32_t());
      default: return read(int64_t());
    }
  }
  switch (type.bits) {
    case 8: return read(uint8_t());
    case 16: return read(uint16_t());
    case 32: return read(uint32_t());
    default: return read(uint64_t());
  }
}

}  // namespace tc::runtime
