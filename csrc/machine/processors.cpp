#include "machine/processors.h"

namespace tc::machine {

const Processor* find_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  // Fitted to 620 Plans of 200 random contractions, on an EPYC 9004 (benchmarks/calibrate.py).
  // Lines from the second cache hide behind arithmetic but for some, and copies gain from units
  // that are as many as a Granite Rapids's for half the bits.
  static const Processor zen4 = {"Zen 4",
                                 {{"second_cache_percent", 240},
                                  {"last_cache_rate", 23},
                                  {"task_cycles", 260},
                                  {"block_cycles", 12},
                                  {"loop_cycles", 2.3},
                                  {"spilled_vector_cycles", 2.3},
                                  {"copied_element_cycles", 0.7},
                                  {"copied_vector_cycles", 1.1},
                                  {"transposed_row_cycles", 2.3},
                                  {"transposed_store_cycles", 0.8},
                                  {"far_store_cycles", 52},
                                  {"lanes_sum_cycles", 15}}};
  __builtin_cpu_init();
  // Its family is that of Zen 3, which has no such vectors.
  if (__builtin_cpu_is("amdfam19h") && __builtin_cpu_supports("avx512f")) return &zen4;
#endif
  return nullptr;
}

}  // namespace tc::machine
