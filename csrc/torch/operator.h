// Operators of torch.ops that are made at run time from a definition.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tc/tc.h"
#include "torch/arguments.h"
#include "torch/errors.h"

namespace tc_torch {

using OptionsPtr = std::unique_ptr<tc_options, Free<tc_options_free>>;
using KernelPtr = std::shared_ptr<tc_kernel>;
inline KernelPtr own(tc_kernel* kernel) { return {kernel, tc_kernel_free}; }

OptionsPtr copy_options(const tc_options* options);

/// PyTorch's threads, memory and current stream.
const tc_host& torch_host();

/// Chooses options for a set of inputs; may call into Python.
using OptionsFactory = std::function<OptionsPtr(at::ArrayRef<c10::IValue> inputs)>;

/// A compiled definition with everything that a call needs to know.
struct Specialization {
  std::vector<int64_t> key;
  KernelPtr kernel;
  int64_t bytes = 0;                          ///< of the kernel
  std::string options;                        ///< that it was compiled with, as text
  mutable std::atomic<uint64_t> last_use{0};  ///< the more, the later (see kernel_limit.h)
  std::vector<std::vector<int64_t>> output_sizes;
  std::vector<at::MemoryFormat> output_formats;
  c10::Device device = c10::kCPU;
};

/// Launches of a kernel while launches are recorded, with the arguments of the first.
struct RecordedLaunches {
  std::shared_ptr<const Definition> definition;
  std::string options;
  std::vector<c10::IValue> inputs;
  std::vector<at::Tensor> outputs;
  double seconds = 0;  ///< of all
  int64_t count = 0;
};
/// From now on, launches of all operators are kept, or not.
void record_launches(bool record);
/// Those that were kept, which are forgotten.
std::vector<RecordedLaunches> take_recorded_launches();

/// Whether kernels that this thread launches look at indices that are data.
bool& checks_indices();

/// What stands behind torch.ops.<namespace>.<name>: kernels by sizes, strides, devices and values
/// of specialised scalars. Calls may come from many threads.
class Operator {
 public:
  /// One that `keeps` its kernels forgets none, whatever limits and tunings say.
  Operator(std::shared_ptr<const Definition> definition, OptionsFactory factory,
           bool keeps = false);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  /// Inputs in order of the signature, then the initial contents of outputs that accumulate.
  std::vector<at::Tensor> call(at::ArrayRef<c10::IValue> arguments);
  /// Writes into given outputs. `unchecked` skips the checks of sizes, overlap and indices for
  /// kernels that were compiled before for these very layouts.
  void call_out(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs, bool unchecked);
  /// The same, with a wait for the results: the seconds that the kernel took, on a GPU by the
  /// device's own clock.
  double time(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs);
  const Definition& definition() const { return *definition_; }
  /// What runs on such inputs when results are made.
  KernelPtr kernel(at::ArrayRef<c10::IValue> inputs);

  /// Kernels that may be forgotten, and compiled again when they are asked for: those for the CPU.
  /// (A CUDA graph may hold one for a GPU.)
  struct Kept {
    Operator* owner;
    const Specialization* specialization;
    uint64_t last_use;
    int64_t bytes;
  };
  void list_kept(std::vector<Kept>& all);
  /// Forgets these; what a call uses now is freed when no call runs any more.
  void drop(const std::vector<const Specialization*>& specializations);
  /// Around fork: a child has none of the threads that compile or call.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }
  void reset_in_child();

 private:
  /// A call that runs: what it found is not freed below it.
  class Running {
   public:
    explicit Running(Operator& op) : operator_(op) { ++operator_.running_; }
    ~Running() {
      if (--operator_.running_ == 0 && operator_.has_dropped_) operator_.free_dropped();
    }

   private:
    Operator& operator_;
  };
  void free_dropped();
  const Specialization& find(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs);
  /// Notes that a specialization is used now, and returns it; the mutex must be held.
  const Specialization& remember(const Specialization& found);
  /// Null where there is none; the mutex must be held.
  const Specialization* lookup(const std::vector<int64_t>& key) const;
  /// Compiles once however many threads ask: the factory may take minutes, and is asked once.
  const Specialization& add(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs,
                            std::vector<int64_t> key);
  std::unique_ptr<Specialization> compile(at::ArrayRef<c10::IValue> inputs,
                                          at::ArrayRef<at::Tensor> outputs) const;
  void launch(const Specialization& specialization, at::ArrayRef<c10::IValue> inputs,
              at::ArrayRef<at::Tensor> outputs, double* seconds = nullptr) const;

  std::shared_ptr<const Definition> definition_;
  OptionsFactory factory_;
  const bool keeps_;
  std::atomic<const Specialization*> last_{nullptr};
  std::atomic<int> running_{0};
  std::atomic<bool> has_dropped_{false};
  std::shared_mutex mutex_;
  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const;
  };
  std::unordered_map<std::vector<int64_t>, std::unique_ptr<Specialization>, Hash> by_key_;
  std::vector<std::unique_ptr<Specialization>> dropped_;
  std::map<std::vector<int64_t>, std::thread::id> pending_;  ///< who compiles what now
  std::condition_variable_any pending_changed_;
};

}  // namespace tc_torch
