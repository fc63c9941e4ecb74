#include "runtime/cuda/index_reports.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace tc::runtime {
namespace {

/// As struct tc::bad_index in texts.
struct BadIndexReport {
  std::atomic<uint32_t> state;  ///< 0 none, 1 being written, 2 there
  int32_t check;
  int64_t position, index;
  uint64_t kernel;
};
static_assert(sizeof(BadIndexReport) == 32);

struct Reports {
  std::mutex mutex;
  std::map<int, BadIndexReport*> of_devices;  ///< by ordinal
  std::map<uint64_t, std::function<std::string(int, int64_t, int64_t)>> kernels;
  uint64_t next = 1;
};

/// Never destroyed: devices may still write reports while the process exits.
Reports& reports() {
  static auto* instance = new Reports;
  return *instance;
}

/// The mutex must be held.
BadIndexReport* report_of(const Device& device) {
  BadIndexReport*& report = reports().of_devices[device.ordinal()];
  if (!report) {
    const Driver& driver = Driver::get();
    CurrentContext current(device);
    void* memory = nullptr;
    driver.check(driver.cuMemHostAlloc(&memory, sizeof(BadIndexReport),
                                       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                 "cuMemHostAlloc");
    report = new (memory) BadIndexReport{};
  }
  return report;
}

}  // namespace

IndexReporter::IndexReporter(const Device& device,
                             std::function<std::string(int, int64_t, int64_t)> describe) {
  const Driver& driver = Driver::get();
  std::lock_guard<std::mutex> lock(reports().mutex);
  BadIndexReport* report = report_of(device);
  {
    CurrentContext current(device);
    driver.check(driver.cuMemHostGetDevicePointer(&report_, report, 0),
                 "cuMemHostGetDevicePointer");
  }
  number_ = reports().next++;
  reports().kernels.emplace(number_, std::move(describe));
}

IndexReporter::~IndexReporter() {
  std::lock_guard<std::mutex> lock(reports().mutex);
  reports().kernels.erase(number_);
}

void check_reports(const Device& device, bool now) {
  std::unique_lock<std::mutex> lock(reports().mutex);
  auto found = reports().of_devices.find(device.ordinal());
  if (found == reports().of_devices.end() || found->second->state.load() != 2) return;
  BadIndexReport& report = *found->second;
  auto kernel = reports().kernels.find(report.kernel);
  std::string message = kernel == reports().kernels.end()
                            ? "a kernel that is gone met an index outside of its tensor"
                            : kernel->second(report.check, report.position, report.index);
  report.state.store(0);
  lock.unlock();
  throw ShapeError(now ? message
                       : message +
                             "\nThis was an earlier call on the GPU; with "
                             "CUDA_LAUNCH_BLOCKING=1 in the environment the call itself "
                             "fails");
}

}  // namespace tc::runtime
