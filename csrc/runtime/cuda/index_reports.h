// Bad indices that kernels on a GPU report, and when the host looks at them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/cuda/driver.h"

namespace tc::runtime {

/// What one kernel's launches report with, as struct tc::bad_index of its text (see
/// codegen/cuda/cuda_prelude). A report lies in memory of the host that the device can write, so
/// that looking at it costs no more than a load; it is seen when the device has got that far.
class IndexReporter {
 public:
  /// `describe` words a check that failed, by its number, position and index.
  IndexReporter(const Device& device, std::function<std::string(int, int64_t, int64_t)> describe);
  ~IndexReporter();
  IndexReporter(const IndexReporter&) = delete;
  IndexReporter& operator=(const IndexReporter&) = delete;

  /// The arguments of launches: the report's address on the device, and this kernel's number.
  CUdeviceptr report() const { return report_; }
  uint64_t number() const { return number_; }

 private:
  CUdeviceptr report_ = 0;
  uint64_t number_ = 0;
};

/// Throws a ShapeError where a kernel has reported a bad index on this device since it was looked
/// at last. The report is gone then. `now`: the call that is to blame is the one that runs.
void check_reports(const Device& device, bool now);

}  // namespace tc::runtime
