#include "machine/instruction_sets.h"

#include <cstdlib>
#include <limits>
#include <sstream>

namespace tc::machine {

InstructionSets usable_instruction_sets() {
  InstructionSets usable;
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  // The compiler takes literals only; its code asks for the operating system's part too. What it
  // may not know (Knights Landing, APX) is not asked for, and so never used.
#define TC_ASK(name) \
  if (__builtin_cpu_supports(name)) usable.insert(name)
  TC_ASK("sse4.1");
  TC_ASK("avx");
  TC_ASK("f16c");
  TC_ASK("fma");
  TC_ASK("fma4");
  TC_ASK("avx2");
  TC_ASK("avxvnni");
  TC_ASK("avx512f");
  TC_ASK("avx512cd");
  TC_ASK("avx512vl");
  TC_ASK("avx512bw");
  TC_ASK("avx512dq");
  TC_ASK("avx512ifma");
  TC_ASK("avx512vbmi");
  TC_ASK("avx512bf16");
  TC_ASK("avx512vnni");
  TC_ASK("avx512bitalg");
  TC_ASK("avx512vbmi2");
  TC_ASK("avx512vpopcntdq");
  TC_ASK("gfni");
  TC_ASK("avx512vp2intersect");
  TC_ASK("avx512fp16");
#undef TC_ASK
#endif
  const char* given = std::getenv("TC_WITHOUT");
  std::istringstream names(given ? given : "");
  for (std::string name; std::getline(names, name, ',');) usable.erase(name);
  return usable;
}

int vector_bits(const InstructionSets& usable) {
  if (usable.count("avx512vl") && usable.count("avx512bw") && usable.count("avx512dq")) return 512;
  return usable.count("avx2") ? 256 : 128;
}

bool has_dot_products(const InstructionSets& usable) {
  if (vector_bits(usable) < 512) return false;
  for (const char* set : {"avx512ifma", "avx512vbmi", "avx512bf16", "avx512vnni", "avx512bitalg",
                          "avx512vbmi2", "avx512vpopcntdq", "gfni"})
    if (!usable.count(set)) return false;
  return true;
}

int widest_unit_bits() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  // Zen 4 has AVX-512 on the units of Zen 3.
  if (__builtin_cpu_is("amdfam19h")) return 256;
#endif
  return std::numeric_limits<int>::max();
}

int lines_of_a_request() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  // Intel's second cache completes pairs and follows streams inside a page; asking for what it
  // brings anyway takes places from other rows (measured with a Granite Rapids, 6400 rows of 256
  // bytes, one line or all four prefetched: 93 and 109 us where the same rows are read again, 177
  // and 171 where new ones are; a Zen 4 takes 205 and 71 us for new ones).
  if (__builtin_cpu_is("intel")) return 4;
#endif
  return 1;
}

}  // namespace tc::machine
