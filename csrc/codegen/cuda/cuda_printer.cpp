#include "codegen/cuda/cuda_printer.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/notes.h"
#include "base/numbers.h"
#include "codegen/cuda/cuda_expr.h"
#include "codegen/names.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

constexpr char kAtomicPrefix[] = "tc_atomic_";
constexpr int64_t kMaxStaticSharedBytes = 48 * 1024;
constexpr int64_t kSharedAlignment = 16;

int64_t allocation_elements(const Allocate* op) {
  int64_t elements = 1;
  for (const Expr& extent : op->extents) {
    const auto value = as_const_int(simplify(extent));
    TC_INTERNAL_CHECK(value, "array ", op->name, " has no constant size: ", extent);
    elements *= *value;
  }
  return std::max<int64_t>(1, elements);
}

int64_t aligned_bytes(const Allocate* op) {
  return round_up(allocation_elements(op) * op->type.bytes(), kSharedAlignment);
}

/// Whether all threads have to reach a statement.
bool has_barrier(const Stmt& stmt) {
  return ir::any<Call>(stmt, [](const Call* op) {
    return op->is_intrinsic(Call::gpu_thread_barrier) || op->name == "tc_shuffle_xor";
  });
}

class CudaPrinter : public CudaExprPrinter {
 public:
  std::string print_program(const GpuProgram& program) {
    for (const GpuLaunch& launch : program.launches) print_launch(launch);
    return prelude_.text() + out_;
  }

