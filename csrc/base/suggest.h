// Names that users write: lists of them in the environment, and "did you mean" for those that are
// not there.
#pragma once

#include <string>
#include <vector>

namespace tc {

/// "; did you mean X?" for the candidate closest in spelling, or nothing when none is close.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates);

/// What to say behind a name that is none of these: what was meant, if any is close, and all.
std::string known_names(const std::string& name, const std::vector<std::string>& known);

/// Without blanks and tabs at both ends.
std::string without_blanks(const std::string& text);

/// "a", "a and b", "a, b and c".
std::string enumerate(const std::vector<std::string>& names);

}  // namespace tc
