// Text that is written piece by piece.
#pragma once

#include <sstream>

namespace tc {

/// A stream that throws std::bad_alloc where there is no memory: a plain one would leave out the
/// piece, and nobody would see that the text is not whole.
class TextStream : public std::ostringstream {
 public:
  TextStream() { exceptions(badbit); }
};

}  // namespace tc
