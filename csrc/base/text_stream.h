// Text that is written piece by piece, and numbers in it.
#pragma once

#include <locale.h>

#include <sstream>

namespace tc {

/// A stream that throws std::bad_alloc where there is no memory: a plain one would leave out the
/// piece, and nobody would see that the text is not whole.
class TextStream : public std::ostringstream {
 public:
  TextStream() { exceptions(badbit); }
};

/// While it lives, this thread reads and writes numbers as C does: a program may have set a locale
/// with a decimal comma.
class InCLocale {
 public:
  InCLocale() : before_(uselocale(classic())) {}
  ~InCLocale() { uselocale(before_); }
  InCLocale(const InCLocale&) = delete;
  InCLocale& operator=(const InCLocale&) = delete;

 private:
  static locale_t classic() {
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
    return locale;
  }

  const locale_t before_;
};

}  // namespace tc
