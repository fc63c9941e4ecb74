// Units in which processors move memory and map it.
#pragma once

#include <cstdint>

namespace tc {

constexpr int64_t kLineBytes = 64, kPageBytes = 4096;

}  // namespace tc
