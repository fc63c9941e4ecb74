// A kernel for a GPU: launches that run one after the other on the caller's stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/index_reports.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/kernel.h"

namespace tc::runtime {

/// Where a CUDA kernel is to run.
struct CudaTarget {
  std::string arch;  ///< "sm_90"
  int device = 0;
  bool offline = false;  ///< compiled only; the device need not exist
};

class CudaKernel : public Kernel {
 public:
  /// Compiles and, unless offline, loads. `arguments` names what `launch` receives, in order: every
  /// buffer of a launch is one of them or a temporary, every scalar is one of them. `binary` is
  /// code that was compiled before, from a cache: what the text "build_log" and `binary()` gave
  /// then, as `log` and `cubin`.
  CudaKernel(CudaProgram program, const std::vector<std::string>& arguments,
             const CudaTarget& target, CudaBinary binary = {});

  /// A bad index that some kernel has met on the device before is an error of this call, since
  /// launches are not waited for; with CUDA_LAUNCH_BLOCKING=1 they are.
  void launch(const tc_host& host, void* const* pointers) const override;
  /// Between two events of the stream.
  double time(const tc_host& host, void* const* pointers) const override;
  const std::vector<char>& binary() const override { return binary_.cubin; }

 private:
  /// What one parameter of a launch is made from.
  struct Slot {
    enum Kind { Pointer, Temporary, Value } kind;  // then the two of checks_indices
    size_t index;                                  ///< among the arguments, or the temporaries
  };
  struct Launch : CudaLaunch {
    std::vector<Slot> slots;
    CUfunction function = nullptr;
  };

  /// Queues all launches, between the events if there are any.
  void queue(const tc_host& host, void* const* pointers, CUevent begin, CUevent end) const;

  CudaTarget target_;
  CudaBinary binary_;
  std::vector<Launch> launches_;
  std::vector<Workspace> temporaries_;
  std::unique_ptr<DeviceModule> module_;
  std::unique_ptr<IndexReporter> reporter_;  ///< where some launch checks indices
};

}  // namespace tc::runtime
