// What running kernels get from the process: Caffe2's threads and memory.
#pragma once

#include "tc/tc.h"

namespace tc_caffe2 {

/// The threads are those of ATen, which Caffe2's own operators use: OMP_NUM_THREADS,
/// --caffe2_omp_num_threads and torch.set_num_threads count.
const tc_host& caffe2_host();

/// Whether this thread is one that forked, in a child whose parent had further threads. Then OpenMP
/// waits for ever for those it had, and what starts a team has to run in this thread alone.
bool lost_its_team();

}  // namespace tc_caffe2
