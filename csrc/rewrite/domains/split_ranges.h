// Places that are affine piece by piece become affine ones, a statement each.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"

namespace tc::rewrite {

/// O(n, w) = X(n, (w - 3 + W) % W), an image that goes on from its other side, is three copies of
/// neighbours: of the left border, the middle and the right border (index-set splitting; Griebl,
/// Feautrier and Lengauer, 2000). A statement without reduction is taken apart along the index of
/// its contiguous dimension where remainders, quotients, extremes and conditions of that index
/// alone say where it reads, in a few pieces on each of which they are affine, or in one, and the
/// longest piece then reads neighbours; where they clamp a quotient, as in O(n, w) = X(n, max(w / 2
/// - 1, 0)), and what lies between the ends is a pattern that few loads bring; and where conditions
/// of that index alone choose what is computed, as in O(n, e) = e < F ? X(n, e) * Y(e) : X(n, e -
/// F), if no piece is short. Runs on a specialised program whose indices count from 0, before
/// collapse_dimensions.
void split_ranges(ir::Program& program, const Layouts& layouts);

}  // namespace tc::rewrite
