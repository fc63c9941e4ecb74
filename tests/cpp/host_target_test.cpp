// Which features of a processor generated code may use.
#include "codegen/cpu/host_target.h"

#include <vector>

#include "check.h"
#include "codegen/cpu/cpu_jit.h"

namespace {

using Halide::Target;
using tc::codegen::restrict_target;
using tc::machine::InstructionSets;

const InstructionSets kAvx2 = {"sse4.1", "avx", "f16c", "fma", "avx2"};
const InstructionSets kSkylake = {"sse4.1",  "avx",      "f16c",     "fma",      "avx2",
                                  "avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq"};

InstructionSets with(InstructionSets sets, const InstructionSets& more) {
  sets.insert(more.begin(), more.end());
  return sets;
}

const InstructionSets kCannonlake = with(kSkylake, {"avx512ifma", "avx512vbmi"});
const InstructionSets kZen4 = with(kCannonlake, {"avx512bf16", "avx512vnni", "avx512bitalg",
                                                 "avx512vbmi2", "avx512vpopcntdq", "gfni"});
const InstructionSets kSapphireRapids = with(kZen4, {"avxvnni", "avx512fp16"});

Target x86(std::vector<Target::Feature> more) {
  more.insert(more.end(), {Target::SSE41, Target::AVX, Target::F16C, Target::FMA, Target::AVX2});
  return Target(Target::Linux, Target::X86, 64, more);
}

const Target kPlain = x86({});
const Target kSkylakeTarget = x86({Target::AVX512, Target::AVX512_Skylake});
const Target kCannonlakeTarget =
    x86({Target::AVX512, Target::AVX512_Skylake, Target::AVX512_Cannonlake});
const Target kZen4Target =
    x86({Target::AVX512, Target::AVX512_Skylake, Target::AVX512_Cannonlake, Target::AVX512_Zen4});
const Target kSapphireRapidsTarget =
    x86({Target::AVX512, Target::AVX512_Skylake, Target::AVX512_Cannonlake,
         Target::AVX512_SapphireRapids});

void test_what_is_there_stays() {
  CHECK(restrict_target(kPlain, kAvx2) == kPlain);
  CHECK(restrict_target(kSkylakeTarget, kSkylake) == kSkylakeTarget);
  CHECK(restrict_target(kCannonlakeTarget, kCannonlake) == kCannonlakeTarget);
  CHECK(restrict_target(kZen4Target, kZen4) == kZen4Target);
  CHECK(restrict_target(kSapphireRapidsTarget, kSapphireRapids) == kSapphireRapidsTarget);
}

// Halide 21 takes a Zen 4 for one with AVX-512 though its hypervisor shows none.
void test_a_hypervisor_hides_avx512() {
  Target target = restrict_target(kZen4Target, kAvx2);
  CHECK(target == kPlain);
  CHECK_EQ(target.natural_vector_size(Halide::Float(32)), 8);
  CHECK(restrict_target(kSapphireRapidsTarget, kAvx2) == kPlain);
}

void test_a_part_is_missing() {
  InstructionSets sets = kZen4;
  sets.erase("avx512bf16");
  CHECK(restrict_target(kZen4Target, sets) == kCannonlakeTarget);
  // What builds on a missing part goes with it.
  sets.erase("avx512bw");
  Target target = restrict_target(kZen4Target, sets);
  CHECK(target == x86({Target::AVX512}));
  sets.erase("avx");
  CHECK(restrict_target(kZen4Target, sets) ==
        Target(Target::Linux, Target::X86, 64, {Target::SSE41}));
}

void test_a_width_goes_with_its_feature() {
  Target target = kSapphireRapidsTarget.with_feature(Target::AVX10_1);
  target.vector_bits = 512;
  CHECK_EQ(restrict_target(target, kSapphireRapids).vector_bits, 512);
  CHECK(restrict_target(target, kAvx2) == kPlain);
}

void test_other_processors_are_left_alone() {
  Target arm(Target::Linux, Target::ARM, 64);
  CHECK(restrict_target(arm, {}) == arm);
  CHECK(restrict_target(arm, kAvx2) == arm);
  CHECK(restrict_target(kZen4Target, {}) == kZen4Target);
}

/// Decisions are made for the vectors that code is generated with.
void test_vectors_are_those_of_the_target() {
  CHECK_EQ(tc::machine::vector_bits(kZen4), 512);
  CHECK_EQ(tc::machine::vector_bits(kSkylake), 512);
  CHECK_EQ(tc::machine::vector_bits(kAvx2), 256);
  CHECK_EQ(tc::machine::vector_bits({"sse4.1", "avx"}), 128);
  CHECK_EQ(tc::machine::vector_bits({}), 128);
  CHECK_EQ(tc::machine::vector_bits(tc::machine::usable_instruction_sets()),
           tc::codegen::cpu_vector_bits());
}

}  // namespace

int main() {
  test_what_is_there_stays();
  test_a_hypervisor_hides_avx512();
  test_a_part_is_missing();
  test_a_width_goes_with_its_feature();
  test_other_processors_are_left_alone();
  test_vectors_are_those_of_the_target();
  return check::finish();
}
