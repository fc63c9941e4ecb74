#include "torch/operator.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "torch/after_fork.h"
#include "torch/kernel_limit.h"
#include "torch/temporary_memory.h"

namespace tc_torch {
namespace {

c10::Device to_device(DLDevice device) {
  return device.device_type == kDLCUDA
             ? c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.device_id))
             : c10::Device(c10::DeviceType::CPU);
}

void parallel_for(void*, int64_t count, void (*task)(void*, int64_t, int64_t), void* data) {
  if (lost_its_team()) return task(data, 0, count);
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { task(data, begin, end); });
}

int32_t thread_count(void*) {
  return at::in_parallel_region() || lost_its_team() ? 1
                                                     : static_cast<int32_t>(at::get_num_threads());
}

void* allocate(void*, DLDevice device, size_t bytes) {
  if (device.device_type == kDLCPU) return allocate_temporary(bytes);
  try {
    // Gives the thread back the device that it had.
    c10::DeviceGuard guard(to_device(device));
    return c10::GetAllocator(c10::DeviceType::CUDA)->raw_allocate(bytes);
  } catch (const std::exception&) {
    return nullptr;  // the core says which allocation failed
  }
}

void release(void*, DLDevice device, void* pointer) {
  if (device.device_type == kDLCPU) {
    release_temporary(pointer);
  } else {
    c10::GetAllocator(c10::DeviceType::CUDA)->raw_deallocate(pointer);
  }
}

void* current_stream(void*, DLDevice device) {
  if (device.device_type == kDLCPU) return nullptr;
  c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard.getStream(to_device(device)).native_handle();
}

/// Sizes, strides, device and specialised values, behind whether algorithms are to be
/// deterministic; dtypes are part of it since a wrong one must not find a kernel.
bool append_key(std::vector<int64_t>& key, int64_t value) {
  key.push_back(value);
  return true;
}
bool append_key(std::vector<int64_t>& key, const at::Tensor& tensor) {
  key.push_back(static_cast<int64_t>(tensor.scalar_type()) * 1024 + tensor.dim());
  key.push_back(static_cast<int64_t>(tensor.layout()) * 1000000 +
                static_cast<int64_t>(tensor.device().type()) * 1000 + tensor.device().index() + 1);
  if (tensor.layout() != at::kStrided) return true;
  auto sizes = tensor.sizes(), strides = tensor.strides();
  key.insert(key.end(), sizes.begin(), sizes.end());
  key.insert(key.end(), strides.begin(), strides.end());
  return true;
}

/// The same with a dense tensor's strides where a stride leads to no other element.
bool append_canonical(std::vector<int64_t>& key, int64_t value) { return append_key(key, value); }
bool append_canonical(std::vector<int64_t>& key, const at::Tensor& tensor) {
  append_key(key, tensor);
  if (tensor.layout() != at::kStrided) return true;
  const at::IntArrayRef sizes = tensor.sizes();
  const bool empty = tensor.numel() == 0;
  uint64_t dense = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (empty || sizes[d] == 1) key[key.size() - sizes.size() + d] = static_cast<int64_t>(dense);
    dense *= static_cast<uint64_t>(std::max<int64_t>(1, sizes[d]));
  }
  return true;
}

/// The same comparison without building the key: the path of every call.
class KeyMatcher {
 public:
  explicit KeyMatcher(const std::vector<int64_t>& key)
      : at_(key.data()), end_(key.data() + key.size()) {}
  bool take(int64_t value) { return at_ != end_ && *at_++ == value; }
  bool take(const at::Tensor& tensor) {
    if (!take(static_cast<int64_t>(tensor.scalar_type()) * 1024 + tensor.dim()) ||
        !take(static_cast<int64_t>(tensor.layout()) * 1000000 +
              static_cast<int64_t>(tensor.device().type()) * 1000 + tensor.device().index() + 1))
      return false;
    auto sizes = tensor.sizes(), strides = tensor.strides();
    size_t bytes = sizes.size() * sizeof(int64_t);
    if (static_cast<size_t>(end_ - at_) < 2 * sizes.size()) return false;
    bool same = std::memcmp(at_, sizes.data(), bytes) == 0 &&
                std::memcmp(at_ + sizes.size(), strides.data(), bytes) == 0;
    at_ += 2 * sizes.size();
    return same;
  }
  bool done() const { return at_ == end_; }

