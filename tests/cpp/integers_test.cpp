// Arithmetic on the ends of integer types, from the text to the results of kernels: under the
// sanitizers this shows that the compiler itself does not overflow on the way.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "tc/tc.hpp"

using namespace tensor_comprehensions;

namespace {

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr int64_t kLeast64 = std::numeric_limits<int64_t>::min();
constexpr int kSize = 5;

int32_t wrapped(int64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }
int64_t wrapped_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

struct Case {
  std::string body;
  int64_t first;  ///< of the index
  int count;
  std::function<int64_t(int64_t i)> wanted;
};

/// A(i) is 10 + i, so that a subscript is known by what it reads.
const std::vector<Case> kCases = {
    // Values wrap around.
    {"B(i) = int64(i + 2147483647) where i in 0:5", 0, 5,
     [](int64_t i) { return wrapped(i + kMost); }},
    {"B(i) = int64(i * 65536 * 65536) where i in 0:5", 0, 5, [](int64_t) { return 0; }},
    {"B(i) = int64(-2147483648 / (i - 2)) where i in 0:5", 0, 5,
     [](int64_t i) { return i == 2 ? 0 : wrapped(kLeast / (i - 2)); }},
    {"B(i) = int64(-2147483648 % (i - 2)) where i in 0:5", 0, 5,
     [](int64_t i) { return i == 2 ? 0 : kLeast % (i - 2); }},
    {"B(i) = int64(i / -2147483648 + i % -2147483648) where i in -2147483648:-2147483646", kLeast,
     2, [](int64_t i) { return i == kLeast ? 1 : i; }},
    {"B(i) = int64(i + 2147483647 > i ? 1 : 0) where i in 0:5", 0, 5,
     [](int64_t i) { return i == 0 ? 1 : 0; }},
    {"B(i) = int64(min(i - 2147483647, 2147483647) < -2 ? i : -i) where i in 0:5", 0, 5,
     [](int64_t i) { return i; }},
    {"B(i) = int64(abs(i) + -i) where i in -2147483648:-2147483646", kLeast, 2,
     [](int64_t i) { return wrapped(int64_t{2} * wrapped(-i)); }},
    // The sides of a choice that are far apart.
    {"B(i) = int64(A(i - 1073741822) > 11 ? i : -2147483645) where i in 1073741822:1073741827",
     1073741822, 5, [](int64_t i) { return i - 1073741822 > 1 ? i : kLeast + 3; }},
    {"B(i) = int64(A(i) > 11 ? i - 1073741827 : 2147483640) where i in 0:5", 0, 5,
     [](int64_t i) { return i > 1 ? i - 1073741827 : kMost - 7; }},
    // Factors of a remainder, which Halide replaces by their own remainders.
    {"B(i) = i * int64(-2) % 9223372036854775807 where i in 0:5", 0, 5,
     [](int64_t i) { return -2 * i; }},
    {"B(i) = i * (7 > 9223372036854775807 ? int64(-2) : -3037000499) % -9223372036854775807 "
     "where i in 0:5",
     0, 5, [](int64_t i) { return i * -3037000499; }},
    {"B(i) = int64(i * -2 % 2147483647) where i in 0:5", 0, 5, [](int64_t i) { return -2 * i; }},
    {"B(i) = int64((3 - i) % 2147483647) where i in 0:5", 0, 5, [](int64_t i) { return 3 - i; }},
    {"B(i) = int64(i * 2) where i in 2147483642:2147483647", kMost - 5, 5,
     [](int64_t i) { return wrapped(2 * i); }},
    {"B(i) = (int64(i) - 9223372036854775807 - 1) / (int64(i) - 1) where i in 0:5", 0, 5,
     [](int64_t i) { return i == 0   ? kLeast64
                            : i == 1 ? 0
                                     : (kLeast64 + i) / (i - 1); }},
    {"B(i) = int64(i) * 3037000500 * 3037000500 where i in 0:5", 0, 5,
     [](int64_t i) { return wrapped_product(i, wrapped_product(3037000500, 3037000500)); }},
    {"B(i) = int64(i / 50000 + 50000) where i in 0:5", 0, 5, [](int64_t) { return 50000; }},
    // Subscripts do not.
    {"B(i) = A((i * -2147483648) / -2147483648) where i in 0:5", 0, 5,
     [](int64_t i) { return 10 + i; }},
    {"B(i) = A(min(i * 2147483647, 4)) where i in 0:5", 0, 5,
     [](int64_t i) { return i == 0 ? 10 : 14; }},
    {"B(i) = A(i + 2147483640 + 8) where i in -2147483648:-2147483643", kLeast, 5,
     [](int64_t i) { return 10 + i - kLeast; }},
    {"B(i) = A(abs(abs(i - 2) - 2)) where i in 0:5", 0, 5,
     [](int64_t i) { return 10 + 2 - std::abs(i - 2); }},
    {"B(i) = A(int64(i) * 4294967296 / 4294967296) where i in 0:5", 0, 5,
     [](int64_t i) { return 10 + i; }},
    {"B(i) = A(i / 65536 + i / 65536 + i / 65536 + i / 65536) where i in 0:5", 0, 5,
     [](int64_t) { return 10; }},
    {"B(i) = A(i / 65536 + i / 65537 + i / 65538 + i / 65539 + 4) where i in -65540:-65535", -65540,
     5,
     [](int64_t i) { return 14 - (i <= -65536) - (i <= -65537) - (i <= -65538) - (i <= -65539); }},
    {"B(i) = A(i / 1000 / 1000 / 1000 / 1000 / 1000 / 1000 / 1000 + i) where i in 0:5", 0, 5,
     [](int64_t i) { return 10 + i; }},
    {"B(i) = A(i / 1000 / 1000 / 1000 / 1000 / 1000 / 1000 / 1000) where i in "
     "1999999996:2000000001",
     1999999996, 5, [](int64_t) { return 10; }},
    {"B(i) = A(i / 1000 / 1000 / 1000 + 2) where i in -2147483648:-2147483643", kLeast, 5,
     [](int64_t) { return 10; }},
    {"B(i) = A((i - 2) / 1000 / 1000 / 1000 / 1000 / 1000 / 1000 / 1000 + i) where i in 0:5", 0, 5,
     [](int64_t i) { return 10 + i; }},
    // Ranges.
    {"B(i) = A(i + 2147483647)", -kMost, 5, [](int64_t i) { return 10 + i + kMost; }},
    {"B(i) = int64(i) where i in N * 2147483647 / 2147483647:N + 2", kSize, 2,
     [](int64_t i) { return i; }},
};

void test_results() {
  std::vector<int64_t> a(kSize);
  for (int i = 0; i < kSize; ++i) a[i] = 10 + i;
  for (const Case& each : kCases) {
    const std::string text = "def f(int64(N) A) -> (B) { " + each.body + " }";
    try {
      Module module(text);
      for (const char* preset : {"default", "identity", "naive"}) {
        std::vector<Tensor> inputs = {Tensor(a, {kSize})};
        CHECK_EQ(module["f"].infer_sizes(inputs)[0][0], each.count);
        std::vector<int64_t> b(each.count, -1);
        Options options(preset);
        compile(module["f"], inputs, &options).run(inputs, {Tensor(b, {each.count})});
        for (int k = 0; k < each.count; ++k) {
          const int64_t wanted = each.wanted(each.first + k);
          check::record(b[k] == wanted, __FILE__, __LINE__,
                        text + "\nwith " + preset + ": element " + std::to_string(k) + " is " +
                            std::to_string(b[k]) + ", expected " + std::to_string(wanted));
        }
      }
    } catch (const Error& error) {
      check::record(false, __FILE__, __LINE__, text + "\n" + error.what());
    }
  }
}

/// What is beyond the bits that there are is refused, with the bits and the place.
void test_refusals() {
  struct Refusal {
    std::string body, words;
  };
  const std::vector<Refusal> refusals = {
      {"B(i) = A(i * 65536 * 65536) where i in 0:2", "i = 1 gives index 4294967296"},
      {"B(i) = A(i * 2147483647 * 2147483647 * 2147483647 % 5) where i in 0:5",
       "that 64 bits do not hold"},
      {"B(i) = A(i - 2147483647)", "the range of index i does not fit 32 bits"},
      {"B(i) = A(2147483647 - i)", "the range of index i does not fit 32 bits"},
      {"B(i) = A(i + 2147483648)", "2147483648 does not fit int32"},
      {"B(i) = 1 where i in N * 2147483647:N * 2147483647 + 2",
       "the range of index i does not fit"},
      {"B(i) = A(i / 2147483647)", "dimension 0 of B does not fit 32 bits"},
      {"B(i) = 9223372036854775807 + 1 where i in 0:5", "does not fit 64 bits"},
  };
  std::vector<int64_t> a(kSize);
  for (const Refusal& each : refusals) {
    const std::string text = "def f(int64(N) A) -> (B) { " + each.body + " }";
    std::string message = "it was taken";
    try {
      Module module(text);
      module["f"].infer_sizes({Tensor(a, {kSize})});
    } catch (const LanguageError& error) {
      message = error.what();
    } catch (const ShapeError& error) {
      message = error.what();
    }
    check::record(message.find(each.words) != std::string::npos, __FILE__, __LINE__,
                  text + "\n'" + each.words + "' is not in: " + message);
  }
}

}  // namespace

int main() {
  test_results();
  test_refusals();
  return check::finish();
}
