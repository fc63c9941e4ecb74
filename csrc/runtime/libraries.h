// The functions of a library that kernels may call, and how fast they are here.
#pragma once

#include <string>

#include "isa/library_calls.h"
#include "tc/tc.h"

namespace tc::runtime {

/// Threads of the host that gave a library; without one every core may have its thread. In
/// deterministic mode too: how many there are must not decide what is computed.
int host_threads();

/// Whether the host asks for results that are the same from run to run.
bool deterministic();

/// Null: there are none.
void set_libraries(const tc_libraries* libraries);
/// What the host gave with tc_set_libraries; null when it gave none, and while it asks for results
/// that do not depend on measurements.
const tc_libraries* libraries();

/// What tells a library from others, also those of other processes: its name, and the file that its
/// functions are in as it was when this was first asked.
std::string identity(const tc_libraries& library);

/// Operations that the library does in a cycle of one core, for calls of this kind and type: a
/// product of 384 x 384 matrices, or a convolution of 4 x 64 x 28 x 28 with 64 filters of 3 x 3,
/// measured when first asked for, some milliseconds each. 0 where the library refuses.
double library_rate(const tc_libraries& library, ir::LibraryCall::Kind kind, ir::Type type);

/// Makes the call. `a`, `b` and `result` are the memory of the operands' tensors. An Error says
/// what the library said.
void run(const tc_libraries& library, const ir::LibraryCall& call, void* a, void* b, void* result);

}  // namespace tc::runtime