 private:
  const int64_t* at_;
  const int64_t* end_;
};

/// Whether tensors that are given are like those that a kernel's results would be made as.
bool lie_as_made(at::ArrayRef<at::Tensor> given, const std::vector<ArgumentInfo>& infos,
                 const Specialization& kernel) {
  for (size_t o = 0; o < given.size(); ++o)
    if (given[o].layout() != at::kStrided || given[o].device() != kernel.device ||
        given[o].scalar_type() != infos[o].dtype ||
        given[o].sizes() != at::IntArrayRef(kernel.output_sizes[o]) ||
        !given[o].is_contiguous(kernel.output_formats[o]))
      return false;
  return true;
}

int64_t specialized_value(const c10::IValue& value) {
  return value.isBool() ? value.toBool() : value.toScalar().to<int64_t>();
}

}  // namespace

void (*raise_error)(const CoreError& error) = [](const CoreError& error) { throw error; };

bool (*interrupted)() = [] { return false; };

void (*unlocked)(const std::function<void()>& body) = [](const auto& body) { body(); };

void raise_message(tc_status status, const std::string& message) {
  raise_error(CoreError(status, message, 0, 0));
  throw std::logic_error("raise_error returned");
}

void check(tc_status status) {
  if (status == TC_OK) return;
  raise_error(CoreError(status, tc_error_message(), tc_error_line(), tc_error_column()));
}

bool& checks_indices() {
  static thread_local bool checks = true;
  return checks;
}

OptionsPtr copy_options(const tc_options* options) {
  OptionsPtr copy(tc_options_copy(options));
  if (!copy) check(TC_USAGE_ERROR);
  return copy;
}

const tc_host& torch_host() {
  static const tc_host host = {nullptr,  parallel_for, thread_count,
                               allocate, release,      current_stream};
  return host;
}

Operator::Operator(std::shared_ptr<const Definition> definition, OptionsFactory factory, bool keeps)
    : definition_(std::move(definition)), factory_(std::move(factory)), keeps_(keeps) {
  kernel_limit().add(*this);
}

size_t Operator::Hash::operator()(const std::vector<int64_t>& key) const {
  size_t h = key.size();
  for (int64_t value : key) h = h * 0x9E3779B97F4A7C15ull + static_cast<size_t>(value) + (h >> 29);
  return h;
}

Operator::~Operator() { kernel_limit().remove(*this); }

KernelPtr Operator::kernel(at::ArrayRef<c10::IValue> inputs) {
  Running running(*this);
  return find(inputs, {}).kernel;
}

void Operator::list_kept(std::vector<Kept>& all) {
  if (keeps_) return;
  std::shared_lock<std::shared_mutex> lock(mutex_);
  for (const auto& [key, each] : by_key_)
    if (each->device.is_cpu()) all.push_back({this, each.get(), each->last_use, each->bytes});
}

void Operator::drop(const std::vector<const Specialization*>& specializations) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  for (const Specialization* each : specializations) {
    auto owned = by_key_.find(each->key);
    if (last_ == each) last_ = nullptr;
    dropped_.push_back(std::move(owned->second));
    by_key_.erase(owned);
  }
  has_dropped_ = true;
  lock.unlock();
  if (running_ == 0) free_dropped();
}

void Operator::free_dropped() {
  std::vector<std::unique_ptr<Specialization>> gone;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  // A call that began after they were dropped has not found them.
  if (running_ > 0) return;
  has_dropped_ = false;
  gone.swap(dropped_);
}

