// "did you mean" for names that are not there.
#pragma once

#include <string>
#include <vector>

namespace tc {

/// "; did you mean X?" for the candidate closest in spelling, or nothing when none is close.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates);

/// "a", "a and b", "a, b and c".
std::string enumerate(const std::vector<std::string>& names);

}  // namespace tc
