// Launches kernels through the runtime and whatever driver there is: a GPU's, or the emulator's
// when tests/codegen/test_cuda_emulator.py runs this program. `--print` prints the text of the
// kernels instead.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "codegen/cuda/cuda_printer.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/cuda/driver.h"

namespace {

using Halide::Float;
using Halide::Int;
using namespace tc;
using namespace tc::codegen;
using namespace tc::ir;

void expect(bool condition, const std::string& what) {
  check::record(condition, __FILE__, __LINE__, what);
}

/// T = A * A, then C = T reversed in each block through shared memory, + alpha + n. Above 48 KB the
/// shared array is dynamic. The last launch is empty.
GpuProgram make_program(int shared_elements) {
  const std::string b = "block", t = "thread";
  const Expr i = make_variable(b) * 32 + make_variable(t);
  const auto load = [](const char* name, const Expr& index) {
    return make_load(Float(32), name, index);
  };
  const auto mapped = [&](const Stmt& body) {
    return make_for(b, 0, 4, ForType::GPUBlock, make_for(t, 0, 32, ForType::GPUThread, body));
  };
  GpuLaunch square, reverse, empty;
  square.name = "square";
  square.body = mapped(make_store("T", i, load("A", i) * load("A", i)));
  square.axes = {{b, 0}, {t, 0}};
  square.buffers = {{"T", Float(32), true, 128}, {"A", Float(32), false, 128}};
  square.grid[0] = 4;
  square.block[0] = 32;
  reverse = square;
  reverse.name = "reverse";
  const Expr sum = load("s", 31 - make_variable(t)) + make_variable("alpha", Float(32)) +
                   Halide::cast<float>(make_variable("n", Int(64)));
  reverse.body = mapped(Halide::Internal::Allocate::make(
      "s", Float(32), Halide::MemoryType::GPUShared, {shared_elements},
      Halide::Internal::const_true(),
      Halide::Internal::Block::make({make_store("s", make_variable(t), load("T", i)),
                                     make_barrier(), make_store("C", i, sum)})));
  reverse.buffers = {{"C", Float(32), true, 128}, {"T", Float(32), false, 128}};
  reverse.scalars = {{"n", Int(64)}, {"alpha", Float(32)}};
  empty = square;
  empty.name = "empty";
  empty.grid[0] = 0;
  empty.body = Halide::Internal::Evaluate::make(0);
  return {{square, reverse, empty}, {{"T", Float(32), true, 128}}};
}

void* allocate(const runtime::Device& device, size_t bytes) {
  const runtime::Driver& driver = runtime::Driver::get();
  const runtime::CurrentContext current(device);
  runtime::CUdeviceptr pointer = 0;
  driver.check(driver.cuMemAlloc(&pointer, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(pointer);
}

void release(const runtime::Device& device, void* pointer) {
  const runtime::Driver& driver = runtime::Driver::get();
  const runtime::CurrentContext current(device);
  driver.check(driver.cuMemFree(reinterpret_cast<runtime::CUdeviceptr>(pointer)), "cuMemFree");
}

int allocated = 0;

tc_host make_host() {
  tc_host host = {};
  host.allocate = [](void*, DLDevice device, size_t bytes) {
    expect(device.device_type == kDLCUDA && bytes == 128 * sizeof(float), "an allocation");
    ++allocated;
    return allocate(runtime::Device::get(device.device_id), bytes);
  };
  host.release = [](void*, DLDevice device, void* pointer) {
    --allocated;
    release(runtime::Device::get(device.device_id), pointer);
  };
  host.stream = [](void*, DLDevice) { return reinterpret_cast<void*>(size_t(42)); };
  return host;
}

/// No bug of ours, and the message has the bytes.
void check_little_memory(const runtime::Kernel& kernel, void* const* pointers) {
  tc_host host = make_host();
  host.allocate = [](void*, DLDevice, size_t) -> void* { return nullptr; };
  try {
    kernel.launch(host, pointers);
    expect(false, "no error where memory is missing");
  } catch (const UsageError& error) {
    expect(std::strstr(error.what(), "out of memory on CUDA device 0: a temporary needs 512 bytes"),
           error.what());
  }
}

void check_launch(int shared_elements, bool device_clock) {
  const runtime::Device& device = runtime::Device::get(0);
  expect(device.arch() == "sm_90" && device.max_shared_bytes() == 227 * 1024, "the device");
  runtime::CudaTarget target;
  target.arch = device.arch();
  // Code from a cache: NVRTC would look for functions of libcuda that the emulated one has not.
  const GpuProgram program = make_program(shared_elements);
  runtime::CudaBinary binary;
  binary.cubin = {'\x7f', 'E', 'L', 'F'};
  const runtime::CudaKernel kernel(make_cuda_program(program), {"A", "alpha", "n", "C"}, target,
                                   binary);
  // The emulated device's memory is the host's.
  auto* a = static_cast<float*>(allocate(device, 128 * sizeof(float)));
  auto* c = static_cast<float*>(allocate(device, 128 * sizeof(float)));
  for (int i = 0; i < 128; ++i) a[i] = float(i) / 8;
  float alpha = 0.5f;
  int64_t n = int64_t(1) << 33;
  void* const pointers[] = {a, &alpha, &n, c};
  const tc_host host = make_host();
  kernel.launch(host, pointers);
  expect(allocated == 0, "temporaries are given back");
  for (int i = 0; i < 128; ++i) {
    const float x = a[i / 32 * 32 + 31 - i % 32];
    expect(c[i] == x * x + alpha + float(n), "the result");
  }
  // Two launches, and one that is empty, at a quarter of a millisecond of the device's clock.
  if (device_clock) expect(kernel.time(host, pointers) == 0.5e-3, "the time of two launches");
  check_little_memory(kernel, pointers);
  release(device, a);
  release(device, c);
}

}  // namespace

int main(int argc, char** argv) {
  const int elements = argc > 2 ? std::stoi(argv[2]) : 64;
  if (argc > 1 && !std::strcmp(argv[1], "--print")) {
    std::puts(print_cuda(make_program(elements)).c_str());
    return 0;
  }
  if (argc < 2 || std::strcmp(argv[1], "--launch")) {
    // Without a driver the errors are what can be checked.
    if (!runtime::Driver::find()) {
      try {
        runtime::Device::get(0);
        expect(false, "a device without a driver");
      } catch (const UsageError& error) {
        expect(std::strstr(error.what(), "no GPU can be used: the CUDA driver cannot be opened"),
               error.what());
      }
    }
    return check::finish();
  }
  try {
    // A GPU's clock is no fixed one.
    check_launch(elements, std::getenv("EMULATED_KERNELS") != nullptr);
    try {
      runtime::Device::get(1);
      expect(false, "a second device");
    } catch (const UsageError& error) {
      expect(std::strstr(error.what(), "no CUDA device 1: there are 1"), error.what());
    }
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  return check::finish();
}
