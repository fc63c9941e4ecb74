#include "codegen/cpu/cpu_kernel.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "codegen/cpu/checked_indices.h"
#include "codegen/math/special_functions.h"
#include "codegen/names.h"
#include "codegen/vectors/stream_rows.h"
#include "ir/visit.h"
#include "runtime/machine_code.h"
#include "runtime/nontemporal.h"
#include "runtime/workspaces.h"

namespace tc::codegen {
namespace {

using Halide::Module;

constexpr DLDevice kCpu = {kDLCPU, 0};

/// Memory for the copies that a task makes (poly/promote): little of it on the stack (measured: a
/// product of 6 x 32 x 64, with 8 KiB of copies, in 1.64 instead of 1.77 us), more got from the
/// host before the task runs, since generated code does not check. Generated code frees in the
/// reverse order.
class Scratch {
 public:
  /// Null memory when the host has none.
  Scratch(const tc_host& host, int64_t bytes) : host_(host), bytes_(bytes) {
    if (bytes > 0)
      memory_ = is_little() ? own_
                            : static_cast<uint8_t*>(host.allocate(
                                  host.context, kCpu, static_cast<size_t>(bytes + kAlignment)));
  }
  ~Scratch() {
    if (memory_ && !is_little()) host_.release(host_.context, kCpu, memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool ok() const { return bytes_ == 0 || memory_; }
  void* allocate(size_t bytes) {
    uintptr_t start = reinterpret_cast<uintptr_t>(memory_) + used_;
    uintptr_t aligned = (start + kAlignment - 1) / kAlignment * kAlignment;
    used_ += aligned - start + round_up(bytes);
    return reinterpret_cast<void*>(aligned);
  }
  void release(void* pointer) {
    used_ = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(memory_);
  }

  static constexpr uintptr_t kAlignment = 64;
  /// What the stack of whoever calls has room for: nothing of the processor, but of hosts.
  static constexpr size_t kLittle = 16 * 1024;
  static size_t round_up(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  bool is_little() const { return bytes_ <= static_cast<int64_t>(kLittle); }

  const tc_host& host_;
  const int64_t bytes_;
  uint8_t* memory_ = nullptr;
  uintptr_t used_ = 0;
  alignas(kAlignment) uint8_t own_[kLittle];
};

/// What generated code hands back to us as its user context.
struct LaunchContext {
  const tc_host* host = nullptr;
  int64_t task_scratch_bytes = 0;
  Scratch* scratch = nullptr;
  bool streams = false;
  std::atomic<bool>* out_of_memory = nullptr;
  std::atomic<int>* bad_index = nullptr;  ///< a check that failed, -1 while none did
};

// ---- what generated code calls, in the place of Halide's runtime

int parallel_for(void* context, int (*body)(void*, int, uint8_t*), int min, int extent,
                 uint8_t* closure) {
  struct Task {
    const LaunchContext* launch;
    int (*body)(void*, int, uint8_t*);
    int min;
    uint8_t* closure;
  } task{static_cast<LaunchContext*>(context), body, min, closure};
  const tc_host* host = task.launch->host;
  host->parallel_for(
      host->context, extent,
      [](void* data, int64_t begin, int64_t end) {
        const Task& t = *static_cast<Task*>(data);
        Scratch scratch(*t.launch->host, t.launch->task_scratch_bytes);
        if (!scratch.ok()) {
          *t.launch->out_of_memory = true;
          return;
        }
        LaunchContext own = *t.launch;
        own.scratch = &scratch;
        for (int64_t i = begin; i < end; ++i) t.body(&own, t.min + static_cast<int>(i), t.closure);
        if (own.streams) runtime::finish_nontemporal();
      },
      &task);
  return 0;
}

void* allocate(void* context, size_t bytes) {
  return static_cast<LaunchContext*>(context)->scratch->allocate(bytes);
}

void release(void* context, void* pointer) {
  static_cast<LaunchContext*>(context)->scratch->release(pointer);
}

int32_t note_bad_index(void* context, int32_t check) {
  *static_cast<LaunchContext*>(context)->bad_index = check;
  return 0;
}

int32_t is_resident(void* memory, int64_t bytes) { return runtime::is_resident(memory, bytes); }

int32_t copy_nontemporal(void* to, void* from, int64_t bytes) {
  runtime::copy_nontemporal(to, from, bytes);
  return 0;
}

/// The address of a function that generated code calls; null when there is none.
void* find_function(const std::string& name) {
  static const std::map<std::string, void*> own = [] {
    std::map<std::string, void*> map;
    auto add = [&](const std::string& symbol, auto* function) {
      map[symbol] = reinterpret_cast<void*>(function);
    };
    add("halide_do_par_for", parallel_for);
    add("halide_malloc", allocate);
    add("halide_free", release);
    add(kBadIndex, note_bad_index);
    add(kIsResident, is_resident);
    add(kCopyNontemporal, copy_nontemporal);
    for (const SpecialFunction& each : kSpecialFunctions)
      add(special_function_symbol(each.name), each.function);
    return map;
  }();
  auto found = own.find(name);
  if (found != own.end()) return found->second;
  // The C library's functions, whatever other libraries have put in their place.
  static void* const mathematics = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  void* function = mathematics ? dlsym(mathematics, name.c_str()) : nullptr;
  return function ? function : dlsym(RTLD_DEFAULT, name.c_str());
}

/// Notes the most bytes that are allocated at a time, outside of parallel loops and by one task of
/// them.
void measure_scratch(const Stmt& body, CpuCode& code) {
  int64_t held = 0;
  int64_t* most = &code.scratch;
  ir::visit(
      body,
      [&](const For* op, ir::Visitor& self) {
        if (op->for_type != ForType::Parallel) return self.inside(op);
        ScopedValue<int64_t> of_task(held, 0);
        ScopedValue<int64_t*> most_of_task(most, &code.task_scratch);
        self.inside(op);
      },
      [&](const Allocate* op, ir::Visitor& self) {
        int64_t bytes = 0;
        if (op->memory_type == Halide::MemoryType::Heap)
          bytes = static_cast<int64_t>(
              Scratch::round_up(size_t(op->constant_allocation_size()) * op->type.bytes()) +
              Scratch::kAlignment);
        held += bytes;
        *most = std::max(*most, held);
        self.inside(op);
        held -= bytes;
      });
}

class CpuKernel : public runtime::Kernel {
 public:
  explicit CpuKernel(const CpuCode& code)
      : code_(code.object, find_function),
        run_(reinterpret_cast<int (*)(const void* const*)>(code_.function(code.name + "_argv"))),
        arguments_(code.arguments),
        workspaces_(code.workspaces),
        scratch_(code.scratch),
        task_scratch_(code.task_scratch),
        streams_(code.streams) {
    numbers["scratch_bytes"] = scratch_;
    numbers["task_scratch_bytes"] = task_scratch_;
    numbers["code_bytes"] = static_cast<int64_t>(code_.bytes());
    streamed = code.streamed;
  }

  void launch(const tc_host& host, void* const* pointers) const override {
    runtime::Workspaces workspaces(host, workspaces_);
    Scratch scratch(host, scratch_);
    std::atomic<bool> out_of_memory{!scratch.ok()};
    std::atomic<int> bad_index{-1};
    LaunchContext context{&host, task_scratch_, &scratch, streams_, &out_of_memory, &bad_index};
    if (!out_of_memory) run(context, pointers, workspaces.pointers);
    if (out_of_memory)
      throw Error(TC_USAGE_ERROR, concat("out of memory: the copies of operands need ",
                                         std::max(scratch_, task_scratch_),
                                         " bytes for every thread; the outputs are incomplete"));
    if (bad_index >= 0) throw runtime::BadIndex{bad_index};
  }

 private:
  void run(LaunchContext& context, void* const* pointers,
           const std::vector<void*>& workspaces) const {
    // The generated wrapper takes the address of every argument.
    constexpr size_t kInline = 32;
    const size_t count = 1 + arguments_ + workspaces.size();
    const void* inline_slots[kInline];
    std::vector<const void*> heap_slots;
    const void** slots = inline_slots;
    if (count > kInline) {
      heap_slots.resize(count);
      slots = heap_slots.data();
    }
    void* user_context = &context;
    slots[0] = &user_context;
    for (size_t i = 0; i < arguments_; ++i) slots[1 + i] = &pointers[i];
    for (size_t i = 0; i < workspaces.size(); ++i) slots[1 + arguments_ + i] = &workspaces[i];
    run_(slots);
    if (streams_) runtime::finish_nontemporal();
  }

  const runtime::MachineCode code_;
  int (*const run_)(const void* const* arguments);
  size_t arguments_;
  std::vector<runtime::Workspace> workspaces_;
  int64_t scratch_, task_scratch_;  ///< bytes of copies, outside of parallel loops and of one task
  bool streams_;                    ///< some results go past the caches
};

}  // namespace

std::string assembly(const Module& module) {
  // Halide writes it to files only.
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  std::string path = (folder / "tc_assembly_XXXXXX").string();
  int file = error ? -1 : mkstemp(path.data());
  if (file < 0)
    throw CompilationError(concat("cannot write the assembly to a temporary file: ",
                                  error ? error.message() : std::strerror(errno),
                                  "; set TMPDIR to a directory that can be written"));
  close(file);
  std::unique_ptr<const char, int (*)(const char*)> remover(path.c_str(), std::remove);
  module.compile({{Halide::OutputFileType::assembly, path}});
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

CpuCode make_cpu_code(const Module& module, const LoweredFunc& function, const Stmt& body,
                      size_t arguments, const std::vector<runtime::Workspace>& workspaces) {
  Halide::Buffer<uint8_t> object = module.compile_to_buffer();
  CpuCode code;
  code.name = function.name;
  code.object.assign(reinterpret_cast<const char*>(object.data()), object.size_in_bytes());
  code.arguments = arguments;
  code.workspaces = workspaces;
  measure_scratch(body, code);
  return code;
}

std::shared_ptr<runtime::Kernel> load_cpu_kernel(const CpuCode& code) {
  return std::make_shared<CpuKernel>(code);
}

}  // namespace tc::codegen
