// Values that go on from the one an iteration before them.
#pragma once

#include <optional>

#include "ir/program.h"

namespace tc::ir {

/// What is before an iteration's own term: position > 0 && goes_on ? scaled neighbour : identity.
struct Scan {
  Reduction reduction = Reduction::Sum;
  Expr position;   ///< of the iteration, among those that go on from one another
  Expr neighbour;  ///< a read of the element before, only where position > 0 and it goes on
  Expr goes_on;    ///< only asked where position > 0; undefined: always
  Expr scale;      ///< of a sum or extreme, only asked for where the neighbour is; undefined: 1
  bool adds = false;  ///< the scale of an extreme is added, not multiplied by
};

/// What a scale is that changes nothing.
Expr no_scale(const Scan& scan, Type type);
/// What is before, scaled. Of no terms it stays that, whatever the scale of an extreme is.
Expr scaled(const Scan& scan, const Expr& before, const Expr& scale);
/// One scale behind another.
Expr join_scales(const Scan& scan, const Expr& first, const Expr& second);

/// The value of an iteration that adds this term, or what the operator does, as a call that says
/// all of the above; no simplifier looks through it.
Expr make_scan(const Scan& scan, const Expr& term);

struct ScanTerm {
  Scan scan;
  Expr term;
};
/// Nothing for other values.
std::optional<ScanTerm> find_scan(const Expr& value);
/// Whether each iteration of the last index, which is marked as a reduction's, goes on from the
/// result of the one before.
bool is_scan(const Statement& statement);

/// The value in arithmetic and choices.
Expr scan_value(const Scan& scan, const Expr& term);

}  // namespace tc::ir
