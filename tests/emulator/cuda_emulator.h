// CUDA C on the CPU, for tests: a text that NVRTC compiles is compiled by g++ with this header
// included before it (-include), and every CUDA thread becomes a fiber. What the text may use:
// indices, shared memory (static and dynamic), __syncthreads,
// warp shuffles and votes, atomics, bit functions and CUDA's mathematical functions.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "launch.h"

#define __CUDA_EMULATOR__ 1
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define warpSize 32

namespace emulator {

/// The running thread's indices.
extern Context* current;

void barrier(int line);
/// All lanes of a warp named by `mask` meet; `all` receives each lane's value. Only where `orders`
/// (__syncwarp) is what they wrote before seen by the others after: CUDA does not promise it of
/// shuffles and votes.
void exchange(unsigned mask, uint64_t mine, uint64_t all[32], bool orders, int line);
[[noreturn]] void fail(const char* what, int line);
/// The memory of the running block for its array number `which`, which starts as NaN.
char* shared_array(int which, size_t bytes, size_t element, const char* name);
char* dynamic_shared(const char* name, size_t element);
/// Called before an atomic operation takes place, for the access that it makes.
void atomic_access(void* place, size_t bytes, void* from);

template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <size_t... I>
struct MakeIndices<0, I...> {
  using type = Indices<I...>;
};
template <class... Parameters, size_t... I>
inline void apply(void (*kernel)(Parameters...), void* const* arguments, Indices<I...>) {
  kernel(*static_cast<Parameters*>(arguments[I])...);
}
/// Calls a kernel with arguments as cuLaunchKernel takes them: a pointer to each.
template <class... Parameters>
inline void apply(void (*kernel)(Parameters...), void* const* arguments) {
  apply(kernel, arguments, typename MakeIndices<sizeof...(Parameters)>::type());
}

}  // namespace emulator

