// A libcuda.so.1 without a GPU: one device whose memory is the host's and whose kernels are those
// of an emulator library (EMULATED_KERNELS), whatever binary a module is loaded from. It shows that
// the runtime calls the driver rightly; calls in a wrong state fail as the real driver's do.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

namespace {

using Result = int;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
                 kInvalidContext = 201, kNotFound = 500, kLaunchFailed = 719;
using Launcher = const char* (*)(const emulator::Launch*);

bool initialized = false;
int context;  // its address is the primary context
thread_local void* stack[16];
thread_local int depth = 0;
size_t allowed_shared = 48 * 1024;
// The device has 1 GiB, and a clock that every launch moves by a quarter of a millisecond.
constexpr size_t kMemory = size_t(1) << 30;
float milliseconds = 0;
struct Event {
  float passed = -1;
};

bool current() { return initialized && depth > 0 && stack[depth - 1] == &context; }

}  // namespace

extern "C" {
Result cuInit(unsigned) {
  initialized = true;
  return kSuccess;
}
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Result cuGetErrorName(Result error, const char** name) {
  *name = error == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
                                   : "CUDA_ERROR_FAKE";
  return kSuccess;
}
Result cuGetErrorString(Result, const char** text) {
  *text = "an error of the emulated driver";
  return kSuccess;
}
Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return !initialized ? kNotInitialized : ordinal == 0 ? kSuccess : kInvalidValue;
}
Result cuDeviceGetCount(int* count) {
  *count = 1;
  return initialized ? kSuccess : kNotInitialized;
}
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 227 * 1024 : 132;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(void** result, int) {
  *result = &context;
  return kSuccess;
}
Result cuCtxGetCurrent(void** result) {
  *result = depth > 0 ? stack[depth - 1] : nullptr;
  return kSuccess;
}
Result cuCtxPushCurrent_v2(void* pushed) {
  stack[depth++] = pushed;
  return kSuccess;
}
Result cuCtxPopCurrent_v2(void** popped) {
  if (depth == 0) return kInvalidContext;
  *popped = stack[--depth];
  return kSuccess;
}
Result cuModuleLoadData(void** module, const void* image) {
  if (!current()) return kInvalidContext;
  if (memcmp(image,
             "\x7f"
             "ELF",
             4) != 0)
    return kInvalidValue;
  *module = dlopen(getenv("EMULATED_KERNELS"), RTLD_NOW | RTLD_LOCAL);
  if (!*module) fprintf(stderr, "%s\n", dlerror());
  return *module ? kSuccess : kInvalidValue;
}
Result cuModuleUnload(void*) { return current() ? kSuccess : kInvalidContext; }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  char symbol[256];
  snprintf(symbol, sizeof(symbol), "%s_emulated", name);
  *function = dlsym(module, symbol);
  return !current() ? kInvalidContext : *function ? kSuccess : kNotFound;
}
Result cuFuncSetAttribute(void*, int, int value) {
  allowed_shared = size_t(value);
  return current() ? kSuccess : kInvalidContext;
}
Result cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared_bytes, void* stream,
                      void** parameters, void**) {
  if (!current()) return kInvalidContext;
  if (!gx || !gy || !gz || shared_bytes > allowed_shared) return kInvalidValue;
  // The tests queue everything on this stream.
  if (reinterpret_cast<size_t>(stream) != 42) return kInvalidValue;
  const emulator::Launch launch = {{gx, gy, gz}, {bx, by, bz},       parameters, nullptr, 0,
                                   shared_bytes, emulator::Shuffled, 1,          nullptr};
  const char* failure = reinterpret_cast<Launcher>(function)(&launch);
  milliseconds += 0.25f;
  if (failure) fprintf(stderr, "%s\n", failure);
  return failure ? kLaunchFailed : kSuccess;
}
Result cuMemAlloc_v2(unsigned long long* pointer, size_t bytes) {
  if (bytes > kMemory) return kOutOfMemory;
  *pointer = reinterpret_cast<unsigned long long>(malloc(bytes));
  return current() ? kSuccess : kInvalidContext;
}
Result cuMemFree_v2(unsigned long long pointer) {
  free(reinterpret_cast<void*>(pointer));
  return current() ? kSuccess : kInvalidContext;
}
Result cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  *pointer = malloc(bytes);
  return !current() ? kInvalidContext : flags == 3 ? kSuccess : kInvalidValue;
}
Result cuMemHostGetDevicePointer_v2(unsigned long long* pointer, void* host, unsigned) {
  *pointer = reinterpret_cast<unsigned long long>(host);
  return current() ? kSuccess : kInvalidContext;
}
Result cuStreamSynchronize(void*) { return current() ? kSuccess : kInvalidContext; }
Result cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return current() ? kSuccess : kInvalidContext;
}
Result cuEventRecord(void* event, void* stream) {
  if (reinterpret_cast<size_t>(stream) != 42) return kInvalidValue;
  static_cast<Event*>(event)->passed = milliseconds;
  return current() ? kSuccess : kInvalidContext;
}
Result cuEventSynchronize(void* event) {
  return static_cast<Event*>(event)->passed < 0 ? kInvalidValue : kSuccess;
}
Result cuEventElapsedTime(float* elapsed, void* begin, void* end) {
  *elapsed = static_cast<Event*>(end)->passed - static_cast<Event*>(begin)->passed;
  return kSuccess;
}
Result cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return current() ? kSuccess : kInvalidContext;
}
}
