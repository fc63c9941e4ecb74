#include "codegen/cpu/host_target.h"

#include <algorithm>
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

Target restrict_target(Target target, const machine::InstructionSets& usable) {
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

}  // namespace tc::codegen
