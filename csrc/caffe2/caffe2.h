// Caffe2, as its last release has it (torch 1.10): the one place that includes it.
//
// - Its headers ask for those of MKL, which no wheel brings; nothing here needs them.
// - They need protobuf 3.13, and of its library what an operator's arguments are written with. The
//   wheel keeps its own copy to itself; another in the process is harmless, since both take the
//   empty string from caffe2::GetEmptyStringAlreadyInited.
// - libtorch_cpu has the old C++ ABI. So has this library; the core, behind its C interface, has
// not.
#pragma once

#include <caffe2/core/macros.h>
#undef CAFFE2_USE_MKL
#include <caffe2/core/operator.h>
