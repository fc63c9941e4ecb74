#include "codegen/host_target.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace tc::codegen {
namespace {

using Halide::Target;

struct Requirement {
  Target::Feature feature;
  std::vector<const char*> sets;                   ///< beyond those of the features it builds on
  Target::Feature builds_on = Target::FeatureEnd;  ///< FeatureEnd: none
};

// What LLVM may use of the processor that Halide names to it for a feature; features stand behind
// what they build on.
const std::vector<Requirement>& requirements() {
  static const std::vector<Requirement> known = {
      {Target::SSE41, {"sse4.1"}},
      {Target::AVX, {"avx"}, Target::SSE41},
      {Target::F16C, {"f16c"}, Target::AVX},
      {Target::FMA, {"fma"}, Target::AVX},
      {Target::FMA4, {"fma4"}, Target::AVX},
      {Target::AVX2, {"avx2"}, Target::AVX},
      {Target::AVXVNNI, {"avxvnni"}, Target::AVX2},
      {Target::AVX512, {"avx512f", "avx512cd"}, Target::AVX2},
      {Target::AVX512_KNL, {"avx512er", "avx512pf"}, Target::AVX512},
      {Target::AVX512_Skylake, {"avx512vl", "avx512bw", "avx512dq"}, Target::AVX512},
      {Target::AVX512_Cannonlake, {"avx512ifma", "avx512vbmi"}, Target::AVX512_Skylake},
      {Target::AVX512_Zen4,
       {"avx512bf16", "avx512vnni", "avx512bitalg", "avx512vbmi2", "avx512vpopcntdq", "gfni"},
       Target::AVX512_Cannonlake},
      {Target::AVX512_Zen5, {"avxvnni", "avx512vp2intersect"}, Target::AVX512_Zen4},
      {Target::AVX512_SapphireRapids, {"avxvnni", "avx512fp16"}, Target::AVX512_Zen4},
      {Target::AVX10_1, {}, Target::AVX512_SapphireRapids},
      {Target::X86APX, {"apxf"}},
  };
  return known;
}

}  // namespace

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
  return usable;
}

Target restrict_target(Target target, const InstructionSets& usable) {
  if (target.arch != Target::X86 || usable.empty()) return target;
  std::set<Target::Feature> missing;
  for (const Requirement& needs : requirements()) {
    const bool whole = missing.count(needs.builds_on) == 0 &&
                       std::all_of(needs.sets.begin(), needs.sets.end(),
                                   [&](const char* name) { return usable.count(name) > 0; });
    if (whole) continue;
    missing.insert(needs.feature);
    target.set_feature(needs.feature, false);
  }
  // A width belongs to AVX10 alone.
  if (missing.count(Target::AVX10_1)) target.vector_bits = 0;
  return target;
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
  // bytes, one line or all four asked for: 93 and 109 us where the same rows are read again, 177
  // and 171 where new ones are; a Zen 4 takes 205 and 71 us for new ones).
  if (__builtin_cpu_is("intel")) return 4;
#endif
  return 1;
}

}  // namespace tc::codegen
