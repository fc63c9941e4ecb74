// Definitions over parts of tensors that are told how large the whole is.
#pragma once

#include <string>
#include <vector>

#include "lang/lowering/definition.h"

namespace tc::lang {

/// A definition that takes sizes as parameters.
struct SizesAsParameters {
  struct Size {
    int input;  ///< of the signature's parameters
    int dimension;
  };
  std::string text;
  std::vector<Size> sizes;  ///< those to pass behind the inputs, in order
};

/// The text of a definition <name>_sized that has an int32 parameter for every size of the inputs
/// that is a value, as N is in `sum / N`. Sizes that say which elements there are stay: those in
/// ranges, subscripts and comparisons. No text where no size is a value.
SizesAsParameters sizes_as_parameters(const Definition& definition);

}  // namespace tc::lang
