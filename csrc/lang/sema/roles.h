// Which outputs depend on what the caller passes for them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "lang/syntax/tree.h"

namespace tc::lang {

/// Whether what a computed tensor holds when the kernel starts matters: it is read, or accumulated
/// into without `!`, before it is assigned. Accumulation adds a warning, since `!` is mostly what
/// was meant. Names must be resolved.
bool initial_contents_read(const Function& function, const std::string& tensor,
                           std::vector<std::string>* warnings);

/// Whether a statement reads elements of a tensor.
bool reads(const TreeStatement& statement, const std::string& tensor);
/// Whether some statement reads elements of an input; of others only the sizes count.
bool elements_read(const Function& function, const std::string& input);

/// The input whose memory format suits a result, as that of an image suits what a convolution makes
/// of it: one of the same rank which is read, at each step on the way, with the indices of what is
/// computed in their own dimensions, the second left out. Empty where there is none.
std::string laid_out_like(const Function& function, const std::string& result);

/// Adds a message, joined from its parts, with position and caret.
template <class... Parts>
void warn(std::vector<std::string>* warnings, const SourceRange& where, const Parts&... parts) {
  warnings->push_back(LanguageError(where, "warning: ", parts...).what());
}

}  // namespace tc::lang