/// What `__shared__ type name[...]` of a text is made into: a reference, since every block that
/// runs has its own array.
#define EMULATOR_SHARED(which, type, name, extents) \
  type(&name) extents =                             \
      *(type(*) extents)emulator::shared_array(which, sizeof(type extents), sizeof(type), #name)
/// And `extern __shared__ type name[]`, which stands outside of all functions.
#define EMULATOR_DYNAMIC_SHARED(type, name)                                                 \
  struct name##_in_block {                                                                  \
    operator type*() const { return (type*)emulator::dynamic_shared(#name, sizeof(type)); } \
  } static const name

/// Written after the text for each kernel: exports <kernel>_emulated.
#define EMULATOR_EXPORT(kernel)                                                         \
  extern "C" __attribute__((visibility("default")))                                     \
  const char* kernel##_emulated(const emulator::Launch* launch) {                       \
    return emulator::run(*launch, [](void* const* a) { emulator::apply(&kernel, a); }); \
  }

#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::current->block)
#define blockDim (emulator::current->block_size)
#define gridDim (emulator::current->grid_size)
#define __syncthreads() emulator::barrier(__LINE__)
#define __trap() emulator::fail("__trap()", __LINE__)

// ---- warps
namespace emulator {

inline int lane() {
  const Context& c = *current;
  return (c.thread.x + c.block_size.x * (c.thread.y + c.block_size.y * c.thread.z)) & 31;
}

template <class T>
inline T shuffle(unsigned mask, T value, int from, int line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
  uint64_t mine = 0, all[32];
  memcpy(&mine, &value, sizeof(T));
  exchange(mask, mine, all, false, line);
  memcpy(&value, &all[from & 31], sizeof(T));
  return value;
}

inline unsigned ballot(unsigned mask, bool vote, int line) {
  uint64_t all[32];
  exchange(mask, vote, all, false, line);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= unsigned(all[i] & 1) << i;
  return result & mask;
}

inline void meet(unsigned mask, int line) {
  uint64_t all[32];
  exchange(mask, 0, all, true, line);
}

/// The lane a shuffle within groups of `width` reads: its own where the other is outside.
inline int down(unsigned delta, int width) {
  const int in_group = lane() % width;
  return in_group + int(delta) < width ? lane() + int(delta) : lane();
}
inline int up(unsigned delta, int width) {
  const int in_group = lane() % width;
  return in_group - int(delta) >= 0 ? lane() - int(delta) : lane();
}

}  // namespace emulator

#define __shfl_sync(mask, value, from) emulator::shuffle(mask, value, from, __LINE__)
#define __shfl_xor_sync(mask, value, lanes) \
  emulator::shuffle(mask, value, emulator::lane() ^ (lanes), __LINE__)
#define __shfl_down_sync(mask, value, delta) \
  emulator::shuffle(mask, value, emulator::down(delta, 32), __LINE__)
#define __shfl_up_sync(mask, value, delta) \
  emulator::shuffle(mask, value, emulator::up(delta, 32), __LINE__)
#define __ballot_sync(mask, vote) emulator::ballot(mask, vote, __LINE__)
#define __any_sync(mask, vote) (emulator::ballot(mask, vote, __LINE__) != 0)
#define __all_sync(mask, vote) (emulator::ballot(mask, vote, __LINE__) == (mask))
#define __syncwarp(...) emulator::meet(0xffffffffu __VA_OPT__(&(__VA_ARGS__)), __LINE__)

// ---- memory. Threads change only at barriers, exchanges, and before atomic operations.
template <class T>
inline T __ldg(const T* p) {
  return *p;
}
// Not inlined, so that the text's place is the return address; their own accesses are not watched.
#define EMULATOR_ATOMIC(name, parameters, step)                         \
  template <class T>                                                    \
  __attribute__((noinline, no_sanitize("thread"))) T name parameters {  \
    emulator::atomic_access(p, sizeof(T), __builtin_return_address(0)); \
    const T old = *p;                                                   \
    step;                                                               \
    return old;                                                         \
  }
EMULATOR_ATOMIC(atomicAdd, (T * p, T v), *p = old + v)
EMULATOR_ATOMIC(atomicMax, (T * p, T v), *p = v > old ? v : old)
EMULATOR_ATOMIC(atomicMin, (T * p, T v), *p = v < old ? v : old)
EMULATOR_ATOMIC(atomicExch, (T * p, T v), *p = v)
EMULATOR_ATOMIC(atomicCAS, (T * p, T expected, T v), *p = old == expected ? v : old)
#undef EMULATOR_ATOMIC
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// ---- bits
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }

// ---- arithmetic that is never contracted; g++ runs with -ffp-contract=off
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }

// ---- functions CUDA has beside C's. The runtime computes them in double.
extern "C" {
double rsqrt(double);
double rcbrt(double);
double sinpi(double);
double cospi(double);
double erfinv(double);
double erfcinv(double);
double erfcx(double);
double normcdf(double);
double normcdfinv(double);
double cyl_bessel_i0(double);
double cyl_bessel_i1(double);
double rhypot(double, double);
double norm3d(double, double, double);
double rnorm3d(double, double, double);
double norm4d(double, double, double, double);
double rnorm4d(double, double, double, double);
double exp10(double) noexcept;
}
#define EMULATOR_UNARY(name) \
  inline float name##f(float a) { return (float)name((double)a); }
EMULATOR_UNARY(rsqrt)
EMULATOR_UNARY(rcbrt)
EMULATOR_UNARY(sinpi)
EMULATOR_UNARY(cospi)
EMULATOR_UNARY(erfinv)
EMULATOR_UNARY(erfcinv)
EMULATOR_UNARY(erfcx)
EMULATOR_UNARY(normcdf)
EMULATOR_UNARY(normcdfinv)
EMULATOR_UNARY(cyl_bessel_i0)
EMULATOR_UNARY(cyl_bessel_i1)
#ifndef __USE_GNU
EMULATOR_UNARY(exp10)
#endif
#undef EMULATOR_UNARY
inline float rhypotf(float a, float b) { return (float)rhypot(a, b); }
inline float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
inline float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
inline float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
inline float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
