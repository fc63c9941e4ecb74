#include "codegen/cpu_jit.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "codegen/cpu_math.h"
#include "codegen/guarded_loads.h"
#include "codegen/register_tiles.h"
#include "codegen/strict_floats.h"
#include "codegen/vector_loops.h"
#include "codegen/vector_reductions.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using Halide::Module;
using ir::Stmt;

Halide::Target host_target() {
  static const Halide::Target target = Halide::get_host_target()
                                           .with_feature(Halide::Target::JIT)
                                           .with_feature(Halide::Target::NoAsserts)
                                           .with_feature(Halide::Target::NoBoundsQuery)
                                           .with_feature(Halide::Target::NoRuntime)
                                           // LLVM may not take floats for finite numbers either.
                                           .with_feature(Halide::Target::StrictFloat);
  return target;
}

bool fuses_multiply_add() {
  const Halide::Target target = host_target();
  return target.arch == Halide::Target::ARM || target.has_feature(Halide::Target::FMA);
}

/// What generated code hands back to us as its user context: Halide finds the handlers in front.
struct LaunchContext : Halide::JITUserContext {
  const tc_host* host = nullptr;
};

constexpr DLDevice kCpu = {kDLCPU, 0};

int parallel_for(Halide::JITUserContext* context,
                 int (*body)(Halide::JITUserContext*, int, uint8_t*), int min, int extent,
                 uint8_t* closure) {
  struct Task {
    Halide::JITUserContext* context;
    int (*body)(Halide::JITUserContext*, int, uint8_t*);
    int min;
    uint8_t* closure;
  } task{context, body, min, closure};
  const tc_host* host = static_cast<LaunchContext*>(context)->host;
  host->parallel_for(
      host->context, extent,
      [](void* data, int64_t begin, int64_t end) {
        const Task& t = *static_cast<Task*>(data);
        for (int64_t i = begin; i < end; ++i)
          t.body(t.context, t.min + static_cast<int>(i), t.closure);
      },
      &task);
  return 0;
}

void* allocate(Halide::JITUserContext* context, size_t bytes) {
  auto* launch = static_cast<LaunchContext*>(context);
  return launch->host->allocate(launch->host->context, kCpu, bytes);
}

void release(Halide::JITUserContext* context, void* pointer) {
  auto* launch = static_cast<LaunchContext*>(context);
  launch->host->release(launch->host->context, kCpu, pointer);
}

/// Workspaces of one run; given back when it ends, whether it got all of them or not.
class Workspaces {
 public:
  Workspaces(const tc_host& host, const std::vector<Workspace>& wanted) : host_(host) {
    for (const Workspace& workspace : wanted) {
      void* pointer = host.allocate(host.context, kCpu, static_cast<size_t>(workspace.bytes));
      if (!pointer) {
        release_all();
        throw Error(TC_USAGE_ERROR, concat("out of memory: the temporary ", workspace.name,
                                           " needs ", workspace.bytes, " bytes"));
      }
      pointers.push_back(pointer);
    }
  }
  ~Workspaces() { release_all(); }
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::vector<void*> pointers;

 private:
  void release_all() {
    for (void* pointer : pointers) host_.release(host_.context, kCpu, pointer);
    pointers.clear();
  }
  const tc_host& host_;
};

class CpuKernel : public runtime::Kernel {
 public:
  CpuKernel(Module module, const LoweredFunc& function, size_t arguments,
            std::vector<Workspace> workspaces)
      : module_(std::move(module)),
        jit_(module_, function, JITSharedRuntime::get(nullptr, host_target(), true)),
        run_(jit_.argv_function()),
        arguments_(arguments),
        workspaces_(std::move(workspaces)) {}

