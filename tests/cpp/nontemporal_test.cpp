// Copies that go past the caches, and which memory was used before.
#include "runtime/nontemporal.h"

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "check.h"

namespace {

using namespace tc::runtime;

/// Every place in a line, from every place in another, up to some lines: nothing beside is touched.
void test_copies() {
  constexpr int kLine = 64, kBytes = 6 * kLine;
  std::vector<uint8_t> from(kBytes + kLine), to(kBytes + 2 * kLine);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 37 + 1);
  for (int bytes : {0, 1, 3, 63, 64, 65, 128, 200, kBytes}) {
    for (int in = 0; in < kLine; in += 7) {
      for (int out = 0; out < kLine; ++out) {
        to.assign(to.size(), 0xEE);
        copy_nontemporal(to.data() + out, from.data() + in, bytes);
        finish_nontemporal();
        bool right = true;
        for (int i = 0; i < static_cast<int>(to.size()); ++i) {
          const bool inside = i >= out && i < out + bytes;
          right = right && to[i] == (inside ? from[in + i - out] : 0xEE);
        }
        CHECK(right);
      }
    }
  }
}

void test_memory_that_was_used_before() {
  constexpr size_t kBytes = 1 << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  madvise(memory, kBytes, MADV_NOHUGEPAGE);  // each page is fresh by itself
  auto* bytes = static_cast<volatile uint8_t*>(memory);
  CHECK(!is_resident(memory, kBytes));
  bytes[0] = bytes[kBytes / 2] = 1;
  CHECK(!is_resident(memory, kBytes));  // the end is fresh
  bytes[kBytes - 1] = 1;
  CHECK(is_resident(memory, kBytes));
  CHECK(is_resident(static_cast<uint8_t*>(memory) + 5, 1));
  munmap(memory, kBytes);
  CHECK(!is_resident(memory, kBytes));
}

}  // namespace

int main() {
  test_copies();
  test_memory_that_was_used_before();
  return check::finish();
}
