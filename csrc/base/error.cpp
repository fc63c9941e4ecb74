#include "base/error.h"

namespace tc {
namespace {

std::string located(const SourceRange& where, const std::string& message) {
  if (!where.valid()) return message;
  return concat(where.line(), ":", where.column(), ": ", message, "\n", where.highlight());
}

/// The file's path inside the project, so that messages do not depend on where it was built.
std::string project_path(const std::string& file) {
  size_t at = file.rfind("csrc/");
  return at == std::string::npos ? file : file.substr(at);
}

}  // namespace

LanguageError::LanguageError(const SourceRange& where, const std::string& message)
    : Error(TC_LANGUAGE_ERROR, located(where, message)),
      line_(where.line()),
      column_(where.column()) {}

InternalError::InternalError(const char* file, int line, const std::string& message)
    : Error(TC_INTERNAL_ERROR,
            concat("internal error at ", project_path(file), ":", line, ": ", message,
                   "\nThis is a bug; please report it with the text "
                   "and sizes that led here.")) {}

}  // namespace tc
