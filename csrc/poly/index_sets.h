// What expressions of indices say on a set of points, as isl's functions and sets.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "poly/isl.h"

namespace tc::poly {

/// A statement's domain, or any other set of points, and what its indices are at each of them.
/// Values are integers without limits: nothing where a type would change one (what wraps around
/// and comes back is fine), where an expression reads data, multiplies indices or divides by them,
/// and where it has more than `most_pieces` or quotients.
class IndexSets {
 public:
  /// A choice, no measurement: what takes more is no place in a tensor that anybody would write.
  unsigned most_pieces = 64;
  /// The same of quotients and remainders in one number or condition, of which isl's time is an
  /// exponential.
  int most_quotients = 8;

  /// The points of these ranges, which must be constant; without `bounded`, of all integers. Of a
  /// tuple of this name, if it has one.
  IndexSets(isl::ctx ctx, const std::vector<ir::Iterator>& indices, bool bounded = true,
            const std::string& tuple = "");
  /// Other points, by the names of their coordinates, of which the last of a name counts.
  IndexSets(isl::set points, const std::vector<std::string>& names);

  const isl::set& points() const { return points_; }
  /// Takes out all other points.
  void restrict_to(const isl::set& points);
  isl::pw_aff constant(int64_t value) const;

  /// An integer, as quasi-affine functions on disjoint pieces of the points.
  std::optional<isl::pw_aff> value(const ir::Expr& e) const;
  /// The points where a condition holds.
  std::optional<isl::set> where(const ir::Expr& condition) const;
  /// Whether isl gets done with points in so many parts, between so many quotients.
  bool is_simple(const isl::set& points) const;
  /// The points at which an index stays inside [0, size).
  std::optional<isl::set> inside(const ir::Expr& index, int64_t size) const;

 private:
  std::optional<isl::pw_aff> find_value(const ir::Expr& e) const;
  std::optional<isl::set> in_few_parts(isl::set points) const;
  std::optional<isl::pw_aff> in_few_pieces(isl::pw_aff value) const;
  std::optional<isl::pw_aff> cast(const Halide::Internal::Cast* op) const;
  std::optional<isl::pw_aff> quotient(const ir::Expr& a, const ir::Expr& b, bool remainder,
                                      bool down) const;

  isl::set points_;
  std::map<std::string, isl::pw_aff> indices_;
  /// Choices: an absolute value holds its operand several times.
  mutable std::map<ir::Expr, std::optional<isl::pw_aff>, Halide::Internal::IRDeepCompare> known_;
};

}  // namespace tc::poly