 private:
  void print_launch(const GpuLaunch& launch) {
    start_function();
    axes_ = &launch.axes;
    const std::string symbol = kernel_symbol(launch.name);
    TC_INTERNAL_CHECK(symbols_.insert(symbol).second, "two launches have the symbol ", symbol);
    int64_t threads = 1;
    for (int i = 0; i < 3; ++i) {
      extents_[i] = launch.grid[i];
      extents_[3 + i] = launch.block[i];
      threads *= launch.block[i];
    }
    dynamic_shared_ = dynamic_shared_bytes(launch) > 0;
    prelude_.dynamic_shared = prelude_.dynamic_shared || dynamic_shared_;
    shared_offset_ = 0;

    std::vector<std::string> arguments;
    for (const GpuBuffer& buffer : launch.buffers) {
      const std::string name = unique_name(buffer.name);
      arguments.push_back((buffer.written ? "" : "const ") + storage_type(buffer.type) + "* " +
                          name);
      bindings_[buffer.name].push_back({name, true});
      note_storage(buffer.type);
    }
    // Scalars of 16-bit floats arrive as bits.
    for (const GpuScalar& scalar : launch.scalars) {
      const std::string name = unique_name(scalar.name);
      arguments.push_back("const " + storage_type(scalar.type) + " " + name);
      bindings_[scalar.name].push_back(
          {is_16_bit_float(scalar.type) ? "tc::to_float(" + name + ")" : name});
      note_storage(scalar.type);
    }
    if (launch.checks_indices) {
      prelude_.checked_index = true;
      report_ = unique_name("report");
      report_kernel_ = unique_name("kernel");
      arguments.push_back("tc::bad_index* " + report_);
      arguments.push_back("const unsigned long long " + report_kernel_);
    }
    for (int i = 0; i < 6; ++i) {
      index_names_[i] = unique_name(std::string(i < 3 ? "b" : "t") + "xyz"[i % 3]);
      index_used_[i] = false;
    }
    line("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ") " +
         symbol + "(" + join(arguments) + ") {");
    ++indent_;
    const std::string before = std::move(out_);
    out_.clear();
    print_stmt(launch.body);
    const std::string body = std::move(out_);
    out_ = before;
    static const char* const kIndices[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                           "threadIdx.x", "threadIdx.y", "threadIdx.z"};
    for (int i = 0; i < 6; ++i) {
      if (index_used_[i]) line("const int " + index_names_[i] + " = " + kIndices[i] + ";");
    }
    out_ += body;
    --indent_;
    line("}\n");
  }

  void note_storage(const Type& type) {
    if (is_16_bit_float(type)) (type.is_bfloat() ? prelude_.bfloat16 : prelude_.half) = true;
  }

  void print_stmt(const Stmt& s) {
    if (!s.defined()) return;
    switch (s->node_type) {
      case IRNodeType::Block:
        print_stmt(s.as<Block>()->first);
        print_stmt(s.as<Block>()->rest);
        return;
      case IRNodeType::For: return print_for(s.as<For>());
      case IRNodeType::IfThenElse: return print_if(s.as<IfThenElse>(), "");
      case IRNodeType::LetStmt: {
        const LetStmt* op = s.as<LetStmt>();
        declare_let(op->name, op->value);
        print_stmt(op->body);
        drop_let(op->name);
        return;
      }
      case IRNodeType::Store: return print_store(s.as<Store>());
      case IRNodeType::Allocate: return print_allocate(s.as<Allocate>());
      case IRNodeType::Evaluate: {
        const Expr value = s.as<Evaluate>()->value;
        const Call* call = value.as<Call>();
        if (call && call->is_intrinsic(Call::gpu_thread_barrier)) return line("__syncthreads();");
        if (call && atomic_place(call)) return print_atomic(call);
        if (!is_const(value)) line("(void)(" + print(value) + ");");
        return;
      }
      default: TC_INTERNAL_CHECK(false, "statement in a GPU kernel: ", s);
    }
  }

  /// The inside of a pair of braces. Its names end there and may be used again.
  void print_indented(const Stmt& body) {
    const std::set<std::string> names = used_names_;
    ++indent_;
    print_stmt(body);
    --indent_;
    used_names_ = names;
  }

  void print_braced(const std::string& head, const Stmt& body) {
    line(head + " {");
    print_indented(body);
    line("}");
  }

  void print_if(const IfThenElse* op, const std::string& before) {
    const std::string condition = print(op->condition);
    line(before + "if (" + condition + ") {");
    print_indented(op->then_case);
    if (op->else_case.defined()) {
      // What a condition declares must stand before its `if`, so that one cannot follow an else.
      const IfThenElse* next = op->else_case.as<IfThenElse>();
      if (next && !ir::any<Let>(next->condition)) return print_if(next, "} else ");
      line("} else {");
      print_indented(op->else_case);
    }
    line("}");
  }

  void print_for(const For* op) {
    if (op->for_type == ForType::GPUBlock || op->for_type == ForType::GPUThread)
      return print_mapped(op);
    TC_INTERNAL_CHECK(op->for_type == ForType::Serial || op->for_type == ForType::Unrolled, "loop ",
                      op->name, " is ", op->for_type, " in a GPU kernel");
    const Interval low = bounds_of_expr_in_scope(op->min, ranges_);
    const Expr last = simplify(op->min + op->extent - 1);
    const Interval high = bounds_of_expr_in_scope(last, ranges_);
    const std::string min = print(op->min);
    const std::string end = print(simplify(op->min + op->extent), kShift);
    const std::set<std::string> names = used_names_;
    const std::string name = unique_name(op->name);
    if (op->for_type == ForType::Unrolled) line("#pragma unroll");
    bindings_[op->name].push_back({name});
    ranges_.push(op->name, Interval(low.min, high.max));
    print_braced("for (" + value_type(op->min.type()) + " " + name + " = " + min + "; " + name +
                     " < " + end + "; ++" + name + ")",
                 op->body);
    used_names_ = names;
    drop_let(op->name);
  }

  /// A loop over blocks or threads is no loop: its variable is the index, and a guard keeps out
  /// those beyond its extent.
  void print_mapped(const For* op) {
    const bool thread = op->for_type == ForType::GPUThread;
    const auto axis = axes_->find(op->name);
    TC_INTERNAL_CHECK(axis != axes_->end(), "loop ", op->name, " has no GPU dimension");
    TC_INTERNAL_CHECK(is_const_zero(op->min), "loop ", op->name, " starts at ", op->min);
    const int index = axis->second + (thread ? 3 : 0);
    index_used_[index] = true;
    const Expr extent = simplify(op->extent);
    const auto constant = as_const_int(extent);
    TC_INTERNAL_CHECK(!constant || *constant <= extents_[index], "loop ", op->name, " has ",
                      *constant, " iterations for ", extents_[index], " indices");
    bindings_[op->name].push_back({index_names_[index]});
    ranges_.push(op->name, Interval(0, Expr(int32_t(extents_[index] - 1))));
    ++mapped_[index];
    if (constant && *constant == extents_[index]) {
      print_stmt(op->body);
    } else {
      TC_INTERNAL_CHECK(!thread || !has_barrier(op->body), "loop ", op->name, " has ", extent,
                        " iterations for ", extents_[index],
                        " threads, and a barrier that the others would not reach");
      const std::string bound = print(extent, kShift);
      print_braced("if (" + index_names_[index] + " < " + bound + ")", op->body);
    }
    --mapped_[index];
    drop_let(op->name);
  }

  void print_store(const Store* op) {
    TC_INTERNAL_CHECK(is_const_one(op->predicate), "predicated store in a GPU kernel: ", Stmt(op));
    if (binding(op->name).shared_by_threads) check_mapped(op->name);
    const std::string target = element(op->name, op->index);
    const Add* sum = op->value.as<Add>();
    const Load* old = sum ? sum->a.as<Load>() : nullptr;
    if (old && old->name == op->name && equal(old->index, op->index) &&
        op->value.type().bits() >= 32) {
      return line(target + " += " + print(sum->b) + ";");
    }
    line(target + " = " + print_for_storage(op->value) + ";");
  }

  void print_atomic(const Call* call) {
    const Load* place = atomic_place(call);
    check_mapped(place->name);
    prelude_.atomic = true;
    const std::string target = element(place->name, place->index);
    line("tc::atomic_" + call->name.substr(sizeof(kAtomicPrefix) - 1) + "(&" + target + ", " +
         print(call->args[1]) + ");");
  }

  /// A store outside a loop over some dimension would be made once for each of its indices.
  void check_mapped(const std::string& buffer) {
    const bool block_local = shared_arrays_.count(buffer) > 0;
    for (int i = block_local ? 3 : 0; i < 6; ++i) {
      TC_INTERNAL_CHECK(extents_[i] == 1 || mapped_[i] > 0, "store to ", buffer,
                        " outside any loop over ", i < 3 ? "block" : "thread", " dimension ",
                        "xyz"[i % 3], ", of ", extents_[i]);
    }
  }

  void print_allocate(const Allocate* op) {
    note_storage(op->type);
    const std::string type = storage_type(op->type);
    const std::string name = unique_name(op->name);
    const std::string size = "[" + std::to_string(allocation_elements(op)) + "]";
    const bool shared = op->memory_type == Halide::MemoryType::GPUShared;
    if (shared && dynamic_shared_) {
      line(type + "* const " + name + " = (" + type + "*)(tc_shared + " +
           std::to_string(shared_offset_) + ");");
      shared_offset_ += aligned_bytes(op);
    } else if (shared) {
      line("__shared__ " + type + " " + name + size + ";");
    } else {
      TC_INTERNAL_CHECK(op->memory_type != Halide::MemoryType::Heap, "array ", op->name,
                        " on the heap in a GPU kernel");
      line(type + " " + name + size + ";");
    }
    bindings_[op->name].push_back({name, shared});
    if (shared) shared_arrays_.insert(op->name);
    print_stmt(op->body);
    if (shared) shared_arrays_.erase(op->name);
    bindings_[op->name].pop_back();
  }

  std::set<std::string> symbols_;
  const std::map<std::string, int>* axes_ = nullptr;  ///< of the launch that is printed
  int64_t extents_[6] = {};                           ///< grid x, y, z, block x, y, z
  int mapped_[6] = {};  ///< loops over each that surround the current statement
  std::string index_names_[6];
  bool index_used_[6] = {};
  std::multiset<std::string> shared_arrays_;
  bool dynamic_shared_ = false;
  int64_t shared_offset_ = 0;
};

}  // namespace

