// Memory of the CPU for the time of a run.
#pragma once

#include <cstddef>

namespace tc_torch {

/// Asks the system to back fresh memory with pages of 2 MiB where it holds whole ones: a kernel
/// that writes every element once would otherwise spend most of its time in page faults (48 MB: 27
/// ms against 4 ms). Memory below 4 MiB is left alone.
void advise_huge_pages(void* memory, size_t bytes);

/// Memory for a temporary; null when there is none. The C library gives larger blocks back to the
/// system when they are freed, and a run would spend half of its time in page faults on new ones
/// (the derivative of a selective scan, 18 MiB: 4.1 ms against 2.1 ms), so that some are kept for
/// the next run. Any thread may give back what another one took.
void* allocate_temporary(size_t bytes);
void release_temporary(void* memory);
/// Frees what is kept.
void free_temporaries();

}  // namespace tc_torch
