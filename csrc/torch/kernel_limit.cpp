#include "torch/kernel_limit.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <new>
#include <vector>

#include "torch/errors.h"
#include "torch/operator.h"
#include "torch/temporary_memory.h"

namespace tc_torch {
namespace {

int64_t bytes_of(const std::vector<Operator::Kept>& kernels) {
  int64_t bytes = 0;
  for (const Operator::Kept& kept : kernels) bytes += kept.bytes;
  return bytes;
}

}  // namespace

KernelLimit& kernel_limit() {
  // Never destroyed: operators may outlive static objects.
  static auto* limit = [] {
    auto* made = new KernelLimit;
    // Threads that compile or call are not there in a child.
    pthread_atfork(
        [] {
          kernel_limit().mutex_.lock();
          for (Operator* op : kernel_limit().operators_) op->lock_for_fork();
        },
        [] {
          for (Operator* op : kernel_limit().operators_) op->unlock_after_fork();
          kernel_limit().mutex_.unlock();
        },
        [] {
          for (Operator* op : kernel_limit().operators_) op->reset_in_child();
          new (&kernel_limit().mutex_) std::mutex;
        });
    return made;
  }();
  return *limit;
}

void KernelLimit::add(Operator& op) {
  std::lock_guard<std::mutex> lock(mutex_);
  operators_.insert(&op);
}

void KernelLimit::remove(Operator& op) {
  std::lock_guard<std::mutex> lock(mutex_);
  operators_.erase(&op);
}

void KernelLimit::set(int64_t kernels, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (kernels >= 0) most_kernels_ = kernels;
  if (bytes >= 0) most_bytes_ = bytes;
  drop_until(most_kernels_, most_bytes_);
}

KernelLimit::Info KernelLimit::info() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Operator::Kept> kept;
  for (Operator* op : operators_) op->list_kept(kept);
  return {static_cast<int64_t>(kept.size()),   bytes_of(kept), most_kernels_, most_bytes_,
          static_cast<int64_t>(clock_.load()), dropped_};
}

void KernelLimit::trim() {
  std::lock_guard<std::mutex> lock(mutex_);
  drop_until(most_kernels_, most_bytes_);
}

void KernelLimit::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  drop_until(0, 0);
  free_temporaries();
}

void KernelLimit::drop_definitions(const std::vector<std::string>& keys) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Operator* op : operators_) {
    const std::string key = tc_definition_key(op->definition().get());
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    std::vector<Operator::Kept> kept;
    op->list_kept(kept);
    std::vector<const Specialization*> gone;
    for (const Operator::Kept& each : kept) gone.push_back(each.specialization);
    dropped_ += static_cast<int64_t>(gone.size());
    op->drop(gone);
  }
}

void KernelLimit::drop_until(int64_t kernels, int64_t bytes) {
  std::vector<Operator::Kept> kept;
  for (Operator* op : operators_) op->list_kept(kept);
  auto count = static_cast<int64_t>(kept.size());
  int64_t total = bytes_of(kept);
  if (count <= kernels && total <= bytes) return;
  std::ranges::sort(kept, {}, &Operator::Kept::last_use);
  std::map<Operator*, std::vector<const Specialization*>> gone;
  for (const Operator::Kept& each : kept) {
    if (count <= kernels && total <= bytes) break;
    gone[each.owner].push_back(each.specialization);
    --count;
    total -= each.bytes;
    ++dropped_;
  }
  for (const auto& [op, specializations] : gone) op->drop(specializations);
}

void use_tunings(const tc_store* store) {
  std::vector<int32_t> changed(static_cast<size_t>(tc_store_tuning_count(store)));
  if (changed.empty()) return;
  int32_t count = 0;
  check(tc_store_use(store, changed.data(), static_cast<int32_t>(changed.size()), &count));
  std::vector<std::string> keys;
  for (int32_t k = 0; k < count; ++k)
    keys.emplace_back(ask<tc_tuning>(tc_store_tuning, store, changed[static_cast<size_t>(k)]).key);
  if (!keys.empty()) kernel_limit().drop_definitions(keys);
}

}  // namespace tc_torch
