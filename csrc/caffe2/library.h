// The operators whose texts are those of ops/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "caffe2/arguments.h"
#include "caffe2/source.h"

namespace tc_caffe2 {

/// Names with what they mean.
using Described = std::vector<std::pair<const char*, const char*>>;

/// An operator with texts of the library of definitions.
struct LibraryOperator {
  const char* type;
  Described inputs, outputs, arguments;
  const char* file;        ///< of ops/, without ".tc"
  const char* definition;  ///< the one that is shown for it
  SourcePtr (*source)(const LibraryOperator&, const Arguments&);
};

const std::vector<LibraryOperator>& library_operators();

/// A definition of ops/ with the comment above it.
std::string documentation(const LibraryOperator& library_operator);

/// The text of ops/FILE.tc; null where there is none. The function is written when this library is
/// built (tensor_comprehensions/_caffe2_build.py).
const char* ops_text(const std::string& file);

}  // namespace tc_caffe2
