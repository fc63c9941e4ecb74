// Numbers in texts that are read again.
#pragma once

#include <locale.h>

namespace tc {

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
