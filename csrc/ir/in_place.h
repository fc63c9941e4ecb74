// What is wrong with statements that read what they write elsewhere.
#pragma once

#include <string>

#include "ir/program.h"

namespace tc::ir {

/// Why a statement is refused that reads elements which other points of it write, and what to write
/// instead. Where it goes on from a neighbouring result, that is a reduction over all that lies up
/// to it, or one call a step.
std::string in_place_message(const Statement& statement);

}  // namespace tc::ir
