// A definition over a batch of inputs.
#pragma once

#include <set>
#include <string>

#include "lang/lowering/definition.h"

namespace tc::lang {

/// The text of a definition <name>_batch that computes the definition for every example of a batch:
/// the named inputs, and what depends on them, have one more dimension in front, with an index of
/// its own in every statement about them. Results that depend on none of them keep their rank.
/// UsageError where the definition adds to what its caller passes, or an input is a scalar.
std::string batch_text(const Definition& definition, const std::set<std::string>& inputs);

}  // namespace tc::lang
