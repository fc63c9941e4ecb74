// The errors of the core. A user error says what is wrong, with both values, where, and the way
// out; an internal error is another type, is never compiled out, and names file and line.
#pragma once

#include <stdexcept>
#include <string>

#include "base/source.h"
#include "base/text_stream.h"
#include "tc/tc.h"

namespace tc {

/// Joins its arguments as operator<< prints them.
template <class... Ts>
std::string concat(const Ts&... parts) {
  TextStream stream;
  (stream << ... << parts);
  return stream.str();
}

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
  /// The message is joined from its parts, as those of all errors below.
  template <class First, class Second, class... Parts>
  LanguageError(const SourceRange& where, const First& first, const Second& second,
                const Parts&... parts)
      : LanguageError(where, concat(first, second, parts...)) {}
  int line() const { return line_; }
  int column() const { return column_; }

 private:
  int line_, column_;
};

/// An error of one code, whose message is joined from its parts.
template <tc_status status>
class ErrorOf : public Error {
 public:
  template <class... Parts>
  explicit ErrorOf(const Parts&... parts) : Error(status, concat(parts...)) {}
};

/// An argument does not fit the definition: count, rank, size, dtype, device, layout, overlap.
using ShapeError = ErrorOf<TC_SHAPE_ERROR>;

/// A correct program that cannot be compiled as asked: an illegal mapping, an unknown target.
using CompilationError = ErrorOf<TC_COMPILATION_ERROR>;

/// A file of options or kernels that cannot be read or written.
using CacheError = ErrorOf<TC_CACHE_ERROR>;

/// The interface was used wrongly: an unknown option, a value out of range, a null handle.
using UsageError = ErrorOf<TC_USAGE_ERROR>;

/// A bug of ours.
class InternalError : public Error {
 public:
  InternalError(const char* file, int line, const std::string& message);
};

}  // namespace tc

/// Checks an invariant of ours; the message is only built when it fails.
#define TC_INTERNAL_CHECK(condition, ...)                                                        \
  do {                                                                                           \
    if (!(condition))                                                                            \
      throw ::tc::InternalError(__FILE__, __LINE__, ::tc::concat(#condition ": ", __VA_ARGS__)); \
  } while (false)
