#include "runtime/libraries.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads/leaf_mutex.h"
#include "ir/dtypes.h"
#include "ir/layout.h"
#include "machine/measure.h"
#include "machine/measurements.h"

namespace tc::runtime {
namespace {

std::atomic<const tc_libraries*> registered{nullptr};

/// The files of libraries by one of their functions; never destroyed.
struct KnownFiles {
  LeafMutex mutex;
  std::map<const void*, std::string> files;
};
KnownFiles& known_files = *new KnownFiles;

ir::LibraryOperand dense(const std::string& name, std::vector<int64_t> sizes) {
  ir::LibraryOperand operand;
  operand.tensor = name;
  operand.strides = row_major(sizes).strides;
  operand.sizes = std::move(sizes);
  return operand;
}

/// A problem of middling size: larger ones are not much faster.
ir::LibraryCall sample(ir::LibraryCall::Kind kind, ir::Type type) {
  ir::LibraryCall call;
  call.kind = kind;
  call.type = type;
  if (kind == ir::LibraryCall::Kind::Product) {
    constexpr int64_t kSize = 384;
    call.a = dense("a", {1, kSize, kSize});
    call.b = dense("b", {1, kSize, kSize});
    call.result = dense("result", {1, kSize, kSize});
    call.operations = 2.0 * kSize * kSize * kSize;
  } else {
    constexpr int64_t kImages = 4, kChannels = 64, kSize = 28, kTaps = 3;
    call.a = dense("a", {kImages, kChannels, kSize, kSize});
    call.b = dense("b", {kChannels, kChannels, kTaps, kTaps});
    call.result = dense("result", {kImages, kChannels, kSize, kSize});
    call.convolution = {TC_CONVOLUTION, 2, {1, 1}, {1, 1}, {1, 1}, 1};
    call.operations = 2.0 * kImages * kChannels * kSize * kSize * kChannels * kTaps * kTaps;
  }
  return call;
}

std::vector<Line> memory(const ir::LibraryOperand& operand, ir::Type type) {
  int64_t elements = 1;
  for (int64_t size : operand.sizes) elements *= size;
  return make_lines(static_cast<size_t>(elements * type.bytes()));
}

DLTensor to_dlpack(const ir::LibraryOperand& operand, ir::Type type, void* memory) {
  DLTensor tensor{};
  tensor.data = static_cast<uint8_t*>(memory) + operand.offset * type.bytes();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(operand.sizes.size());
  tensor.dtype = ir::to_dlpack(type);
  tensor.shape = const_cast<int64_t*>(operand.sizes.data());
  tensor.strides = const_cast<int64_t*>(operand.strides.data());
  return tensor;
}

}  // namespace

bool deterministic() {
  const tc_libraries* library = registered;
  return library && library->deterministic(library->context);
}

int host_threads() {
  const tc_libraries* library = registered;
  if (!library || deterministic()) return std::numeric_limits<int>::max();
  return std::max(1, library->host->thread_count(library->host->context));
}

const tc_libraries* libraries() { return deterministic() ? nullptr : registered.load(); }

std::string identity(const tc_libraries& library) {
  const auto* function = reinterpret_cast<const void*>(library.multiply);
  const LeafLock lock(known_files.mutex);
  auto [file, added] = known_files.files.emplace(function, "");
  Dl_info info;
  struct stat status;
  if (added && dladdr(function, &info) && stat(info.dli_fname, &status) == 0)
    file->second = concat(info.dli_fname, " ", status.st_size, " ", status.st_mtim.tv_sec, ".",
                          status.st_mtim.tv_nsec);
  return concat(library.name, " in ", file->second);
}

double library_rate(const tc_libraries& library, ir::LibraryCall::Kind kind, ir::Type type) {
  const std::string what =
      concat("operations a cycle of ", &library, ", ", kind == ir::LibraryCall::Kind::Product, " ",
             static_cast<int>(type.code()), " ", type.bits());
  return machine::measure_once(what, [&] {
    try {
      ir::LibraryCall call = sample(kind, type);
      int threads = std::max(1, library.host->thread_count(library.host->context));
      std::vector<Line> a = memory(call.a, type), b = memory(call.b, type),
                        result = memory(call.result, type);
      double seconds = machine::best_seconds({[&] {
                         run(library, call, a.data(), b.data(), result.data());
                       }}).front();
      return std::vector<double>{call.operations / (seconds / machine::seconds_per_cycle()) /
                                 threads};
    } catch (const Error&) {
      return std::vector<double>{0};  // it refuses the type
    }
  })[0];
}

void run(const tc_libraries& library, const ir::LibraryCall& call, void* a, void* b, void* result) {
  char message[512] = "";
  DLTensor operands[3] = {to_dlpack(call.a, call.type, a), to_dlpack(call.b, call.type, b),
                          to_dlpack(call.result, call.type, result)};
  int failed = call.kind == ir::LibraryCall::Kind::Product
                   ? library.multiply(library.context, &operands[0], &operands[1], &operands[2],
                                      call.accumulates, message, sizeof message)
                   : library.convolve(library.context, &call.convolution, &operands[0],
                                      &operands[1], &operands[2], message, sizeof message);
  if (failed)
    throw Error(TC_USAGE_ERROR,
                concat(library.name, " cannot make the ", ir::to_string(call), ": ", message,
                       "; matchLibraryCalls(False) keeps kernels to themselves"));
}

void set_libraries(const tc_libraries* libraries) { registered = libraries; }

}  // namespace tc::runtime
