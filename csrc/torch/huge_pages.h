// Pages of 2 MB for large memory that is about to be written.
#pragma once

#include <cstddef>

namespace tc_torch {

/// Asks for huge pages where this memory covers some. Fresh memory arrives page by page as it is
/// first written; with small pages that takes several times as long as writing it. Memory that has
/// its pages already, and systems without huge pages, are not affected.
void prefer_huge_pages(void* memory, size_t bytes);

}  // namespace tc_torch
