// Values of a definition that its derivative had better not compute again.
#pragma once

#include <string>

#include "lang/gradient/gradient.h"

namespace tc::lang {

/// The definition with more results, behind its own: temporaries that the derivative of all of it
/// would compute again, and that cost more to compute than to keep. These are sums and extremes
/// with fewer dimensions than something they read, as the mean of a row, those over products of two
/// tensors each of which lacks an index of the other, as a matrix product, and those over what
/// functions of many instructions give, as powers of the values in a window. No text where there
/// are none. Errors are those of `gradient_text`.
std::string keeping_text(const Definition& definition, const GradientRequest& request);

}  // namespace tc::lang
