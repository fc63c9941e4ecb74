// Sums whose terms count, or lie, by the residues of indices become dense ones.
#pragma once

#include "ir/program.h"

namespace tc::rewrite {

/// The strides of a transposed convolution, or of the gradient of a strided one, are conditions
/// such as (y - k) % 2 == 0 around every term, of an index of the results and one of the
/// reduction. Where they are, index y becomes a residue and a quotient, k the quotients of the
/// one residue that fits, and no term is left out any more. There are as many statements as
/// residues differ in how many quotients they have, mostly one or two an index. Where y runs
/// along rows of the results, a temporary gets them by residue, and a last statement puts them
/// in their places, or adds them to what is there. A condition is one of these where the set of
/// points that it holds at is a stride and nothing else; others stay, with indices put in. An
/// index along rows of which everything is read at quotient and residue, as in O(x) +=! X(c, x
/// / 2) * K(c, x % 2), a transposed convolution without overlap, is taken apart in the same
/// way: what one residue reads are neighbours. Runs on a specialised program whose indices
/// count from 0, before scop.
void split_residues(ir::Program& program);

}  // namespace tc::rewrite
