#include "runtime/checked_kernel.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "base/threads/task.h"

namespace tc::runtime {
namespace {

constexpr char kUntouched[] = "The outputs are as they were";
constexpr char kWritten[] = "Outputs that were passed hold no particular values now";

class CheckedKernel : public Kernel {
 public:
  CheckedKernel(std::shared_ptr<const Kernel> kernel, IndexGuards guards)
      : kernel_(std::move(kernel)), guards_(std::move(guards)) {}

  void launch(const tc_host& host, void* const* pointers) const override {
    for (const IndexGuards::Range& range : guards_.ranges)
      if (!is_within(range.elements, pointers[range.argument], host))
        fail(host, pointers, range.check, /*certain=*/true);
    if (guards_.detect.kernel) detect(host, pointers);
    try {
      kernel_->launch(host, pointers);
    } catch (const BadIndex& bad) {
      fail(host, pointers, static_cast<size_t>(bad.check), /*certain=*/false);
    }
  }

  void launch_unchecked(const tc_host& host, void* const* pointers) const override {
    // Where its own loops make no check, what is left out is what stands before it.
    if (make_unchecked)
      Kernel::launch_unchecked(host, pointers);
    else
      kernel_->launch(host, pointers);
  }

  std::string text(const std::string& what) const override { return kernel_->text(what); }
  int64_t number(const std::string& what) const override { return kernel_->number(what); }
  const std::vector<char>& binary() const override { return kernel_->binary(); }
  int64_t bytes() const override {
    return kernel_->bytes() + (guards_.detect.kernel ? guards_.detect.kernel->bytes() : 0);
  }

 private:
  /// Calls a part with the pointers of the whole, and with places for its results.
  template <class Value>
  static std::vector<Value> run(const PartialKernel& part, const tc_host& host,
                                void* const* pointers) {
    std::vector<Value> results(part.results);
    std::vector<void*> all;
    for (size_t place : part.arguments) all.push_back(pointers[place]);
    for (Value& result : results) all.push_back(&result);
    part.kernel->launch(host, all.data());
    return results;
  }

  void detect(const tc_host& host, void* const* pointers) const {
    const std::vector<int32_t> failed = run<int32_t>(guards_.detect, host, pointers);
    for (size_t k = 0; k < failed.size(); ++k)
      if (failed[k]) fail(host, pointers, guards_.detected[k], /*certain=*/true);
  }

  /// Throws what is said of the first check that fails; `check` is one that does. Found by the
  /// loops it is not `certain`: conditions around it may keep the index from being used (see
  /// ir::check_in_loops).
  void fail(const tc_host& host, void* const* pointers, size_t check, bool certain) const {
    const char* outputs = certain ? kUntouched : kWritten;
    std::vector<int64_t> found = run<int64_t>(locate(), host, pointers);
    for (size_t k = 0; k < guards_.located.size(); ++k) {
      const int64_t position = found[2 * k], index = found[2 * k + 1];
      if (position == std::numeric_limits<int64_t>::max()) continue;
      throw ShapeError(describe_bad_index(guards_.name, guards_.checks[guards_.located[k]], true,
                                          position, index, outputs));
    }
    const bool looked =
        std::find(guards_.located.begin(), guards_.located.end(), check) != guards_.located.end();
    if (looked && !certain) return;
    // What the index was made of is gone, or another thread has changed it meanwhile.
    throw ShapeError(describe_bad_index(guards_.name, guards_.checks[check], false, 0, 0, outputs));
  }

  const PartialKernel& locate() const {
    std::call_once(made_,
                   [&] { locate_ = run_apart("looking for a bad index", guards_.make_locate); });
    return locate_;
  }

  std::shared_ptr<const Kernel> kernel_;
  const IndexGuards guards_;
  mutable std::once_flag made_;
  mutable PartialKernel locate_;
};

}  // namespace

std::shared_ptr<Kernel> make_checked(std::shared_ptr<const Kernel> kernel, IndexGuards guards) {
  return std::make_shared<CheckedKernel>(std::move(kernel), std::move(guards));
}

std::string describe_bad_index(const std::string& name, const ir::IndexCheck& check, bool located,
                               int64_t position, int64_t index, const std::string& outputs) {
  const bool reads = check.access.read.defined();
  std::string values, shown;
  for (size_t d = check.domain.size(); d-- > 0 && located;) {
    const ir::Iterator& it = check.domain[d];
    const int64_t extent = ir::extent_of(it);
    values = concat(it.name, " = ", *Halide::Internal::as_const_int(it.min) + position % extent,
                    values.empty() ? "" : ", ", values);
    position /= extent;
  }
  if (located)
    shown = concat(values.empty() ? "" : "at " + values + " ", "index ",
                   check.is_unsigned ? concat(static_cast<uint64_t>(index)) : concat(index));
  const bool negative = located && !check.is_unsigned && index < 0;
  return concat(
      name, reads ? ": reads " : ": writes ", check.text,
      " outside: ", located ? shown : "a bad index", " of dimension ", check.access.dimension,
      ", but dimension ", check.access.dimension, " of ", check.tensor, " has size ", check.size,
      negative ? " and indices count from 0" : "", "; ",
      check.by_data ? "correct the data" : "change the subscript or the ranges of its indices",
      reads ? concat(", or guard the read: condition ? ", check.tensor, "(...) : 0")
            : std::string(", or give such updates a place inside and a value that changes nothing"),
      check.where.valid() ? concat(" (line ", check.where.line(), ")") : "", ". ", outputs);
}

}  // namespace tc::runtime
