#include "runtime/cuda/cuda_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tc::runtime {

namespace {

/// Device memory of one run, given back in the order of the stream when the run is queued.
class Temporaries {
 public:
  Temporaries(const tc_host& host, DLDevice device, const std::vector<size_t>& bytes)
      : host_(host), device_(device) {
    pointers_.reserve(bytes.size());
    for (size_t size : bytes) {
      void* pointer = host.allocate(host.context, device, size);
      if (!pointer) {
        release();
        throw UsageError(concat("out of memory on CUDA device ", device.device_id,
                                ": a temporary needs ", size,
                                " bytes; free some, or compute less at a time"));
      }
      pointers_.push_back(pointer);
    }
  }
  ~Temporaries() { release(); }
  Temporaries(const Temporaries&) = delete;
  Temporaries& operator=(const Temporaries&) = delete;

  void** slot(size_t index) { return &pointers_[index]; }

 private:
  void release() {
    for (void* pointer : pointers_) host_.release(host_.context, device_, pointer);
    pointers_.clear();
  }
  const tc_host& host_;
  DLDevice device_;
  std::vector<void*> pointers_;
};

/// CUDA's own variable for those who look for the launch that failed.
bool launch_blocking() {
  static const bool blocking = [] {
    const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
    return value && std::string(value) == "1";
  }();
  return blocking;
}

template <class List>
size_t find_name(const List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(),
                      [&](const auto& item) { return item.name == name; }) -
         list.begin();
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
  for (const CudaTemporary& temporary : program.temporaries)
    temporary_bytes_.push_back(static_cast<size_t>(std::max<int64_t>(1, temporary.bytes)));
  int64_t shared_bytes = binary_.shared_bytes();
  for (const CudaLaunch& launch : program.launches) {
    Launch made;
    made.symbol = launch.symbol;
    made.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    made.checks_indices = launch.checks_indices;
    shared_bytes = std::max(shared_bytes, made.dynamic_shared_bytes);
    for (const std::string& buffer : launch.buffers) {
      const size_t temporary = find_name(program.temporaries, buffer);
      const bool is_temporary = temporary < program.temporaries.size();
      const size_t index = is_temporary ? temporary : argument(buffer);
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
    for (int i = 0; i < 3; ++i) {
      made.grid[i] = unsigned(launch.grid[i]);
      made.block[i] = unsigned(launch.block[i]);
    }
    launches_.push_back(std::move(made));
  }

  texts["cuda_source"] = std::move(program.source);
  texts["build_log"] = binary_.log;
  numbers["registers"] = binary_.registers();
  numbers["spill_bytes"] = binary_.spill_bytes();
  numbers["shared_bytes"] = shared_bytes;
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
  Temporaries temporaries(host, device, temporary_bytes_);
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
        case Slot::Temporary: parameters.push_back(temporaries.slot(slot.index)); break;
        case Slot::Value: parameters.push_back(pointers[slot.index]); break;
      }
    }
    if (launch.checks_indices) {
      parameters.push_back(&report);
      parameters.push_back(&number);
    }
    driver.check(driver.cuLaunchKernel(launch.function, launch.grid[0], launch.grid[1],
                                       launch.grid[2], launch.block[0], launch.block[1],
                                       launch.block[2], unsigned(launch.dynamic_shared_bytes),
                                       stream, parameters.data(), nullptr),
                 "cuLaunchKernel");
  }
  if (end) driver.check(driver.cuEventRecord(end, stream), "cuEventRecord");
  if (reporter_ && launch_blocking()) {
    driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    check_reports(module_->device(), /*now=*/true);
  }
}

}  // namespace tc::runtime
