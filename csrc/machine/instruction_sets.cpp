#include "machine/instruction_sets.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace tc::machine {

namespace {

struct KnownSet {
  const char* name;
  bool (*is_here)();
  std::vector<const char*> builds_on;  ///< those above it without which there is none
};

const std::vector<KnownSet>& known_sets() {
#if defined(__x86_64__) && defined(__GNUC__)
  // The compiler takes literals only; its code asks for the operating system's part too. What it
  // may not know (Knights Landing, APX) is not asked for, and so never used.
#define TC_ASK(name) name, [] { return __builtin_cpu_supports(name) != 0; }
#else
#define TC_ASK(name) name, [] { return false; }
#endif
  static const std::vector<KnownSet> all = {
      {TC_ASK("sse4.1"), {}},
      {TC_ASK("avx"), {"sse4.1"}},
      {TC_ASK("f16c"), {"avx"}},
      {TC_ASK("fma"), {"avx"}},
      {TC_ASK("fma4"), {"avx"}},
      {TC_ASK("avx2"), {"avx"}},
      {TC_ASK("avxvnni"), {"avx2"}},
      {TC_ASK("avx512f"), {"avx2", "fma", "f16c"}},
      {TC_ASK("avx512cd"), {"avx512f"}},
      {TC_ASK("avx512vl"), {"avx512f"}},
      {TC_ASK("avx512bw"), {"avx512f"}},
      {TC_ASK("avx512dq"), {"avx512f"}},
      {TC_ASK("avx512ifma"), {"avx512f"}},
      {TC_ASK("avx512vbmi"), {"avx512bw"}},
      {TC_ASK("avx512bf16"), {"avx512bw"}},
      {TC_ASK("avx512vnni"), {"avx512f"}},
      {TC_ASK("avx512bitalg"), {"avx512bw"}},
      {TC_ASK("avx512vbmi2"), {"avx512bw"}},
      {TC_ASK("avx512vpopcntdq"), {"avx512f"}},
      {TC_ASK("gfni"), {"sse4.1"}},
      {TC_ASK("avx512vp2intersect"), {"avx512f"}},
      {TC_ASK("avx512fp16"), {"avx512bw", "avx512dq", "avx512vl"}},
  };
#undef TC_ASK
  return all;
}

/// What TC_WITHOUT names. UsageError for what is no instruction set.
InstructionSets left_out() {
  std::vector<std::string> known;
  for (const KnownSet& each : known_sets()) known.push_back(each.name);
  InstructionSets names;
  const char* given = std::getenv("TC_WITHOUT");
  std::istringstream list(given ? given : "");
  for (std::string name; std::getline(list, name, ',');) {
    name = without_blanks(name);
    if (name.empty()) continue;
    if (std::count(known.begin(), known.end(), name) == 0)
      throw UsageError("TC_WITHOUT: no instruction set is called '", name, "'",
                       known_names(name, known));
    names.insert(name);
  }
  return names;
}

}  // namespace

InstructionSets usable_instruction_sets() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
#endif
  const InstructionSets without = left_out();
  InstructionSets usable;
  for (const KnownSet& each : known_sets())
    if (without.count(each.name) == 0 && each.is_here() &&
        std::all_of(each.builds_on.begin(), each.builds_on.end(),
                    [&](const char* name) { return usable.count(name) > 0; }))
      usable.insert(each.name);
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
