// The layout of a copy: the dimensions of a tensor in another order, and in blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tc::poly {

/// A dimension of a copy. One of the tensor is one of the copy, or two: the number of a block of so
/// many elements, and the place in it ("k/4" and "k%4"). The last block has as many places as all
/// others; nobody writes or reads those beyond the elements.
struct CopyDimension {
  enum class Part { Whole, Block, Place };

  CopyDimension(size_t of = 0) : dimension(of) {}
  CopyDimension(size_t of, Part which, int64_t size) : dimension(of), part(which), block(size) {}

  size_t dimension;  ///< of the tensor
  Part part = Part::Whole;
  int64_t block = 1;  ///< elements of one

  bool operator==(const CopyDimension& other) const {
    return dimension == other.dimension && part == other.part && block == other.block;
  }

  bool is_whole() const { return part == Part::Whole; }
  /// "/4" of the numbers of blocks, "%4" of the places in them.
  std::string suffix() const {
    return is_whole() ? "" : (part == Part::Block ? "/" : "%") + std::to_string(block);
  }
  /// Of the copy, where the tensor's dimension has so many elements in it.
  int64_t size(int64_t elements) const {
    if (is_whole()) return elements;
    return part == Part::Place ? block : (elements + block - 1) / block;
  }
};

/// Slowest first.
using CopyLayout = std::vector<CopyDimension>;

/// Whether each of so many dimensions of a tensor is there once: whole, or as blocks and as the
/// places in them.
inline bool holds_all(const CopyLayout& layout, size_t rank) {
  std::vector<int64_t> whole(rank), blocks(rank),
      places(rank);  // elements of a block; 0: not there
  for (const CopyDimension& each : layout) {
    if (each.dimension >= rank || each.block < 1) return false;
    std::vector<int64_t>& seen = each.part == CopyDimension::Part::Whole   ? whole
                                 : each.part == CopyDimension::Part::Block ? blocks
                                                                           : places;
    if (seen[each.dimension] != 0) return false;
    seen[each.dimension] = each.block;
  }
  for (size_t d = 0; d < rank; ++d)
    if ((whole[d] != 0) == (blocks[d] != 0) || blocks[d] != places[d]) return false;
  return true;
}

}  // namespace tc::poly
