// Indices that are data and lead outside, behind the C interface: each is an error that says so,
// and nothing beside a tensor is touched. All tensors lie between pages that nobody may touch,
// since sanitizers do not look into generated code.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "tc/tc.hpp"

namespace {

namespace tcc = tensor_comprehensions;

/// Elements with a page behind them, or in front of them, that nobody may touch.
template <class T>
class Fenced {
 public:
  Fenced(const std::vector<T>& values, bool at_start) : count_(values.size()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = values.size() * sizeof(T), pages = (bytes + page - 1) / page;
    bytes_ = (pages + 2) * page;
    memory_ = static_cast<char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(memory_ != MAP_FAILED);
    mprotect(memory_, page, PROT_NONE);
    mprotect(memory_ + (pages + 1) * page, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(at_start ? memory_ + page : memory_ + (pages + 1) * page - bytes);
    std::copy(values.begin(), values.end(), data_);
  }
  ~Fenced() { munmap(memory_, bytes_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  T* data() { return data_; }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  char* memory_;
  size_t bytes_, count_;
  T* data_;
};

// Sizes of a table, of indices and of rows: few indices are looked at before the kernel runs, many
// in its loops.
constexpr int64_t kTable = 37, kRow = 5;

struct Case {
  const char* name;
  const char* text;   ///< f(T, I, G) -> (O), of a table, indices, and a row of numbers for each
  bool is_looked_at;  ///< whether a bad index is an error
};

// In each, index `n` leads to a row or an element of the table.
const Case kCases[] = {
    {"gather of rows",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(n, d) = T(I(n), d) + G(n, d) }",
     true},
    {"gather of elements",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(n) = T(I(n), 2) + G(n, 1) }",
     true},
    {"a sum over rows",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(d) +=! T(I(n), d) * G(n, d) }",
     true},
    {"a computed index",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(n, d) = T(V - 1 - I(n), d) + G(n, d) }",
     true},
    {"an index of an index",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  J(n) = I(n)\n  O(n) = T(J(n), 0) * G(n, 0) }",
     true},
    {"a ternary",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(n, d) = G(n, d) > -1 ? T(I(n), d) : 0 }",
     true},
    {"a ternary that keeps it inside",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(n, d) = I(n) >= 0 && I(n) < V ? T(I(n), d) : G(n, d) }",
     false},
    {"a scatter of rows",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(v, d) = T(v, d)\n  O(I(n), d) += G(n, d) }",
     true},
    {"a scatter of elements",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(v) = T(v, 1)\n  O(I(n)) += G(n, 0) }",
     true},
    {"a scatter of the largest",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(v) = T(v, 1)\n  O(I(n)) max= G(n, 0) }",
     true},
    {"a scatter that begins anew",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (float(V) O) {\n"
     "  O(I(n)) +=! G(n, 0) * T(0, 0) }",
     true},
    {"both ways",
     "def f(float(V, D) T, INT(N) I, float(N, D) G) -> (O) {\n"
     "  O(v, d) = T(v, d)\n  O(I(n), d) += G(n, d) * T(I(n), d) }",
     true},
};

template <class Index>
class Run {
 public:
  Run(const Case& shape, const std::string& type, int64_t count, bool at_start)
      : shape_(shape),
        label_(std::string(shape.name) + " of " + type + ", " + std::to_string(count)),
        module_(with_type(shape.text, type)),
        table_(std::vector<float>(kTable * kRow, 0.5f), at_start),
        given_(std::vector<float>(static_cast<size_t>(count * kRow), 0.25f), at_start),
        index_(good_indices(count), at_start),
        inputs_{{table_.data(), {kTable, kRow}},
                {index_.data(), {count}},
                {given_.data(), {count, kRow}}},
        sizes_(module_["f"].infer_sizes(inputs_).at(0)),
        result_(std::vector<float>(static_cast<size_t>(product(sizes_))), at_start),
        kernel_(tcc::compile(module_["f"], inputs_)) {}

  void run(const std::vector<int64_t>& bad) {
    CHECK_EQ(label_ + launch(), label_);
    const std::vector<float> good = result_.values();
    const size_t place = index_.values().size() * 3 / 4;
    const Index before = index_.data()[place];
    for (int64_t outside : bad) {
      index_.data()[place] = static_cast<Index>(outside);
      const std::string said = label_ + ", " + std::to_string(outside) + ": " + launch();
      if (shape_.is_looked_at) {
        CHECK_HAS(said, " outside: at ");
        CHECK_HAS(said, "has size 37");
      } else {
        CHECK(said.find("outside: at") == std::string::npos);
      }
    }
    index_.data()[place] = before;
    CHECK_EQ(label_ + launch(), label_);
    check::record(result_.values() == good, __FILE__, __LINE__, label_ + ": other values then");
  }

 private:
  static std::string with_type(std::string text, const std::string& type) {
    return text.replace(text.find("INT"), 3, type);
  }
  static std::vector<Index> good_indices(int64_t count) {
    std::vector<Index> indices(static_cast<size_t>(count));
    for (size_t n = 0; n < indices.size(); ++n) indices[n] = static_cast<Index>(n * 7 % kTable);
    return indices;
  }
  static int64_t product(const std::vector<int64_t>& sizes) {
    int64_t elements = 1;
    for (int64_t size : sizes) elements *= size;
    return elements;
  }
  std::string launch() {
    try {
      kernel_.run(inputs_, {{result_.data(), sizes_}});
      return "";
    } catch (const tcc::ShapeError& error) {
      return error.what();
    }
  }

  const Case& shape_;
  std::string label_;
  tcc::Module module_;
  Fenced<float> table_, given_;
  Fenced<Index> index_;
  std::vector<tcc::Tensor> inputs_;
  std::vector<int64_t> sizes_;
  Fenced<float> result_;
  tcc::Kernel kernel_;
};

template <class Index>
void run_all(const std::string& type) {
  using Limits = std::numeric_limits<Index>;
  std::vector<int64_t> above = {kTable, static_cast<int64_t>(Limits::max())}, below;
  if (Limits::is_signed) below = {-1, static_cast<int64_t>(Limits::min())};
  for (const Case& shape : kCases) {
    for (int64_t count : {11, 1500}) {
      Run<Index>(shape, type, count, /*at_start=*/false).run(above);
      if (!below.empty()) Run<Index>(shape, type, count, /*at_start=*/true).run(below);
    }
  }
}

}  // namespace

int main() {
  run_all<int32_t>("int32");
  run_all<int64_t>("int64");
  run_all<uint8_t>("uint8");
  return check::finish();
}
