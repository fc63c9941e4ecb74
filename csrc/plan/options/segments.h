// Options of programs that are planned in several segments, whose statements have the same names.
#pragma once

#include <string>

#include "plan/options/options.h"

namespace tc::plan {

// Options of a cluster say which segment they are of, "2:S0". Those that do not are of each.
constexpr char kOfSegment = ':';

/// "2:S0"; the name alone of a program that is one segment, 0.
std::string name_in_segment(const std::string& name, size_t segment);

/// Those for a segment, whose statements have names without it.
MappingOptions options_of_segment(const MappingOptions& options, size_t segment);

}  // namespace tc::plan
