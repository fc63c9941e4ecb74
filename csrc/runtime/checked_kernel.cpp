#include "runtime/checked_kernel.h"

#include <limits>

#include "base/error.h"

namespace tc::runtime {
namespace {

class CheckedKernel : public Kernel {
 public:
  CheckedKernel(std::shared_ptr<const Kernel> kernel, std::string name, size_t arguments,
                std::vector<ir::GatherCheck> checks)
      : kernel_(std::move(kernel)),
        name_(std::move(name)),
        arguments_(arguments),
        checks_(std::move(checks)) {}

  void launch(const tc_host& host, void* const* pointers) const override {
    std::vector<int64_t> found(2 * checks_.size());
    std::vector<void*> all(pointers, pointers + arguments_);
    for (int64_t& value : found) all.push_back(&value);
    kernel_->launch(host, all.data());
    for (size_t c = 0; c < checks_.size(); ++c)
      if (found[2 * c] != std::numeric_limits<int64_t>::max())
        report(checks_[c], found[2 * c], found[2 * c + 1]);
  }

  std::string text(const std::string& what) const override { return kernel_->text(what); }
  int64_t number(const std::string& what) const override { return kernel_->number(what); }

 private:
  [[noreturn]] void report(const ir::GatherCheck& check, int64_t position, int64_t index) const {
    std::string values;
    for (size_t d = check.domain.size(); d-- > 0;) {
      const ir::Iterator& it = check.domain[d];
      int64_t extent = *Halide::Internal::as_const_int(it.extent);
      int64_t value = *Halide::Internal::as_const_int(it.min) + position % extent;
      position /= extent;
      values = concat(it.name, " = ", value, values.empty() ? "" : ", ", values);
    }
    std::string shown = check.is_unsigned ? concat(static_cast<uint64_t>(index)) : concat(index);
    throw ShapeError(concat(
        name_, ": reads ", check.access, " outside: ", values.empty() ? "" : "at " + values + " ",
        "index ", shown, " of dimension ", check.dimension, ", but dimension ", check.dimension,
        " of ", check.tensor, " has size ", check.size,
        "; correct the data, or guard the read: condition ? ", check.tensor, "(...) : 0",
        check.where.valid() ? concat(" (line ", check.where.line(), ")") : "",
        ". The results of this call are not to be used"));
  }

  std::shared_ptr<const Kernel> kernel_;
  std::string name_;
  size_t arguments_;
  std::vector<ir::GatherCheck> checks_;
};

}  // namespace

std::shared_ptr<const Kernel> make_checked(std::shared_ptr<const Kernel> kernel,
                                           const std::string& name, size_t arguments,
                                           std::vector<ir::GatherCheck> checks) {
  return std::make_shared<CheckedKernel>(std::move(kernel), name, arguments, std::move(checks));
}

}  // namespace tc::runtime
