// A segment of a program's statements as a program of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// The statements [first, last] with the tensors and scalars that they touch. Tensors that come
/// from statements before become inputs, or outputs whose contents count; those that the caller or
/// statements behind look at become outputs, temporaries of the whole program among them.
/// Parameters come in the order of the program's, then by name. All statements are the program
/// itself.
Program segment(const Program& program, size_t first, size_t last);

/// Where the statements [first, end) of a specialised program are to be cut, so that no segment has
/// more than `most`: the numbers of those that begin a segment, in order, without `first`. Cuts lie
/// where little data passes from the statements in front of them to those behind.
std::vector<size_t> find_cuts(const Program& program, size_t first, size_t end, size_t most);

}  // namespace tc::ir
