#include "codegen/cuda/cuda_prelude.h"

namespace tc::codegen {
namespace {

const char kBits[] = R"(
template <class To, class From>
__device__ __forceinline__ To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits() keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}
)";

const char kMinMax[] = R"(
template <class T>
__device__ __forceinline__ T min(T a, T b) {
  return (a < b || a != a) ? a : b;
}
template <class T>
__device__ __forceinline__ T max(T a, T b) {
  return (a > b || a != a) ? a : b;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ float min(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
__device__ __forceinline__ float max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#endif
)";

// The smallest value divided by -1 must wrap rather than trap, which x86 does under the emulator.
const char kTruncateDiv[] = R"(
template <class T>
__device__ __forceinline__ bool minus_one(T b) {
  return T(-1) < T(0) && b == T(-1);
}
template <class T>
__device__ __forceinline__ T truncate_div(T a, T b) {
  return b == T(0) ? T(0) : minus_one(b) ? T(0ull - (unsigned long long)a) : T(a / b);
}
template <class T>
__device__ __forceinline__ T truncate_mod(T a, T b) {
  return b == T(0) || minus_one(b) ? T(0) : T(a % b);
}
)";
// The remainder is in [0, |b|), whatever the signs.
const char kFloorDiv[] = R"(
template <class T>
__device__ __forceinline__ T floor_mod(T a, T b) {
  const T r = truncate_mod(a, b);
  return r < T(0) ? T(b < T(0) ? r - b : r + b) : r;
}
template <class T>
__device__ __forceinline__ T floor_div(T a, T b) {
  const T q = truncate_div(a, b);
  return truncate_mod(a, b) < T(0) ? T(b < T(0) ? q + T(1) : q - T(1)) : q;
}
)";

const char kClassify[] = R"(
template <class T>
__device__ __forceinline__ bool isnan(T a) {
  return a != a;
}
template <class T>
__device__ __forceinline__ bool isfinite(T a) {
  return a - a == T(0);
}
template <class T>
__device__ __forceinline__ bool isinf(T a) {
  return a == a && !isfinite(a);
}
)";

// min and max of NaN are NaN, which CUDA's own of integers need not know. 64 bits have signed sums
// through unsigned ones.
const char kAtomic[] = R"(
template <int bytes>
struct word {
  typedef unsigned type;
};
template <>
struct word<8> {
  typedef unsigned long long type;
};
template <class T, class Combine>
__device__ __forceinline__ void atomic_update(T* place, Combine combine) {
  typedef typename word<sizeof(T)>::type Word;
  Word old = bits<Word>(*(volatile T*)place), expected;
  do {
    expected = old;
    const Word wanted = bits<Word>(combine(bits<T>(expected)));
    if (wanted == expected) return;
    old = ::atomicCAS((Word*)place, expected, wanted);
  } while (old != expected);
}
template <class T>
__device__ __forceinline__ void atomic_sum(T* place, T value) {
  ::atomicAdd(place, value);
}
__device__ __forceinline__ void atomic_sum(long long* place, long long value) {
  ::atomicAdd((unsigned long long*)place, (unsigned long long)value);
}
template <class T>
__device__ __forceinline__ void atomic_product(T* place, T value) {
  atomic_update(place, [=](T old) { return T(old * value); });
}
template <class T>
__device__ __forceinline__ void atomic_min(T* place, T value) {
  atomic_update(place, [=](T old) { return min(old, value); });
}
template <class T>
__device__ __forceinline__ void atomic_max(T* place, T value) {
  atomic_update(place, [=](T old) { return max(old, value); });
}
)";

// The first bad index stays, until the host has read it. Threads of other blocks may be in the
// middle of writing it, so that only `state` 2 is a whole one.
const char kCheckedIndex[] = R"(
struct bad_index {
  unsigned state;
  int check;
  long long position, index;
  unsigned long long kernel;
};
template <class Index>
__device__ __forceinline__ int checked_index(Index index, int size, int check, long long position,
                                             bad_index* report, unsigned long long kernel) {
  if (index >= 0 && index < (Index)size) return (int)index;
  if (atomicCAS(&report->state, 0u, 1u) == 0u) {
    report->check = check;
    report->position = position;
    report->index = (long long)index;
    report->kernel = kernel;
    __threadfence_system();
    atomicExch(&report->state, 2u);
  }
  return 0;
}
)";

const char kHalf[] = R"(
struct half {
  unsigned short bits;
};
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ float to_float(half h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
  return f;
}
__device__ __forceinline__ half to_half(float f) {
  half h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
  return h;
}
#else
__device__ __forceinline__ float to_float(half h) {
  const unsigned sign = (unsigned)(h.bits & 0x8000) << 16;
  const unsigned rest = h.bits & 0x7fff;
  if (rest >= 0x7c00) return bits<float>(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  // As a float with a wrong exponent, which the product corrects for subnormal numbers too.
  const float magnitude = bits<float>(rest << 13) * bits<float>(0x77800000u);
  return bits<float>(sign | bits<unsigned>(magnitude));
}
__device__ __forceinline__ half to_half(float f) {
  const unsigned sign = (bits<unsigned>(f) >> 16) & 0x8000;
  unsigned rest = bits<unsigned>(f) & 0x7fffffff;
  if (rest > 0x7f800000u) {
    rest = 0x7fff;
  } else if (rest >= 0x477ff000u) {
    rest = 0x7c00;
  } else if (rest < 0x38800000u) {
    // Adding 0.5 leaves the subnormal's bits, rounded to nearest even, at the bottom.
    rest = bits<unsigned>(bits<float>(rest) + 0.5f) - 0x3f000000u;
  } else {
    rest = (rest - 0x38000000u + 0xfff + ((rest >> 13) & 1)) >> 13;
  }
  return half{(unsigned short)(sign | rest)};
}
#endif
__device__ __forceinline__ float round_half(float f) { return to_float(to_half(f)); }
)";

const char kBfloat16[] = R"(
struct bfloat16 {
  unsigned short bits;
};
__device__ __forceinline__ float to_float(bfloat16 b) {
  return bits<float>((unsigned)b.bits << 16);
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ bfloat16 to_bfloat16(float f) {
  bfloat16 b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(f));
  return b;
}
#else
__device__ __forceinline__ bfloat16 to_bfloat16(float f) {
  const unsigned u = bits<unsigned>(f);
  if (f != f) return bfloat16{0x7fff};
  return bfloat16{(unsigned short)((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}
#endif
__device__ __forceinline__ float round_bfloat16(float f) { return to_float(to_bfloat16(f)); }
)";

}  // namespace

std::string CudaPrelude::text() const {
  std::string body;
  if (bits || half || bfloat16 || atomic) body += kBits;
  if (min_max || atomic) body += kMinMax;
  if (truncate_div || floor_div) body += kTruncateDiv;
  if (floor_div) body += kFloorDiv;
  if (classify) body += kClassify;
  if (atomic) body += kAtomic;
  if (checked_index) body += kCheckedIndex;
  if (half) body += kHalf;
  if (bfloat16) body += kBfloat16;
  std::string result;
  if (!body.empty()) result += "namespace tc {" + body + "}  // namespace tc\n\n";
  if (dynamic_shared) result += "extern __shared__ __align__(16) unsigned char tc_shared[];\n\n";
  return result;
}

}  // namespace tc::codegen
