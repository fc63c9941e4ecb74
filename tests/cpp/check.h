// Checks for test executables: a failed one prints where and what, and the executable goes on.
// `return check::finish();` at the end of main prints the counts and gives the exit status.
#pragma once

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

namespace check {

inline int passed = 0, failed = 0;

inline void record(bool ok, const char* file, int line, const std::string& what) {
  if (ok) {
    ++passed;
    return;
  }
  ++failed;
  std::cerr << file << ":" << line << ": " << what << "\n";
}

template <class A, class B>
void equal(const A& a, const B& b, const char* text_a, const char* text_b, const char* file,
           int line) {
  std::ostringstream what;
  if (!(a == b)) {
    what << text_a << " == " << text_b << " failed:\n  left:  " << a << "\n  right: " << b;
  }
  record(a == b, file, line, what.str());
}

inline int finish() {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace check

#define CHECK(condition) check::record(bool(condition), __FILE__, __LINE__, #condition " failed")
#define CHECK_EQ(a, b) check::equal((a), (b), #a, #b, __FILE__, __LINE__)
/// The text holds the piece.
#define CHECK_HAS(text, piece)                                                 \
  do {                                                                         \
    std::string text_(text), piece_(piece);                                    \
    check::record(text_.find(piece_) != std::string::npos, __FILE__, __LINE__, \
                  "'" + piece_ + "' is not in:\n" + text_);                    \
  } while (false)
