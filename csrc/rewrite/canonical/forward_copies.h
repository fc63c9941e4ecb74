// Temporaries of which a part is copied are computed in the copy's place.
#pragma once

#include "ir/program.h"

namespace tc::ir {

/// Where the only use of a temporary is a statement that copies it, or a part of it, as the
/// gradient of an image takes the middle of the gradient of the padded image, the statements that
/// compute the temporary write the copy instead, and no more than is copied. Runs on a specialised
/// program whose indices count from 0, before widen_accumulators; the program means the same
/// afterwards.
void forward_copies(Program& program);

}  // namespace tc::ir
