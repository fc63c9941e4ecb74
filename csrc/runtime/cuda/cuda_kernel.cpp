#include "runtime/cuda/cuda_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tc::runtime {

namespace {

/// CUDA's own variable for those who look for the launch that failed.
bool launch_blocking() {
  static const bool blocking = [] {
    const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
    return value && std::string(value) == "1";
  }();
  return blocking;
}

}  // namespace

CudaKernel::CudaKernel(CudaProgram program, const std::vector<std::string>& arguments,
                       const CudaTarget& target, CudaBinary binary)
    : target_(target), binary_(std::move(binary)) {
  if (log_enabled("cuda")) log("cuda", program.source);
  if (binary_.cubin.empty()) binary_ = compile_cuda(program.source, target.arch);
  if (binary_.kernels.empty()) binary_.kernels = parse_resources(binary_.log);

  const auto argument = [&](const std::string& name) {
    return size_t(std::find(arguments.begin(), arguments.end(), name) - arguments.begin());
  };
  for (const Workspace& temporary : program.temporaries)
    temporaries_.push_back({temporary.name, std::max<int64_t>(1, temporary.bytes)});
  // The most that one of the kernels has.
  int64_t &registers = numbers["registers"], &spill_bytes = numbers["spill_bytes"],
          &shared_bytes = numbers["shared_bytes"];
  for (const KernelResources& kernel : binary_.kernels) {
    registers = std::max(registers, kernel.registers);
    spill_bytes = std::max(spill_bytes, kernel.spill_bytes);
    shared_bytes = std::max(shared_bytes, kernel.shared_bytes);
  }
  for (const CudaLaunch& launch : program.launches) {
    Launch made{launch, {}};
    shared_bytes = std::max(shared_bytes, launch.dynamic_shared_bytes);
    for (const std::string& buffer : launch.buffers) {
      const auto temporary =
          std::find_if(temporaries_.begin(), temporaries_.end(),
                       [&](const Workspace& each) { return each.name == buffer; });
      const bool is_temporary = temporary != temporaries_.end();
      const size_t index =
          is_temporary ? size_t(temporary - temporaries_.begin()) : argument(buffer);
      TC_INTERNAL_CHECK(is_temporary || index < arguments.size(), "buffer ", buffer, " of ",
                        launch.symbol, " is neither an argument nor a temporary");
      made.slots.push_back({is_temporary ? Slot::Temporary : Slot::Pointer, index});
    }
    for (const std::string& scalar : launch.scalars) {
      const size_t index = argument(scalar);
      TC_INTERNAL_CHECK(index < arguments.size(), "scalar ", scalar, " of ", launch.symbol,
                        " is no argument");
      made.slots.push_back({Slot::Value, index});
    }
    launches_.push_back(std::move(made));
  }

  texts["cuda_source"] = std::move(program.source);
  texts["build_log"] = binary_.log;
  numbers["launches"] = int64_t(launches_.size());

  if (target_.offline) return;
  // Loaded now rather than at the first launch, which may be one that a CUDA graph records.
  module_ = std::make_unique<DeviceModule>(Device::get(target_.device), binary_.cubin);
  for (Launch& launch : launches_) {
    launch.function = module_->function(launch.symbol, launch.dynamic_shared_bytes);
    if (launch.checks_indices && !reporter_)
      reporter_ = std::make_unique<IndexReporter>(
          module_->device(), [this](int check, int64_t position, int64_t index) {
            return bad_index_text ? bad_index_text(check, position, index)
                                  : concat("an index, ", index, ", is outside of its tensor");
          });
  }
}

void CudaKernel::launch(const tc_host& host, void* const* pointers) const {
  queue(host, pointers, nullptr, nullptr);
}

double CudaKernel::time(const tc_host& host, void* const* pointers) const {
  // Says what is wrong with a kernel that was compiled only.
  if (target_.offline) queue(host, pointers, nullptr, nullptr);
  CurrentContext current(module_->device());
  const Event begin, end;
  queue(host, pointers, begin.get(), end.get());
  return begin.seconds_until(end);
}

void CudaKernel::queue(const tc_host& host, void* const* pointers, CUevent begin,
                       CUevent end) const {
  if (target_.offline) {
    throw UsageError("a kernel compiled for cuda:" + target_.arch +
                     " cannot be launched: compile it for \"cuda\", with inputs on the GPU");
  }
  const Driver& driver = Driver::get();
  const DLDevice device = {kDLCUDA, target_.device};
  CurrentContext current(module_->device());
  check_reports(module_->device(), /*now=*/false);
  const auto stream = static_cast<CUstream>(host.stream(host.context, device));
  CUdeviceptr report = reporter_ ? reporter_->report() : 0;
  uint64_t number = reporter_ ? reporter_->number() : 0;
  Workspaces temporaries(host, temporaries_, device);
  std::vector<void*> parameters;
  if (begin) driver.check(driver.cuEventRecord(begin, stream), "cuEventRecord");
  for (const Launch& launch : launches_) {
    // An empty grid has nothing to do, and CUDA refuses it.
    if (!launch.grid[0] || !launch.grid[1] || !launch.grid[2]) continue;
    parameters.clear();
    for (const Slot& slot : launch.slots) {
      // CUDA takes the address of each value. A scalar's pointer already is that address.
      switch (slot.kind) {
        case Slot::Pointer: parameters.push_back(const_cast<void**>(&pointers[slot.index])); break;
        case Slot::Temporary: parameters.push_back(&temporaries.pointers[slot.index]); break;
        case Slot::Value: parameters.push_back(pointers[slot.index]); break;
      }
    }
    if (launch.checks_indices) {
      parameters.push_back(&report);
      parameters.push_back(&number);
    }
    driver.check(driver.cuLaunchKernel(
                     launch.function, unsigned(launch.grid[0]), unsigned(launch.grid[1]),
                     unsigned(launch.grid[2]), unsigned(launch.block[0]), unsigned(launch.block[1]),
                     unsigned(launch.block[2]), unsigned(launch.dynamic_shared_bytes), stream,
                     parameters.data(), nullptr),
                 "cuLaunchKernel");
  }
  if (end) driver.check(driver.cuEventRecord(end, stream), "cuEventRecord");
  if (reporter_ && launch_blocking()) {
    driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    check_reports(module_->device(), /*now=*/true);
  }
}

}  // namespace tc::runtime
