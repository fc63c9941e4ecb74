// Every function of tc.h with every argument bad (c_interface_calls.h has the values). Each must be
// refused with its status and a message that names the argument, leave nothing in what it writes,
// and spoil nothing for a good call. The functions are read from the header, so that one without an
// entry fails the test. `c_interface_test SEED` draws other pairs of bad arguments.
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <thread>

#include "c_interface/c_interface_calls.h"
#include "check.h"
#include "tc/tc.hpp"

using namespace c_interface;

// ---- memory that runs out

namespace {

/// How many allocations of this thread still succeed; negative: all.
thread_local int64_t allocations_left = -1;
thread_local int64_t allocations = 0;

/// Halide builds expressions in functions that are noexcept: there no allocation may fail.
bool called_by_halide() {
  void* frames[128];
  const int count = backtrace(frames, 128);
  for (int k = 0; k < count; ++k) {
    Dl_info info;
    if (dladdr(frames[k], &info) && info.dli_fname && std::strstr(info.dli_fname, "libHalide"))
      return true;
  }
  return false;
}

void* allocate(size_t bytes) {
  ++allocations;
  if (allocations_left > 0) {
    --allocations_left;
  } else if (allocations_left == 0 && !called_by_halide()) {
    throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace {

const char kBefore[] = "unknown preset 'no message since'";

/// Calls a function, with a message of its own left before and what it writes filled.
Bits call(const Entry& entry, const std::vector<Bits>& values) {
  tc_options* none = nullptr;
  tc_options_create("no message since", &none);
  for (size_t k = 0; k < values.size(); ++k)
    if (entry.arguments[k].result_size && values[k])
      std::memset(from_bits<void*>(values[k]), 0xab, entry.arguments[k].result_size);
  return entry.call(values);
}

bool left_a_message() { return std::strncmp(tc_error_message(), kBefore, sizeof kBefore - 1) != 0; }

/// Whether what a function writes is 0.
bool is_cleared(const Entry& entry, const std::vector<Bits>& values) {
  for (size_t k = 0; k < values.size(); ++k) {
    const auto* bytes = from_bits<const unsigned char*>(values[k]);
    size_t size = values[k] ? entry.arguments[k].result_size : 0;
    if (std::any_of(bytes, bytes + size, [](unsigned char b) { return b != 0; })) return false;
  }
  return true;
}

void report(bool ok, const std::string& what, const std::string& label) {
  check::record(ok, __FILE__, __LINE__,
                label + ": " + what + "; the message is\n  " + tc_error_message());
}

void expect_success(const Entry& entry, const std::vector<Bits>& values, const std::string& label) {
  Bits result = call(entry, values);
  if (entry.returns_status())
    report(from_bits<tc_status>(result) == entry.good_status, "should have worked", label);
  else
    report(!left_a_message(), "should have worked", label);
  if (entry.after) entry.after(result);
}

/// Refused with a message, whatever it is.
tc_status expect_failure(const Entry& entry, const std::vector<Bits>& values,
                         const std::string& label) {
  Bits result = call(entry, values);
  auto status = static_cast<tc_status>(entry.returns_status() ? from_bits<tc_status>(result)
                                                              : TC_USAGE_ERROR);
  const std::string message = tc_error_message();
  if (entry.returns_status()) {
    report(status != TC_OK, "was not refused", label);
    report(status != TC_INTERNAL_ERROR, "is an internal error", label);
  } else {
    report(result == 0, "is not 0", label);
  }
  report(left_a_message() && !message.empty(), "left no message", label);
  report(message.find("internal error") == std::string::npos, "is an internal error", label);
  report(is_cleared(entry, values), "left something in what it writes", label);
  if (entry.after) entry.after(result);
  return status;
}

std::string label_of(const Entry& entry, size_t place, const Bad& bad) {
  std::string shown = bad.label.size() > 80 ? bad.label.substr(0, 80) + "..." : bad.label;
  return entry.name + " with " + entry.declaration.parameters[place].name + " = " + shown;
}

/// Every function of the header has an entry with as many arguments.
void match_declarations(std::vector<Entry>& entries) {
  std::map<std::string, Entry*> by_name;
  for (Entry& entry : entries) by_name[entry.name] = &entry;
  const auto declarations = read_declarations(TC_SOURCE_DIRECTORY "/csrc/include/tc/tc.h");
  CHECK(declarations.size() > 60);
  for (const Declaration& declaration : declarations) {
    // Ends what all others need: the last thing that this test does.
    if (declaration.name == "tc_shutdown") continue;
    auto found = by_name.find(declaration.name);
    if (found == by_name.end()) {
      report(false, "is declared in tc.h and has no entry in this test", declaration.name);
      continue;
    }
    size_t count = found->second->arguments.size();
    report(count == declaration.parameters.size(), "has another number of arguments here",
           declaration.name);
    if (count != declaration.parameters.size()) continue;
    found->second->declaration = declaration;
    by_name.erase(found);
  }
  for (const auto& [name, entry] : by_name) {
    report(false, "is not declared in tc.h", name);
    entries.erase(std::find_if(entries.begin(), entries.end(),
                               [&, wanted = name](const Entry& e) { return e.name == wanted; }));
  }
}

void test_one_bad_argument(const std::vector<Entry>& entries) {
  int tried = 0;
  for (const Entry& entry : entries) {
    expect_success(entry, entry.good(), entry.name);
    for (size_t place = 0; place < entry.arguments.size(); ++place) {
      for (const Bad& other : entry.arguments[place].accepted) {
        std::vector<Bits> values = entry.good();
        values[place] = other.bits;
        expect_success(entry, values, label_of(entry, place, other));
      }
      for (const Bad& bad : entry.bad(place)) {
        ++tried;
        std::vector<Bits> values = entry.good();
        values[place] = bad.bits;
        const std::string label = label_of(entry, place, bad);
        tc_status status = expect_failure(entry, values, label);
        const std::string message = tc_error_message();
        report(status == bad.status, "has status " + std::to_string(status), label);
        report(message.find(bad.words) != std::string::npos, "does not say '" + bad.words + "'",
               label);
        expect_success(entry, entry.good(), label + ", then a good call");
      }
    }
  }
  std::printf("%d bad arguments\n", tried);
  CHECK(tried > 500);
}

void test_two_bad_arguments(const std::vector<Entry>& entries, unsigned seed) {
  constexpr int kPairs = 60;
  std::mt19937 random(seed);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (const Entry& entry : entries) {
    std::vector<std::pair<size_t, Bad>> all;
    for (size_t place = 0; place < entry.arguments.size(); ++place)
      for (const Bad& bad : entry.bad(place)) all.emplace_back(place, bad);
    if (all.empty()) continue;
    for (int k = 0; k < kPairs; ++k) {
      const auto& [a, first] = all[below(all.size())];
      const auto& [b, second] = all[below(all.size())];
      std::vector<Bits> values = entry.good();
      values[a] = first.bits;
      values[b] = second.bits;
      expect_failure(entry, values,
                     label_of(entry, a, first) + ", " + label_of(entry, b, second) + " (seed " +
                         std::to_string(seed) + ")");
    }
    expect_success(entry, entry.good(), entry.name + " after pairs");
  }
}

/// Allocations fail one after the other: the function says so, or does without.
void test_no_memory(const std::vector<Entry>& entries, unsigned seed) {
  constexpr int64_t kMostTries = 80;
  std::mt19937 random(seed);
  int refused = 0;
  for (const Entry& entry : entries) {
    if (!entry.tried_without_memory) continue;
    const std::vector<Bits> good = entry.good();
    const int64_t before = allocations;
    const Bits counted = entry.call(good);
    const int64_t count = allocations - before;
    if (entry.after) entry.after(counted);
    for (int64_t k = 0; k < std::min(count, kMostTries); ++k) {
      std::uniform_int_distribution<int64_t> any(0, count - 1);
      const int64_t place = count <= kMostTries ? k : any(random);
      const std::string label = entry.name + " without memory for allocation " +
                                std::to_string(place) + " of " + std::to_string(count);
      const Bits ahead = call(entry, good);
      if (entry.after) entry.after(ahead);
      allocations_left = place;
      Bits result = entry.call(good);
      allocations_left = -1;
      const std::string message = tc_error_message();
      bool failed = entry.returns_status() ? from_bits<tc_status>(result) != TC_OK
                                           : message == "out of memory";
      if (failed) {
        ++refused;
        report(message == "out of memory", "does not say so", label);
        report(is_cleared(entry, good), "left something in what it writes", label);
      }
      if (entry.after) entry.after(result);
    }
    expect_success(entry, good, entry.name + " with memory again");
  }
  std::printf("%d calls without memory\n", refused);
  CHECK(refused > 500);
}

/// Functions that do not change their handle give many threads what they give one.
void test_threads() {
  tc_options* options = nullptr;
  require(tc_options_parse("tc.MappingOptions(\"naive\").tile(4, 8)", &options));
  const std::string wanted = tc_options_text(options);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 2000; ++k)
        if (tc_options_text(options) != wanted) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  tc_options_free(options);
}

/// Messages are those of the calling thread.
void test_messages_of_threads() {
  tc_options* none = nullptr;
  tc_options_create("mine", &none);
  std::thread([] {
    tc_options* other = nullptr;
    CHECK(std::string(tc_error_message()).empty());
    tc_options_create("other", &other);
    CHECK_HAS(tc_error_message(), "'other'");
  }).join();
  CHECK_HAS(tc_error_message(), "'mine'");
}

/// What is refused changes nothing.
void test_failures_change_nothing() {
  tc_options* options = nullptr;
  require(tc_options_create("naive", &options));
  const std::string before = tc_options_text(options);
  const int64_t values[] = {4, -4};
  CHECK_EQ(tc_options_set(options, "tile", values, 2), TC_USAGE_ERROR);
  CHECK_EQ(tc_options_set_word(options, "scheduleFusionStrategy", "Most"), TC_USAGE_ERROR);
  CHECK_EQ(std::string(tc_options_text(options)), before);
  tc_options_free(options);
}

/// A scalar is read while results are written, unless its value is part of the kernel.
void test_outputs_over_scalars() {
  const char text[] =
      "def g(float(N) A, float alpha, int32 n) -> (B) { B(i) = alpha * A(i) where i in 0:n }";
  tc_module* module = nullptr;
  const tc_definition* definition = nullptr;
  tc_kernel* kernel = nullptr;
  require(tc_module_parse(text, &module));
  require(tc_module_find(module, "g", &definition));
  Tensor a("A", {4}, kFloat), alpha("alpha", {}, kFloat), n("n", {}, kInt32), b("B", {4}, kFloat);
  *n.data<int32_t>() = 4;
  const DLTensor* inputs[] = {&a.plain, &alpha.plain, &n.plain};
  const DLTensor* outputs[] = {&b.plain};
  require(tc_compile(definition, nullptr, "cpu", inputs, 3, outputs, 1, &kernel));
  auto run = [&] { return tc_kernel_run(kernel, nullptr, inputs, 3, outputs, 1); };
  auto compile_again = [&] {
    tc_kernel* again = nullptr;
    const tc_status status = tc_compile(definition, nullptr, "cpu", inputs, 3, outputs, 1, &again);
    tc_kernel_free(again);
    return status;
  };
  alpha.plain.data = b.data<float>() + 3;
  for (const tc_status status : {run(), compile_again()}) {
    CHECK_EQ(status, TC_SHAPE_ERROR);
    CHECK_HAS(tc_error_message(), "output B overlaps input alpha in memory");
  }
  // The byte behind the last element, and what nobody reads.
  alpha.plain.data = b.data<float>() + 4;
  CHECK_EQ(run(), TC_OK);
  CHECK_EQ(compile_again(), TC_OK);
  b.data<int32_t>()[3] = 4;
  n.plain.data = b.data<int32_t>() + 3;
  CHECK_EQ(run(), TC_OK);
  tc_kernel_free(kernel);
  tc_module_free(module);
}

/// Of dimensions of one element, and of empty tensors.
void test_strides_that_lead_nowhere() {
  const char text[] = "def g(float(M, N) A) -> (B) { B(i, j) = 2 * A(i, j) }";
  tc_module* module = nullptr;
  const tc_definition* definition = nullptr;
  require(tc_module_parse(text, &module));
  require(tc_module_find(module, "g", &definition));
  const std::vector<std::vector<int64_t>> shapes = {{1, 4}, {4, 1}, {0, 4}, {1, 1}};
  for (const std::vector<int64_t>& sizes : shapes) {
    Tensor a("A", sizes, kFloat), b("B", sizes, kFloat);
    const DLTensor* inputs[] = {&a.plain};
    const DLTensor* outputs[] = {&b.plain};
    tc_kernel* kernel = nullptr;
    require(tc_compile(definition, nullptr, "cpu", inputs, 1, outputs, 1, &kernel));
    int64_t other[2];
    for (size_t d = 0; d < 2; ++d)
      other[d] = sizes[d] == 1 || sizes[0] == 0 ? INT64_MAX - 7 : b.plain.strides[d];
    a.plain.strides = b.plain.strides = other;
    const int64_t count = sizes[0] * sizes[1];
    for (int64_t k = 0; k < count; ++k) a.data<float>()[k] = static_cast<float>(k + 1);
    CHECK_EQ(tc_kernel_run(kernel, nullptr, inputs, 1, outputs, 1), TC_OK);
    for (int64_t k = 0; k < count; ++k) CHECK_EQ(b.data<float>()[k], 2 * a.data<float>()[k]);
    // A stride that is used still has to be that of the kernel.
    if (count == 4) {
      other[sizes[0] == 4 ? 0 : 1] = 2;
      CHECK_EQ(tc_kernel_run(kernel, nullptr, inputs, 1, outputs, 1), TC_SHAPE_ERROR);
      CHECK_HAS(tc_error_message(), "other strides");
    }
    tc_kernel_free(kernel);
  }
  tc_module_free(module);
}

/// What the C interface refuses by NULL or 0 is an exception of tc.hpp.
template <class Error, class Body>
void expect_error(const std::string& words, Body body) {
  std::string message = "nothing was thrown";
  try {
    body();
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK_HAS(message, words);
}

void test_wrapper() {
  namespace tcc = tensor_comprehensions;
  tcc::Options options("naive"), other = std::move(options);
  expect_error<tcc::UsageError>("options must not be NULL", [&] { options.text(); });
  expect_error<tcc::UsageError>("options must not be NULL", [&] { tcc::Options copy(options); });
  CHECK_HAS(other.text(), "naive");
  tcc::Module module("def f(float(N) A) -> (B) { B(i) = A(i) }");
  expect_error<tcc::UsageError>("definition 1 does not exist", [&] { module.definition(1); });
  expect_error<tcc::UsageError>("definition -1 does not exist", [&] { module.definition(-1); });
  std::vector<float> data(4);
  expect_error<tcc::ShapeError>("number of elements that is none", [&] {
    tcc::Tensor(data, {INT64_MAX, 4});
  });
  expect_error<tcc::ShapeError>("a size of -4", [&] { tcc::Tensor(data, {-4}); });
}

/// Afterwards nothing is parsed or compiled, and what was made before can be freed.
void test_shutdown() {
  tc_module *before = nullptr, *after = nullptr;
  CHECK_EQ(tc_module_parse(kText, &before), TC_OK);
  tc_shutdown();
  tc_shutdown();
  CHECK_EQ(tc_module_parse(kText, &after), TC_INTERRUPTED);
  CHECK(!after);
  expect_error<tensor_comprehensions::Interrupted>(
      tc_error_message(), [] { tensor_comprehensions::Module again(kText); });
  CHECK_EQ(tc_module_size(before), 3);
  tc_module_free(before);
}

}  // namespace

int main(int argc, char** argv) {
  unsigned seed = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  {
    Interface interface;
    std::vector<Entry> entries = interface.entries();
    match_declarations(entries);
    test_one_bad_argument(entries);
    test_two_bad_arguments(entries, seed);
    test_no_memory(entries, seed);
  }
  test_threads();
  test_messages_of_threads();
  test_failures_change_nothing();
  test_outputs_over_scalars();
  test_strides_that_lead_nowhere();
  test_wrapper();
  test_shutdown();
  return check::finish();
}
