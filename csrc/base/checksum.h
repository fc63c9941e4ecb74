// The checksum that stores end with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tc {

/// CRC-32 with the polynomial of zlib and PNG.
inline uint32_t crc32(const char* data, size_t size) {
  static const auto* table = [] {
    auto* entries = new uint32_t[256];
    for (uint32_t k = 0; k < 256; ++k) {
      uint32_t value = k;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
      entries[k] = value;
    }
    return entries;
  }();
  uint32_t crc = 0xffffffffu;
  for (size_t k = 0; k < size; ++k)
    crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(data[k])) & 0xff];
  return ~crc;
}

}  // namespace tc
