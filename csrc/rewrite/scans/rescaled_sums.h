// Sums of exponentials over something that grows, along which they can be gone on with.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "rewrite/algebra/inner_sums.h"

namespace tc::ir {

/// A running maximum of exponents x(s, t) of the terms s of a result t.
struct Level {
  Expr read;  ///< M(t)
  Expr step;  ///< x(s, t) is x(s, t') of the neighbour plus this, of t; undefined: 0
};

/// A term of a sum for the result r as a multiple of exp(M(t') + step(t) - M(t)).
struct RescaledTerm {
  Expr value;   ///< of term t, without that
  Level level;  ///< M and its step, as of the result's index
  /// What the sum is multiplied by, of r, where it has terms; undefined: nothing.
  Expr outside;
  /// Whether results are what a level's terms are, and terms are its places: the level of a
  /// result's neighbour is subtracted, not subtracted from.
  bool falls = false;
};

/// Says what level there is below what is subtracted from all these exponents of a term; where it
/// falls, of the term's index.
using FindLevel = std::function<std::optional<Level>(
    const Expr& subtracted, const std::vector<Addend>& exponents, bool falls)>;

/// Of a term w(s) * exp(x(s, t) - N(t)), a sum of exponentials below their largest, or of
/// w(t) * exp(x(s, t) - N(t)) for the result s, as derivatives of such sums have. N is a running
/// maximum M of these exponents or above it. Neighbouring results differ in M and a step that all
/// terms share, so that one is the other times an exponential of at most 1, and a term more: the
/// recurrence of the online softmax (Milakov and Gimelshein, Online normalizer calculation for
/// softmax, 2018, section 3), and with steps that of RWKV's time mixing (Peng et al., RWKV, 2023,
/// appendix D). Levels may be infinite or NaN; of a weight that is no number only the terms at a
/// level of -infinity know nothing later. Results have the terms up to an offset to their index.
/// Nothing where no level is found.
std::optional<RescaledTerm> find_rescaled(const std::vector<Factor>& factors,
                                          const std::string& result, const std::string& term,
                                          int64_t offset, const FindLevel& find_level);

}  // namespace tc::ir
