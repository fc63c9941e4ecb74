// Statements that a library has a function for: products of matrices and convolutions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/layout.h"
#include "ir/program.h"
#include "tc/tc.h"

namespace tc::ir {

/// A tensor as a library sees it: a strided box that begins `offset` elements into the memory.
struct LibraryOperand {
  std::string tensor;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;  ///< in elements; a stride is 0 where elements are shared
};

/// A function of a library in the place of the statements [first, last] of a program.
struct LibraryCall {
  enum class Kind { Product, Convolution };
  Kind kind = Kind::Product;
  size_t first = 0, last = 0;
  Type type;  ///< of all operands
  /// Product: a is batch x m x k, b is batch x k x n, the result is batch x m x n.
  /// Convolution: a is the image, b the filters, in the order that `tc_convolution` says.
  LibraryOperand a, b, result;
  bool accumulates = false;  ///< a product that is added to what the result holds
  tc_convolution convolution{};
  double operations = 0;  ///< a multiply-add is two
};

/// Every statement of the program that is a product of two tensors summed over some indices, as a
/// matrix product or a convolution, in program order. No two calls share a statement. A product may
/// be batched, transposed and strided, and its indices may be merged from several; a convolution
/// may be strided, dilated and grouped, over one to three dimensions, its image padded by the
/// statement before it, and may be the gradient of one with respect to its image or its filters.
/// Floating-point types only. `layouts` names every tensor of the specialised program.
std::vector<LibraryCall> match_library_calls(const Program& program, const Layouts& layouts);

/// "product of 4 matrices 128x64 and 64x32", "convolution of 4x64x58x58 with 64x64x3x3, stride 2,
/// padding 1, in 2 groups".
std::string to_string(const LibraryCall& call);

}  // namespace tc::ir
