// Stores that go past the caches.
#pragma once

#include <cstdint>

namespace tc::runtime {

/// Whether this processor has them, for whole lines.
bool has_nontemporal_stores();

/// Whether the memory has been used before: asks the system for its first, middle and last page.
/// Pages that a first access gets have just been cleared, in the caches, where ordinary stores find
/// them (measured: 64 MiB of these with non-temporal ones take 1.4 to 1.9 times as long). False
/// where the system does not say.
bool is_resident(const void* memory, int64_t bytes);

/// Copies between places that do not overlap. Whole lines of `to` are written to memory without
/// being read first, and leave the caches.
void copy_nontemporal(void* to, const void* from, int64_t bytes);

/// What this thread has stored so is there for other threads.
void finish_nontemporal();

}  // namespace tc::runtime
