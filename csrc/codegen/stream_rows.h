// Rows of results that go past the caches.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// The functions that these statements call; their types are those of runtime/nontemporal.
constexpr char kIsResident[] = "tc_is_resident", kCopyNontemporal[] = "tc_copy_nontemporal";

/// Of `results`, with their sizes in bytes, those that nothing in the statement reads get their
/// rows, wherever a loop of vectors writes them side by side, through a short array in the first
/// cache and non-temporal stores, where their memory was used before. No caches keep them until
/// somebody reads them, and an ordinary store would read every line from memory first. Halide 21
/// has no such stores of its own. Nests of loops that wait for arithmetic, and rows shorter than
/// `least_bytes`, stay as they are. Runs before cut_vector_loops.
ir::Stmt stream_rows(const ir::Stmt& stmt, const std::map<std::string, int64_t>& results,
                     int64_t least_bytes);

/// The results for which a statement does so.
std::set<std::string> streamed_buffers(const ir::Stmt& stmt);

}  // namespace tc::codegen
