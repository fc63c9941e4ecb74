#include "runtime/nontemporal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/memory.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define TC_NONTEMPORAL
#endif

namespace tc::runtime {
namespace {

#ifdef TC_NONTEMPORAL

using CopyLines = void (*)(char* to, const char* from, int64_t lines);

// `to` is aligned to a line.
__attribute__((target("avx512f"))) void copy_lines_512(char* to, const char* from, int64_t lines) {
  for (; lines > 0; --lines, to += kLineBytes, from += kLineBytes)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}

__attribute__((target("avx"))) void copy_lines_256(char* to, const char* from, int64_t lines) {
  for (; lines > 0; --lines, to += kLineBytes, from += kLineBytes) {
    for (int64_t at = 0; at < kLineBytes; at += 32)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
}

void copy_lines_128(char* to, const char* from, int64_t lines) {
  for (; lines > 0; --lines, to += kLineBytes, from += kLineBytes) {
    for (int64_t at = 0; at < kLineBytes; at += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
}

CopyLines widest_copy() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return copy_lines_512;
  return __builtin_cpu_supports("avx") ? copy_lines_256 : copy_lines_128;
}

#endif

}  // namespace

bool has_nontemporal_stores() {
#ifdef TC_NONTEMPORAL
  return true;
#else
  return false;
#endif
}

bool is_resident(const void* memory, int64_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  for (uintptr_t at : {begin, begin + static_cast<uintptr_t>(bytes) / 2,
                       begin + static_cast<uintptr_t>(std::max<int64_t>(bytes, 1)) - 1}) {
    unsigned char in_memory = 0;
    if (mincore(reinterpret_cast<void*>(at / page * page), page, &in_memory) != 0 ||
        (in_memory & 1) == 0)
      return false;
  }
  return true;
}

void copy_nontemporal(void* to, const void* from, int64_t bytes) {
#ifdef TC_NONTEMPORAL
  static const CopyLines copy_lines = widest_copy();
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  const auto over = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) % kLineBytes);
  const int64_t head = std::min(bytes, over == 0 ? 0 : kLineBytes - over);
  const int64_t lines = (bytes - head) / kLineBytes, body = lines * kLineBytes;
  if (head > 0) std::memcpy(out, in, static_cast<size_t>(head));
  copy_lines(out + head, in + head, lines);
  const int64_t tail = bytes - head - body;
  if (tail > 0) std::memcpy(out + head + body, in + head + body, static_cast<size_t>(tail));
#else
  std::memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

void finish_nontemporal() {
#ifdef TC_NONTEMPORAL
  _mm_sfence();
#endif
}

}  // namespace tc::runtime
