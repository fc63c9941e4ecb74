// Rows of results that go past the caches.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "nest/nest.h"

namespace tc::codegen {

/// The functions that these nests call; their types are those of runtime/nontemporal.
constexpr char kIsResident[] = "tc_is_resident", kCopyNontemporal[] = "tc_copy_nontemporal";

/// Chooses computes that stream: those of `results`, with their sizes in bytes, that nothing in the
/// nest reads, wherever a loop of vectors writes them side by side. Nests of loops that wait for
/// arithmetic, and rows shorter than `least_bytes`, are left alone.
nest::Nest choose_streamed(const nest::Nest& nest, const std::map<std::string, int64_t>& results,
                           int64_t least_bytes);

/// Buffers of which some elements stream.
std::set<std::string> streamed_buffers(const nest::Nest& nest);

/// Loops of vectors whose computes stream pass through a short array in the first cache and
/// non-temporal stores, where the memory of their results, of these sizes in bytes, was used
/// before. No caches keep them until somebody reads them, and an ordinary store would read every
/// line from memory first. Halide 21 has no such stores of its own. Runs before cut_vector_loops.
nest::Nest stream_rows(const nest::Nest& nest, const std::map<std::string, int64_t>& sizes);

}  // namespace tc::codegen
