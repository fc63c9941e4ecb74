// A kernel with the arguments that it is timed on.
#pragma once

#include <sys/resource.h>
#include <torch/extension.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "torch/python/python_values.h"

namespace tc_torch {

/// Tensors for the C interface.
class Tensors {
 public:
  explicit Tensors(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) all_.push_back(to_dltensor(tensor));
    for (const DLTensor& tensor : all_) pointers_.push_back(&tensor);
  }
  const DLTensor* const* data() const { return pointers_.empty() ? nullptr : pointers_.data(); }
  int32_t count() const { return static_cast<int32_t>(pointers_.size()); }

 private:
  std::vector<DLTensor> all_;
  std::vector<const DLTensor*> pointers_;
};

/// A kernel with the arguments that it is run on.
class Trial {
 public:
  Trial(std::shared_ptr<const Definition> definition, const Options* options,
        const std::string& target, const Values& inputs, std::vector<at::Tensor> outputs,
        bool final)
      : definition_(std::move(definition)),
        inputs_(to_ivalues(*definition_, inputs)),
        outputs_(std::move(outputs)),
        arguments_(*definition_, inputs_) {
    Unlocked unlocked;
    const Tensors given(outputs_);
    tc_kernel* kernel = nullptr;
    const auto compile = final ? tc_compile : tc_compile_trial;
    check(compile(definition_->get(), options ? options->options.get() : nullptr, c_text(target),
                  arguments_.tensors(), arguments_.count(), given.data(), given.count(), &kernel));
    kernel_.reset(kernel);
    for (int32_t k = 0; k < arguments_.count(); ++k) {
      const DLTensor& tensor = *arguments_.tensors()[k];
      pointers_.push_back(static_cast<char*>(tensor.data) + tensor.byte_offset);
    }
    for (const at::Tensor& output : outputs_) pointers_.push_back(output.mutable_data_ptr());
  }

  std::string text(const std::string& what) const {
    const char* result = nullptr;
    check(tc_kernel_text(kernel_.get(), what.c_str(), &result));
    return result;
  }
  int64_t number(const std::string& what) const {
    int64_t result = 0;
    check(tc_kernel_number(kernel_.get(), what.c_str(), &result));
    return result;
  }
  const tc_kernel* kernel() const { return kernel_.get(); }

  /// Seconds of one run.
  double run() const {
    double seconds = 0;
    check(tc_kernel_time(kernel_.get(), &torch_host(), pointers_.data(), &seconds));
    return seconds;
  }
  struct Run {
    double seconds = 0;
    bool interrupted = false;  ///< another thread had the processor for a while
  };
  /// One run on the calling thread. Where that had the processor throughout, the clock on the wall
  /// is right. Otherwise processor time is, but for steps in which systems move that clock, and for
  /// what a hypervisor took from other runs and the system takes from this one: single runs of 25
  /// us seem to take 16.
  Run run_on_processor() const {
    const int64_t switches = switched();
    const double begin_on_processor = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double begin = seconds_of(CLOCK_MONOTONIC);
    check(tc_kernel_launch(kernel_.get(), &torch_host(), pointers_.data()));
    const double on_wall = seconds_of(CLOCK_MONOTONIC) - begin;
    const double on_processor = seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin_on_processor;
    const bool interrupted = switched() != switches && on_processor > 0;
    return {interrupted ? on_processor : on_wall, interrupted};
  }

 private:
  /// How often the thread has left its processor.
  static int64_t switched() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
  }
  static double seconds_of(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  std::shared_ptr<const Definition> definition_;
  std::vector<c10::IValue> inputs_;
  std::vector<at::Tensor> outputs_;
  CallArguments arguments_;
  KernelPtr kernel_;
  std::vector<void*> pointers_;
};

}  // namespace tc_torch