std::string print_cuda(const GpuProgram& program) { return CudaPrinter().print_program(program); }

std::string kernel_symbol(const std::string& launch_name) {
  std::string result = "tc_";
  for (char c : launch_name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return result;
}

int64_t dynamic_shared_bytes(const GpuLaunch& launch) {
  int64_t bytes = 0;
  ir::for_each<Allocate>(launch.body, [&](const Allocate* op) {
    if (op->memory_type == Halide::MemoryType::GPUShared) bytes += aligned_bytes(op);
  });
  return bytes > kMaxStaticSharedBytes ? bytes : 0;
}

Stmt make_barrier() {
  return Evaluate::make(
      Call::make(Halide::Int(32), Call::gpu_thread_barrier, {0}, Call::Intrinsic));
}

Stmt make_atomic_update(ir::Reduction reduction, const Expr& place, const Expr& value) {
  TC_INTERNAL_CHECK(place.as<Load>() && place.type() == value.type() && value.type().bits() >= 32,
                    "atomic update of ", place, " by ", value);
  const char* name = "";
  switch (reduction) {
    case ir::Reduction::None: TC_INTERNAL_CHECK(false, "an atomic update reduces"); break;
    case ir::Reduction::Sum: name = "sum"; break;
    case ir::Reduction::Product: name = "product"; break;
    case ir::Reduction::Min: name = "min"; break;
    case ir::Reduction::Max: name = "max"; break;
    case ir::Reduction::And:
    case ir::Reduction::Or:
    case ir::Reduction::ArgMin:
    case ir::Reduction::ArgMax:
      TC_INTERNAL_CHECK(false, "no atomic form of ", ir::spelling(reduction));
  }
  return Evaluate::make(
      Call::make(value.type(), kAtomicPrefix + std::string(name), {place, value}, Call::Extern));
}

const Load* atomic_place(const Call* call) {
  return call->name.rfind(kAtomicPrefix, 0) == 0 ? call->args[0].as<Load>() : nullptr;
}

Expr shuffle_xor(const Expr& value, int lane_mask) {
  TC_INTERNAL_CHECK(!is_16_bit_float(value.type()) && value.type().bits() >= 32, "shuffle of ",
                    value.type());
  return Call::make(value.type(), "tc_shuffle_xor", {value, lane_mask}, Call::Extern);
}

runtime::CudaProgram make_cuda_program(const GpuProgram& program) {
  runtime::CudaProgram made;
  made.source = print_cuda(program);
  for (const GpuBuffer& temporary : program.temporaries)
    made.temporaries.push_back({temporary.name, temporary.elements * temporary.type.bytes()});
  for (const GpuLaunch& launch : program.launches) {
    runtime::CudaLaunch own;
    own.symbol = kernel_symbol(launch.name);
    for (const GpuBuffer& buffer : launch.buffers) own.buffers.push_back(buffer.name);
    for (const GpuScalar& scalar : launch.scalars) own.scalars.push_back(scalar.name);
    own.checks_indices = launch.checks_indices;
    std::copy(std::begin(launch.grid), std::end(launch.grid), own.grid);
    std::copy(std::begin(launch.block), std::end(launch.block), own.block);
    own.dynamic_shared_bytes = dynamic_shared_bytes(launch);
    made.launches.push_back(std::move(own));
  }
  return made;
}

}  // namespace tc::codegen
