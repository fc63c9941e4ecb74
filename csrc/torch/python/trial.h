// A kernel with the arguments that it is timed on.
#pragma once

#include <sys/resource.h>
#include <torch/extension.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "torch/python/python_values.h"

namespace tc_torch {

/// A kernel with the arguments that it is run on.
class Trial : public PythonKernel {
 public:
  Trial(const Definition& definition, const Options* options, const std::string& target,
        const Values& inputs, std::vector<at::Tensor> outputs, bool final)
      : inputs_(to_ivalues(definition, inputs)),
        outputs_(std::move(outputs)),
        arguments_(definition, inputs_) {
    Unlocked unlocked;
    const Tensors given(outputs_);
    kernel_ = own(ask<tc_kernel*>(final ? tc_compile : tc_compile_trial, definition.get(),
                                  get(options), c_text(target), arguments_.data(),
                                  arguments_.count(), given.data(), given.count()));
    for (int32_t k = 0; k < arguments_.count(); ++k) {
      const DLTensor& tensor = *arguments_.data()[k];
      pointers_.push_back(static_cast<char*>(tensor.data) + tensor.byte_offset);
    }
    for (const at::Tensor& output : outputs_) pointers_.push_back(output.mutable_data_ptr());
  }

  /// Seconds of one run.
  double run() const {
    return ask<double>(tc_kernel_time, kernel_.get(), &torch_host(), pointers_.data());
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

  std::vector<c10::IValue> inputs_;
  std::vector<at::Tensor> outputs_;
  CallArguments arguments_;
  std::vector<void*> pointers_;
};

}  // namespace tc_torch