  void launch(const tc_host& host, void* const* pointers) const override {
    LaunchContext context;
    context.handlers.custom_do_par_for = parallel_for;
    context.handlers.custom_malloc = allocate;
    context.handlers.custom_free = release;
    context.host = &host;
    Workspaces workspaces(host, workspaces_);
    // The generated wrapper takes the address of every argument.
    constexpr size_t kInline = 32;
    const size_t count = 1 + arguments_ + workspaces_.size();
    const void* inline_slots[kInline];
    std::vector<const void*> heap_slots;
    const void** slots = inline_slots;
    if (count > kInline) {
      heap_slots.resize(count);
      slots = heap_slots.data();
    }
    Halide::JITUserContext* user_context = &context;
    slots[0] = &user_context;
    for (size_t i = 0; i < arguments_; ++i) slots[1 + i] = &pointers[i];
    for (size_t i = 0; i < workspaces_.size(); ++i)
      slots[1 + arguments_ + i] = &workspaces.pointers[i];
    run_(slots);
  }

  std::string text(const std::string& what) const override {
    if (what != "assembly") return Kernel::text(what);
    std::lock_guard<std::mutex> lock(assembly_mutex_);
    if (assembly_.empty()) assembly_ = assemble();
    return assembly_;
  }

 private:
  /// Halide writes assembly to files only.
  std::string assemble() const {
    std::string path = "/tmp/tc_assembly_XXXXXX";
    int file = mkstemp(path.data());
    if (file < 0) throw CompilationError("cannot create a temporary file for the assembly in /tmp");
    close(file);
    module_.compile({{Halide::OutputFileType::assembly, path}});
    std::ifstream stream(path);
    std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    std::remove(path.c_str());
    return text;
  }

  Module module_;
  JITModule jit_;
  JITModule::argv_wrapper run_;
  size_t arguments_;
  std::vector<Workspace> workspaces_;
  mutable std::mutex assembly_mutex_;
  mutable std::string assembly_;
};

Stmt lower(Stmt stmt) {
  stmt = ir::collapse_loops(stmt, ForType::Parallel);
  stmt = expand_register_tiles(stmt, cpu_vector_bits());
  stmt = vectorize_reductions(stmt, cpu_vector_bits());
  stmt = cut_vector_loops(stmt, cpu_vector_bits());
  // Before simplify, whose rules take floats for finite numbers; strict forms are left alone.
  stmt = make_floats_strict(lower_math(stmt));
  if (fuses_multiply_add()) stmt = contract_floats(stmt);
  stmt = simplify(stmt);
  stmt = predicate_guarded_loads(vectorize_loops(stmt, {}));
  stmt = unroll_loops(stmt);
  stmt = simplify(stmt);
  stmt = rewrite_interleavings(stmt);
  stmt = common_subexpression_elimination(stmt);
  stmt = flatten_nested_ramps(stmt);
  stmt = find_intrinsics(stmt);
  stmt = hoist_loop_invariant_values(stmt);
  return hide_negative_offsets(simplify(stmt));
}

}  // namespace

int cpu_vector_bits() { return host_target().natural_vector_size(Halide::UInt(8)) * 8; }

std::shared_ptr<runtime::Kernel> compile_cpu(const std::string& name, const Stmt& stmt,
                                             const std::vector<std::string>& arguments,
                                             const std::vector<Workspace>& workspaces,
                                             StageClock& clock) {
  Stmt body = lower(stmt);
  clock.done("halide passes");
  std::vector<LoweredArgument> parameters;
  auto add = [&](const std::string& parameter, Halide::Type type) {
    parameters.emplace_back(parameter, Halide::Argument::InputScalar, type, 0,
                            Halide::ArgumentEstimates{});
  };
  add("__user_context", Halide::type_of<const void*>());
  for (const std::string& argument : arguments) add(argument, Halide::Handle());
  for (const Workspace& workspace : workspaces) add(workspace.name, Halide::Handle());

  std::ostringstream text;
  text << body;
  std::vector<LoweredFunc> closures;
  body = lower_parallel_tasks(body, closures, name, host_target());
  LoweredFunc function(name, parameters, body, Halide::LinkageType::ExternalPlusArgv,
                       Halide::NameMangling::C);
  Module module(name, host_target());
  module.set_any_strict_float(true);
  for (LoweredFunc& closure : closures) module.append(closure);
  module.append(function);
  auto kernel = std::make_shared<CpuKernel>(module, function, arguments.size(), workspaces);
  kernel->texts["stmt"] = text.str();
  clock.done("llvm");
  return kernel;
}

}  // namespace tc::codegen
