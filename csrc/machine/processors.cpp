#include "machine/processors.h"

namespace tc::machine {

const Processor* find_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  // Measured with an EPYC 9004 (`machine --measure`: the second cache), or fitted to 620 Plans of
  // 200 random contractions (benchmarks/calibrate.py). Those forget large tensors: the fit alone
  // would have lines from the second cache for nothing and copies for an eighth, which chose blocks
  // that took convolutions of 256 channels 1.6 to 2.5 times as long. So copies are half way to the
  // fit, and sums of lanes, with transposed and scattered results, are where they were.
  static const Processor zen4 = {"Zen 4",
                                 {{"second_cache_percent", 103},
                                  {"last_cache_rate", 23},
                                  {"task_cycles", 260},
                                  {"block_cycles", 12},
                                  {"loop_cycles", 2.3},
                                  {"spilled_vector_cycles", 2.3},
                                  {"copied_element_cycles", 1},
                                  {"copied_vector_cycles", 5},
                                  {"transposed_row_cycles", 2.3},
                                  {"far_store_cycles", 30}}};
  __builtin_cpu_init();
  // Its family is that of Zen 3, which has no such vectors.
  if (__builtin_cpu_is("amdfam19h") && __builtin_cpu_supports("avx512f")) return &zen4;
#endif
  return nullptr;
}

}  // namespace tc::machine
