// The C library's streams under names of our own, for the static isl and gmp (see CMakeLists.txt):
// their code reads these variables directly, which a shared library only allows for its own.
#include <cstdio>

extern "C" {
__attribute__((visibility("hidden"))) FILE* tc_static_stdin = stdin;
__attribute__((visibility("hidden"))) FILE* tc_static_stdout = stdout;
__attribute__((visibility("hidden"))) FILE* tc_static_stderr = stderr;
}
