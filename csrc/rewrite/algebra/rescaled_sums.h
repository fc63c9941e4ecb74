// Sums of exponentials over something that grows, along which they can be gone on with.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ir/program.h"

namespace tc::ir {

/// A term of a sum for the result r as a multiple of exp(L(t) - L(r)), or of exp(L(r) - L(t)).
struct RescaledTerm {
  Expr value;    ///< of term t, without that
  Expr level;    ///< L(r)
  Expr outside;  ///< what the sum is multiplied by, of r; undefined: nothing
  /// Whether the level of a result's neighbour is subtracted, not subtracted from.
  bool falls = false;
};

/// Of a term w(t) * exp(x(t) - L(r)), a sum of exponentials below their largest, or of
/// w(t) * exp(x(r) - L(t)), as derivatives of such sums have. Neighbouring results differ in L
/// alone, so that one is the other times exp of a difference, and a term more: the recurrence of
/// the online softmax (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018,
/// section 3). Levels may be infinite or NaN; of a weight that is no number only the terms at a
/// level of -infinity know nothing later. `is_level` says whether L(r), or where it falls L(t), is
/// a level of these exponents x; nothing where none is found.
std::optional<RescaledTerm> find_rescaled(
    const Expr& value, const std::string& result, const std::string& term,
    const std::function<bool(const Expr& level, const Expr& exponent, bool falls)>& is_level);

}  // namespace tc::ir
