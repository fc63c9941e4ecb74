// The errors of the core. A user error says what is wrong, with both values, where, and the way
// out; an internal error is another type, is never compiled out, and names file and line.
#pragma once

#include <stdexcept>
#include <string>

#include "base/source.h"
#include "base/text_stream.h"
#include "tc/tc.h"

namespace tc {

/// Base of everything the core throws. `code()` is what crosses the C interface.
class Error : public std::runtime_error {
 public:
  Error(tc_status code, const std::string& message) : std::runtime_error(message), code_(code) {}
  tc_status code() const { return code_; }

 private:
  tc_status code_;
};

/// The text is wrong: syntax, types, names, ranges. `what()` ends with the source line and caret.
class LanguageError : public Error {
 public:
  LanguageError(const SourceRange& where, const std::string& message);
  int line() const { return line_; }
  int column() const { return column_; }

 private:
  int line_, column_;
};

/// An argument does not fit the definition: count, rank, size, dtype, device, layout, overlap.
class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message) : Error(TC_SHAPE_ERROR, message) {}
};

/// A correct program that cannot be compiled as asked: an illegal mapping, an unknown target.
class CompilationError : public Error {
 public:
  explicit CompilationError(const std::string& message) : Error(TC_COMPILATION_ERROR, message) {}
};

/// A file of options or kernels that cannot be read or written.
class CacheError : public Error {
 public:
  explicit CacheError(const std::string& message) : Error(TC_CACHE_ERROR, message) {}
};

/// The interface was used wrongly: an unknown option, a value out of range, a null handle.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(TC_USAGE_ERROR, message) {}
};

/// A bug of ours.
class InternalError : public Error {
 public:
  InternalError(const char* file, int line, const std::string& message);
};

/// Joins its arguments as operator<< prints them.
template <class... Ts>
std::string concat(const Ts&... parts) {
  TextStream stream;
  (stream << ... << parts);
  return stream.str();
}

}  // namespace tc

/// Checks an invariant of ours; the message is only built when it fails.
#define TC_INTERNAL_CHECK(condition, ...)                                                        \
  do {                                                                                           \
    if (!(condition))                                                                            \
      throw ::tc::InternalError(__FILE__, __LINE__, ::tc::concat(#condition ": ", __VA_ARGS__)); \
  } while (false)