void Operator::reset_in_child() {
  new (&mutex_) std::shared_mutex;
  new (&pending_changed_) std::condition_variable_any;
  pending_.clear();
  running_ = 0;
}

const Specialization& Operator::find(at::ArrayRef<c10::IValue> inputs,
                                     at::ArrayRef<at::Tensor> outputs) {
  if (keeps_ && !outputs.empty()) {
    // What an executor tells of runs also where its results are given.
    const Specialization& made = find(inputs, {});
    if (outputs.size() == made.output_sizes.size() &&
        lie_as_made(outputs, definition_->outputs, made))
      return made;
  }
  // Everything that a key is made of, as long as `take` goes on.
  const auto each_part = [&](const auto& take) {
    // Other kernels are made where results must not depend on the order of threads.
    if (!take(int64_t{at::globalContext().deterministicAlgorithms()})) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ArgumentInfo& info = definition_->inputs[i];
      if (info.specialized && !take(specialized_value(inputs[i]))) return false;
      if (!info.scalar && !take(inputs[i].toTensor())) return false;
    }
    return std::all_of(outputs.begin(), outputs.end(), take);
  };
  if (const Specialization* last = last_.load()) {
    KeyMatcher matcher(last->key);
    if (each_part([&](const auto& part) { return matcher.take(part); }) && matcher.done()) {
      last->last_use.store(kernel_limit().now(), std::memory_order_relaxed);
      return *last;
    }
  }

  std::vector<int64_t> key;
  // An executor runs the kernel that it tells of for all tensors that lie alike. Other operators
  // have results whose memory format follows an input's strides, also those that lead nowhere.
  each_part([&](const auto& part) {
    return keeps_ ? append_canonical(key, part) : append_key(key, part);
  });
  {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    if (const Specialization* known = lookup(key)) return remember(*known);
  }
  const Specialization* added = nullptr;
  unlocked([&] { added = &add(inputs, outputs, std::move(key)); });
  return *added;
}

const Specialization& Operator::remember(const Specialization& found) {
  found.last_use.store(kernel_limit().now(), std::memory_order_relaxed);
  last_ = &found;
  return found;
}

const Specialization* Operator::lookup(const std::vector<int64_t>& key) const {
  auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second.get();
}

const Specialization& Operator::add(at::ArrayRef<c10::IValue> inputs,
                                    at::ArrayRef<at::Tensor> outputs, std::vector<int64_t> key) {
  {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    while (true) {
      if (const Specialization* known = lookup(key)) return remember(*known);
      auto [entry, mine] = pending_.emplace(key, std::this_thread::get_id());
      if (mine) break;
      if (entry->second == std::this_thread::get_id()) {
        lock.unlock();
        raise(TC_USAGE_ERROR, "the options factory of ", definition_->name, " calls ",
              definition_->name,
              " on the inputs that it chooses options for; use tc.compile with options there");
      }
      pending_changed_.wait_for(lock, std::chrono::milliseconds(50));
      lock.unlock();
      if (interrupted()) raise(TC_INTERRUPTED, "interrupted");
      lock.lock();
    }
  }
  const Specialization* result = nullptr;
  {
    // Failures are not kept: whoever waits tries again. A destructor, since Python may end this
    // thread amidst an options factory, by an unwinding that no handler may hold up.
    auto done = c10::make_scope_exit([&] {
      std::lock_guard<std::shared_mutex> lock(mutex_);
      pending_.erase(key);
      pending_changed_.notify_all();
    });
    std::unique_ptr<Specialization> added = compile(inputs, outputs);
    added->key = key;
    std::lock_guard<std::shared_mutex> lock(mutex_);
    result = by_key_.emplace(key, std::move(added)).first->second.get();
    if (!keeps_) kernel_limit().tick();
    remember(*result);
  }
  kernel_limit().trim();
  return *result;
}

