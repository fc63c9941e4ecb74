// Subscripts that only a run can show to be good: what is to be checked, before the program runs or
// while it does, and how a bad one is found for the message.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// One dimension of one access that is open (see OpenAccess), as messages speak of it.
struct IndexCheck {
  OpenAccess access;
  std::string text;  ///< the access as a user would write it
  std::string tensor;
  int64_t size = 0;
  bool is_unsigned = false;  ///< how the bits of a bad index are to be read
  bool by_data = false;      ///< what tensors hold decides whether it is bad
  SourceRange where;         ///< of the statement
  /// Indices of the statement that decide whether the access is bad: a position counts their values
  /// in row-major order.
  std::vector<Iterator> domain;
};

/// The checks of a specialised program, one for each of `open_accesses` and in their order.
std::vector<IndexCheck> list_index_checks(const Program& program);

/// A box of a tensor of integers, and the values that may be in it: from `least` to `most`, none
/// where `least` is larger.
struct ElementRange {
  std::string tensor;
  std::vector<int64_t> first, count;
  int64_t least = 0, most = 0;
};

/// A check in terms of what the caller passes, so that it can be made before the program runs.
struct EntryCheck {
  size_t check = 0;  ///< by its place in the list
  Expr bad;          ///< over the indices of the check's domain
  /// The same as limits of the elements of one tensor, where it comes to that.
  std::optional<ElementRange> range;
};

/// Nothing where the program computes what the subscript or its conditions read in a way that is
/// not cheap to repeat.
std::optional<EntryCheck> check_at_entry(const Program& program,
                                         const std::vector<IndexCheck>& checks, size_t check);

/// A program whose results "bad.<check>" are 1 for every check that fails, else 0.
Program detect_bad_indices(const Program& program, const std::vector<IndexCheck>& checks,
                           const std::vector<EntryCheck>& entries);

/// A program with two int64 results for each of some checks, in order: the first position at which
/// it fails, the largest int64 where there is none, and the index there.
struct LocateProgram {
  Program program;
  std::vector<size_t> checks;
};
/// What the checks read is computed again, bad reads as others; nothing that the caller passed is
/// written. Checks of what is computed from the initial contents of results are left out: these are
/// gone when a kernel has run.
LocateProgram locate_bad_indices(const Program& program, const std::vector<IndexCheck>& checks);

/// The program with these checks made by the loops that use the subscripts (see checked_index): a
/// bad read gives some element, a bad update changes nothing. `positions`: they say where it was.
Program check_in_loops(const Program& program, const std::vector<IndexCheck>& checks,
                       const std::set<size_t>& chosen, bool positions);

}  // namespace tc::ir
