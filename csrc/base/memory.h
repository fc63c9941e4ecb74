// Units in which processors move memory and map it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tc {

constexpr int64_t kLineBytes = 64, kPageBytes = 4096;
/// How far apart in bytes two elements may lie: what five levels of page tables reach. Products of
/// such a distance with a few elements stay within 64 bits.
constexpr int64_t kAddressSpace = int64_t{1} << 57;

struct alignas(kLineBytes) Line {
  uint8_t bytes[kLineBytes];
};
/// Zeros in whole lines, as allocators of tensors place them: vectors that cross lines take longer.
inline std::vector<Line> make_lines(size_t bytes) {
  return std::vector<Line>((bytes + kLineBytes - 1) / kLineBytes);
}

}  // namespace tc