std::unique_ptr<Specialization> Operator::compile(at::ArrayRef<c10::IValue> inputs,
                                                  at::ArrayRef<at::Tensor> outputs) const {
  CallArguments arguments(*definition_, inputs);
  auto added = std::make_unique<Specialization>();
  const std::vector<int64_t> sizes = infer_result_sizes(*definition_, arguments);
  auto at = sizes.begin();
  for (const ArgumentInfo& output : definition_->outputs) {
    added->output_sizes.emplace_back(at, at + output.rank);
    at += output.rank;
  }
  std::vector<at::Tensor> made;
  bool formatted = false;
  for (size_t o = 0; outputs.empty() && o < definition_->outputs.size(); ++o) {
    const int follows = definition_->outputs[o].follows;
    at::MemoryFormat format = follows < 0 ? at::MemoryFormat::Contiguous
                                          : inputs[follows].toTensor().suggest_memory_format();
    formatted = formatted || format != at::MemoryFormat::Contiguous;
    added->output_formats.push_back(format);
    made.push_back(at::detail::empty_meta(added->output_sizes[o], definition_->outputs[o].dtype,
                                          std::nullopt, std::nullopt, std::nullopt, format));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!definition_->inputs[i].scalar) {
      added->device = inputs[i].toTensor().device();
      break;
    }
  OptionsPtr options = factory_ ? factory_(inputs) : nullptr;
  // What is copied when it is written becomes a tensor of its own now: it overlaps nothing.
  if (may_overlap(inputs, outputs))
    for (const at::Tensor& output : outputs) output.mutable_data_ptr();
  Tensors layouts(outputs);
  // Those that are made have no device yet.
  for (size_t o = 0; formatted && o < made.size(); ++o) {
    DLTensor layout = to_dltensor(made[o]);
    layout.device = to_dlpack(added->device);
    layouts.add(layout);
  }
  added->kernel = own(ask<tc_kernel*>(tc_compile, definition_->get(), options.get(),
                                      added->device.is_cuda() ? "cuda" : "cpu", arguments.data(),
                                      arguments.count(), layouts.data(), layouts.count()));
  if (options) added->options = tc_options_text(options.get());
  added->bytes = ask<int64_t>(tc_kernel_number, added->kernel.get(), "bytes");
  return added;
}

namespace {

struct Recorder {
  std::atomic<bool> on{false};
  std::mutex mutex;
  // By definition and arguments: kernels may be dropped meanwhile, and others have their places.
  std::map<std::pair<const Definition*, std::vector<int64_t>>, RecordedLaunches> launches;
};

/// Never destroyed: launches may come while the process ends.
Recorder& recorder = *new Recorder;

}  // namespace

void record_launches(bool record) { recorder.on = record; }

std::vector<RecordedLaunches> take_recorded_launches() {
  std::lock_guard<std::mutex> lock(recorder.mutex);
  std::vector<RecordedLaunches> result;
  for (auto& [specialization, launches] : std::exchange(recorder.launches, {}))
    result.push_back(std::move(launches));
  return result;
}

void Operator::launch(const Specialization& specialization, at::ArrayRef<c10::IValue> inputs,
                      at::ArrayRef<at::Tensor> outputs, double* seconds) const {
  constexpr size_t kInline = 24;
  c10::SmallVector<void*, kInline> pointers;
  c10::SmallVector<double, 4> values;
  values.reserve(inputs.size());  // addresses must stay
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentInfo& info = definition_->inputs[i];
    if (info.scalar) {
      values.push_back(0);
      store_scalar(info, inputs[i], &values.back());
      pointers.push_back(&values.back());
    } else {
      pointers.push_back(const_cast<void*>(inputs[i].toTensor().const_data_ptr()));
    }
  }
  for (const at::Tensor& output : outputs) pointers.push_back(output.mutable_data_ptr());
  const tc_kernel* kernel = specialization.kernel.get();
  if (seconds) return check(tc_kernel_time(kernel, &torch_host(), pointers.data(), seconds));
  const auto run = checks_indices() ? tc_kernel_launch : tc_kernel_launch_unchecked;
  if (!recorder.on) return check(run(kernel, &torch_host(), pointers.data()));
  const auto begin = std::chrono::steady_clock::now();
  check(run(kernel, &torch_host(), pointers.data()));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  std::lock_guard<std::mutex> lock(recorder.mutex);
  RecordedLaunches& all = recorder.launches[{definition_.get(), specialization.key}];
  if (all.count++ == 0)
    all = {definition_, specialization.options, inputs.vec(), outputs.vec(), 0, 1};
  all.seconds += spent.count();
}

