#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace tc::runtime {

const std::pair<std::unique_ptr<Driver>, std::string>& Driver::instance() {
  // Never destroyed: kernels that live in static objects unload their modules through it.
  static const auto* instance = [] {
    auto* result = new std::pair<std::unique_ptr<Driver>, std::string>();
    std::unique_ptr<Driver> driver(new Driver());
    result->second = driver->open();
    if (result->second.empty()) result->first = std::move(driver);
    return result;
  }();
  return *instance;
}

std::string Driver::open() {
  void* library = nullptr;
  std::string failure;
  for (const char* name : {"libcuda.so.1", "libcuda.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    if (failure.empty()) failure = dlerror();
  }
  if (!library) return "the CUDA driver cannot be opened (" + failure + ")";
#define TC_LOOK_UP(member, symbol, parameters)                               \
  member = reinterpret_cast<CUresult(*) parameters>(dlsym(library, symbol)); \
  if (!member) return "the CUDA driver is too old: it has no " symbol;
  TC_CUDA_DRIVER_FUNCTIONS(TC_LOOK_UP)
#undef TC_LOOK_UP
  if (const CUresult result = cuInit(0)) {
    const char* text = nullptr;
    cuGetErrorString(result, &text);
    return concat("the CUDA driver does not start: ", text ? text : "error ",
                  text ? "" : concat(result));
  }
  cuDriverGetVersion(&version_);
  return "";
}

const Driver* Driver::find() { return instance().first.get(); }

const Driver& Driver::get() {
  if (const Driver* driver = find()) return *driver;
  throw UsageError("no GPU can be used: " + instance().second +
                   ". To compile for a GPU that is not here, name its target, e.g. \"cuda:sm_90\"");
}

void Driver::check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  throw Error(TC_INTERNAL_ERROR, concat(call, " failed with ", name ? name : concat(result), ": ",
                                        text ? text : "unknown error"));
}

// ---- devices

Device::Device(int ordinal) : ordinal_(ordinal) {
  const Driver& driver = Driver::get();
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    throw UsageError("no CUDA device ", ordinal, ": there are ", count);
  CUdevice device = 0;
  driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  arch_ = concat("sm_", attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                 attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  max_shared_bytes_ = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  // Kept for the process, as the runtime library that frameworks use keeps it.
  driver.check(driver.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
}

const Device& Device::get(int ordinal) {
  static std::mutex mutex;
  static auto* devices = new std::map<int, std::unique_ptr<Device>>();
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Device>& device = (*devices)[ordinal];
  if (!device) device.reset(new Device(ordinal));
  return *device;
}

CurrentContext::CurrentContext(const Device& device) {
  const Driver& driver = Driver::get();
  CUcontext current = nullptr;
  driver.check(driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  // Callers that use the device have its context current already, mostly.
  if (current == device.context()) return;
  driver.check(driver.cuCtxPushCurrent(device.context()), "cuCtxPushCurrent");
  pushed_ = true;
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) Driver::get().cuCtxPopCurrent(&popped);
}

// ---- events

Event::Event() {
  const Driver& driver = Driver::get();
  driver.check(driver.cuEventCreate(&event_, 0), "cuEventCreate");
}

Event::~Event() { Driver::get().cuEventDestroy(event_); }

double Event::seconds_until(const Event& end) const {
  const Driver& driver = Driver::get();
  driver.check(driver.cuEventSynchronize(end.event_), "cuEventSynchronize");
  float milliseconds = 0;
  driver.check(driver.cuEventElapsedTime(&milliseconds, event_, end.event_), "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

// ---- modules

DeviceModule::DeviceModule(const Device& device, const std::vector<char>& cubin) : device_(device) {
  const Driver& driver = Driver::get();
  CurrentContext current(device);
  driver.check(driver.cuModuleLoadData(&module_, cubin.data()), "cuModuleLoadData");
}

DeviceModule::~DeviceModule() {
  try {
    CurrentContext current(device_);
    Driver::get().cuModuleUnload(module_);
  } catch (const Error&) {
    // At the end of the process the driver may have shut down before us.
  }
}

CUfunction DeviceModule::function(const std::string& symbol, int64_t dynamic_shared_bytes) const {
  const Driver& driver = Driver::get();
  CurrentContext current(device_);
  CUfunction function = nullptr;
  driver.check(driver.cuModuleGetFunction(&function, module_, symbol.c_str()),
               "cuModuleGetFunction");
  if (dynamic_shared_bytes > 0) {
    if (dynamic_shared_bytes > device_.max_shared_bytes()) {
      throw CompilationError(symbol, " needs ", dynamic_shared_bytes,
                             " bytes of shared memory a block; the device has ",
                             device_.max_shared_bytes());
    }
    driver.check(
        driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  int(dynamic_shared_bytes)),
        "cuFuncSetAttribute");
  }
  return function;
}

}  // namespace tc::runtime
