// Zeros around a tensor, as a statement writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::ir {

/// padded(.., x, ..) is tensor(.., x - before, ..) inside, zero everywhere else.
struct Padding {
  std::string tensor;
  struct Dimension {
    int64_t before = 0, size = 0;  ///< zeros in front; elements of the tensor
    int64_t extent = 0;            ///< of the padded tensor
  };
  std::vector<Dimension> dimensions;
};

/// What a statement of a specialised program pads, if that is all it does: its value is the read
/// where every subscript lies in its range, and zero where one does not.
std::optional<Padding> match_padding(const Program& program, const Statement& statement);

}  // namespace tc::ir