double Operator::time(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs) {
  Running running(*this);
  double seconds = 0;
  launch(find(inputs, outputs), inputs, outputs, &seconds);
  return seconds;
}

std::vector<at::Tensor> Operator::call(at::ArrayRef<c10::IValue> arguments) {
  auto inputs = arguments.slice(0, definition_->inputs.size());
  Running running(*this);
  const Specialization& specialization = find(inputs, {});
  check_memory(definition_->inputs, inputs);
  std::vector<at::Tensor> outputs;
  outputs.reserve(definition_->outputs.size());
  size_t initial = inputs.size();
  for (size_t o = 0; o < definition_->outputs.size(); ++o) {
    const ArgumentInfo& info = definition_->outputs[o];
    const std::vector<int64_t>& sizes = specialization.output_sizes[o];
    at::MemoryFormat format = specialization.output_formats[o];
    outputs.push_back(
        specialization.device.is_cpu()
            ? at::Tensor(at::detail::empty_cpu(sizes, info.dtype, false, format))
            : at::empty(sizes, at::dtype(info.dtype).device(specialization.device), format));
    if (specialization.device.is_cpu())
      advise_huge_pages(outputs.back().mutable_data_ptr(), outputs.back().nbytes());
    if (!info.accumulates) continue;
    const at::Tensor& start = arguments[initial++].toTensor();
    if (start.sizes() != at::IntArrayRef(sizes) || start.scalar_type() != info.dtype)
      raise(TC_SHAPE_ERROR, "output ", info.name, ": expected initial contents of sizes ",
            at::IntArrayRef(sizes), " and dtype ", c10::toString(info.dtype), " but got ",
            start.sizes(), " and ", c10::toString(start.scalar_type()));
    check_memory("output", info, start);
    outputs.back().copy_(start);
  }
  launch(specialization, inputs, outputs);
  return outputs;
}

void Operator::call_out(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs,
                        bool unchecked) {
  for (size_t o = 0; o < outputs.size() && o < definition_->outputs.size(); ++o)
    check_tensor("output", definition_->outputs[o], outputs[o]);
  Running running(*this);
  const Specialization& specialization = find(inputs, outputs);
  check_memory(definition_->inputs, inputs);
  for (size_t o = 0; o < outputs.size(); ++o)
    check_memory("output", definition_->outputs[o], outputs[o]);
  // A launch that fails, as at a bad index, may have written a part.
  auto changed = c10::make_scope_exit([&] {
    for (const at::Tensor& output : outputs)
      if (!output.is_inference()) output.unsafeGetTensorImpl()->bump_version();
  });
  // The key holds everything but the addresses. Where memory is far apart nothing is left to check;
  // where it is not, the core tells views that interleave from views that overlap.
  if (unchecked || !may_overlap(inputs, outputs)) {
    launch(specialization, inputs, outputs);
  } else {
    // What is copied when it is written becomes a tensor of its own now.
    for (const at::Tensor& output : outputs) output.mutable_data_ptr();
    const CallArguments arguments(*definition_, inputs);
    const Tensors given(outputs);
    check(tc_kernel_run(specialization.kernel.get(), &torch_host(), arguments.data(),
                        arguments.count(), given.data(), given.count()));
  }
  changed.release();
}

}  // namespace tc_torch
