#include "codegen/cuda/thread_reductions.h"

#include <string>

#include "base/error.h"
#include "codegen/cuda/block_threads.h"
#include "codegen/names.h"

namespace tc::codegen {
namespace {

class ReduceOverThreads {
 public:
  Nest node(const Nest& n) {
    if (const auto* compute = as<Compute>(n)) return reduce(n, *compute);
    ScopedValue<ThreadLoops> threads(threads_);
    ScopedValue<int> conditions(conditions_);
    if (const auto* loop = as<Loop>(n); loop && loop->role == Role::Thread)
      threads_.push_back(loop);
    if (const auto* guard = as<nest::Guard>(n))
      conditions_ += uses_threads(guard->condition, threads_);
    return nest::map_children(n, [&](const Nest& child) { return node(child); });
  }

 private:
  Nest reduce(const Nest& n, const Compute& compute) {
    if (!compute.over_threads) return n;
    ThreadLoops along, others;
    for (const Loop* loop : threads_)
      (expr_uses_var(compute.index, loop->name) ? others : along).push_back(loop);
    const int64_t lanes = count_threads(along);
    TC_INTERNAL_CHECK(conditions_ == 0, "not all threads reach a reduction over them");
    const std::string array = concat(compute.buffer, ".threads", count_++);
    const Expr lane = thread_number(along);
    const Expr first = simplify(thread_number(others) * static_cast<int>(lanes));
    const Type stored = memory_type(compute.type);
    const auto at = [&](const Expr& place) {
      return nest::from_memory(ir::make_load(stored, array, place), compute.type);
    };
    Compute own = compute;
    own.over_threads = false;
    own.buffer = array;
    own.parameter = Halide::Parameter();
    own.index = simplify(first + lane);
    const Nest wait = nest::make(nest::Barrier());
    Compute begin = own;
    begin.reduction = ir::Reduction::None;
    std::vector<Nest> parts = {nest::make(begin), wait};
    for (int64_t width = lanes; width > 1;) {
      const auto half = static_cast<int>((width + 1) / 2);
      own.value = at(simplify(own.index + half));
      parts.push_back(nest::make(
          nest::Guard{simplify(lane + half < static_cast<int>(width)), nest::make(own), nullptr}));
      // A step of one thread is followed by steps of the same thread.
      if (width - half > 1) parts.push_back(wait);
      width = half;
    }
    Compute last = compute;
    last.over_threads = false;
    last.value = at(first);
    parts.push_back(nest::make(nest::Guard{simplify(lane == 0), nest::make(last), nullptr}));
    parts.push_back(wait);
    return nest::make(nest::Buffer{array, stored, count_threads(threads_), nest::Memory::Shared,
                                   nest::make_sequence(parts)});
  }

  ThreadLoops threads_;
  int conditions_ = 0;  ///< that differ between threads
  int count_ = 0;       ///< reductions so far
};

}  // namespace

Nest reduce_over_threads(const Nest& nest) { return ReduceOverThreads().node(nest); }

}  // namespace tc::codegen
