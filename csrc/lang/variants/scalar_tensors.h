// Definitions whose scalars are tensors.
#pragma once

#include <set>
#include <string>

#include "lang/lowering/definition.h"

namespace tc::lang {

/// The text of a definition <name>_tensors that takes the named scalars as tensors of one element:
/// `float alpha` becomes `float(1) alpha`, and is read as alpha(0). What is a tensor may stand in a
/// graph, be one of a batch, and receive a gradient. UsageError where a scalar decides sizes.
std::string scalar_tensors_text(const Definition& definition, const std::set<std::string>& scalars);

}  // namespace tc::lang
