// What a cluster's reductions read and write, seen from its band, and what copies of it cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "plan/members.h"

namespace tc::plan {

/// Vectors of a register block along its vector.
constexpr int64_t kMostVectors = 4;

/// A read that has to be copied so that it is contiguous along the vector.
struct PackedRead {
  const ScopStatement* statement = nullptr;
  ir::MemoryAccess read;
  poly::CopyLayout order;    ///< dimensions of the tensor in order of use, the vector's last
  std::vector<int> members;  ///< positions of the members that it moves along
  double depth = 1;          ///< elements that a point of the results reads
  int64_t width = 1;         ///< points of the block along the members
};

/// The dimensions of a copy of what is read in these loops, outermost first: in the order of the
/// last loops that walk them. Nothing where subscripts are not affine in the loops, or where the
/// copy would not be contiguous along the last of them.
std::optional<poly::CopyLayout> order_of_use(const ir::MemoryAccess& read,
                                             const std::vector<std::string>& loops);

/// What an operand's reductions and some points of the band bring to a cache.
struct Footprint {
  struct Dimension {
    double whole = 1;
    double stride = 1;            ///< in elements
    double span = 1, places = 1;  ///< of the reductions: from end to end, and without gaps
    std::vector<std::optional<int64_t>> steps;  ///< by position of the member

    double span_of(const std::vector<int64_t>& points) const;
    double places_of(const std::vector<int64_t>& points) const;
  };
  double element = 1;                 ///< bytes
  std::vector<Dimension> dimensions;  ///< the largest stride first

  /// For so many points of every member, by position.
  double bytes(const std::vector<int64_t>& points) const;
  /// Lines of memory that bring all of it.
  double lines(const std::vector<int64_t>& points) const;
  /// Elements of the box around all of it, gaps and what lies outside of the tensor included.
  double box(const std::vector<int64_t>& points) const;
  bool moves(int position) const;
  void sort();
};

/// The copies of an operand: one of everything that a block reads, for every block along the
/// members that it moves along.
struct CopyCost {
  double element = 0;  ///< cycles
  /// Not where the operand could be read where it lies, which costs as much.
  bool counts = true;
  std::vector<int64_t> extents;  ///< of the members, by position; 1 where it does not move
  Footprint footprint;

  /// For blocks of so many points along every member, by position.
  double cycles(const std::vector<int64_t>& points) const;
};

/// An access and how far it moves along every member of the band.
struct Operand {
  ir::MemoryAccess access;
  std::vector<std::optional<int64_t>> strides;  ///< in elements, by position of the member
};

/// A statement that adds terms, in the view of the band.
struct Update {
  const ScopStatement* statement = nullptr;
  std::vector<const ir::Iterator*> iterators;  ///< by position of the member
  std::vector<Operand> operands;               ///< reads, equal ones once, then the write
  std::vector<int> outer;  ///< positions of the iterators that are loops around the cluster
};

/// The product of the extents of the statement's iterators for which `wanted` holds.
template <class Wanted>
double volume(const ScopStatement& statement, Wanted wanted) {
  double result = 1;
  for (const ir::Iterator& iterator : statement.source->domain)
    if (wanted(iterator)) result *= static_cast<double>(extent_of(iterator));
  return result;
}

/// Refers to all arguments.
class Operands {
 public:
  Operands(const ClusterContext& in, const std::vector<Member>& members);

  const std::vector<Update>& updates() const { return updates_; }

  double whole_bytes(const Operand& operand) const;
  /// Where data says where, dimensions in which nothing else moves count as a whole.
  Footprint footprint(const Update& update, const Operand& operand) const;
  /// From end to end of the longest walk of a reduction in steps that go so few lines further; 0:
  /// there is none.
  int64_t near_bytes(const Update& update, const Operand& operand, int64_t lines) const;
  /// Of the reduction's innermost loop, how many that follow each other read from one line.
  double steps_of_a_line(const Update& update, const Operand& operand) const;
  /// Elements of a copy that fit in the cache.
  double most_elements(const ir::MemoryAccess& access) const;

  /// A copy, the order of whose dimensions is open; nothing where none may be made.
  std::optional<PackedRead> begin_copy(const Update& update, const Operand& operand) const;
  /// Nothing where no copy is contiguous along the vector, or may be made.
  std::optional<PackedRead> pack(const Update& update, const Operand& operand,
                                 const Member& vector) const;
  CopyCost cost_of_copies(const Update& update, const Operand& operand, const Member& along) const;
  /// Whether a copy in the order of use serves the caches better than the operand where it lies,
  /// contiguous along the vector: the steps of the reduction's innermost loop are far apart, so
  /// that neither prefetches nor the ways of a cache serve them, and enough results use the copy.
  bool is_leaping(const Update& update, const Operand& operand) const;
  /// Cycles to write and read again a temporary that exceeds the second-level cache and that copies
  /// could compute instead, since nothing else reads it; 0 for all other operands.
  double pass_saved_by_copies(const Operand& operand) const;

 private:
  const ClusterContext in_;
  const std::vector<Member>& members_;
  std::vector<Update> updates_;
};

}  // namespace tc::plan
