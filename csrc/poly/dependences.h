// Memory dependences between statement instances, in the order of the text.
#pragma once

#include "poly/scop.h"

namespace tc::poly {

struct Dependences {
  isl::union_map flow;  ///< write before read
  isl::union_map all;   ///< flow, anti and output
};

/// Exact for affine accesses; indirect ones depend on everything that their dimension may hold.
Dependences find_dependences(const Scop& scop);

}  // namespace tc::poly
