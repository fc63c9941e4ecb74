#include "machine/processors.h"

namespace tc::machine {

const Processor* find_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  // Of an EPYC 9004. The second cache is measured (`machine --measure`); what is hidden of its
  // lines and all other facts were fitted to 620 Plans of 200 random contractions
  // (benchmarks/calibrate.py). The tensors of these are small: with all facts as fitted at first
  // (240 percent of the second cache in the place of hidden lines, 0.7 and 1.1 cycles for copies,
  // 52 for far stores, 15 for sums of lanes), backward passes of convolutions with 256 channels
  // took 1.6 to 2.5 times as long. Copies and far stores are nearer to the defaults, therefore, and
  // sums of lanes the default. Of divisions, 512 bits take 8 cycles (524288 of a hardswish in 64 us
  // at 3.8 GHz). What it costs to gather, and the share of the last cache, have
  // measurements of their own (benchmarks/thresholds.md).
  static const Processor zen4 = {"Zen 4",
                                 {{"division_cycles", 4},
                                  {"second_cache_percent", 103},
                                  {"walked_line_percent", 20},
                                  {"spread_line_percent", 45},
                                  {"last_cache_rate", 23},
                                  {"last_cache_share", 16 << 20},
                                  {"task_cycles", 260},
                                  {"block_cycles", 12},
                                  {"loop_cycles", 2.3},
                                  {"spilled_vector_cycles", 2.3},
                                  {"copied_element_cycles", 1},
                                  {"copied_vector_cycles", 5},
                                  {"transposed_row_cycles", 2.3},
                                  {"gathered_lane_cycles", 1.6},
                                  {"far_store_cycles", 30}}};
  __builtin_cpu_init();
  // Its family is that of Zen 3, which has no such vectors.
  if (__builtin_cpu_is("amdfam19h") && __builtin_cpu_supports("avx512f")) return &zen4;
#endif
  return nullptr;
}

}  // namespace tc::machine
