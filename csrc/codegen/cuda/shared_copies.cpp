#include "codegen/cuda/shared_copies.h"

#include <set>
#include <string>

#include "base/error.h"
#include "base/numbers.h"
#include "codegen/cuda/block_threads.h"
#include "codegen/names.h"

namespace tc::codegen {
namespace {

class ShareCopies {
 public:
  Nest node(const Nest& n) {
    if (!as<nest::Sequence>(n) && !as<nest::Copy>(n)) return children(n);
    std::vector<Nest> parts;
    bool copying = false;
    const auto wait = [&] { parts.push_back(nest::make(nest::Barrier())); };
    for (const Nest& part : nest::parts_of(n)) {
      const auto* copy = as<nest::Copy>(part);
      const bool shared = copy && is_shared(*copy);
      if (shared != copying) wait();
      copying = shared;
      parts.push_back(shared ? spread(*copy) : copy ? part : node(part));
    }
    if (copying) wait();
    return nest::make_sequence(parts);
  }

 private:
  Nest children(const Nest& n) {
    ScopedValue<ThreadLoops> threads(threads_);
    ScopedValue<std::set<std::string>> shared(shared_);
    ScopedValue<int> conditions(conditions_);
    if (const auto* loop = as<Loop>(n); loop && loop->role == Role::Thread)
      threads_.push_back(loop);
    if (const auto* buffer = as<nest::Buffer>(n); buffer && buffer->memory == nest::Memory::Shared)
      shared_.insert(buffer->name);
    if (const auto* guard = as<nest::Guard>(n))
      conditions_ += uses_threads(guard->condition, threads_);
    return nest::map_children(n, [&](const Nest& child) { return node(child); });
  }

  bool is_shared(const nest::Copy& copy) const {
    return nest::any<Compute>(
        copy.body, [&](const Compute& compute) { return shared_.count(compute.buffer) > 0; });
  }

  /// The copy's elements in turn, as many at a time as there are threads.
  Nest spread(const nest::Copy& copy) const {
    TC_INTERNAL_CHECK(conditions_ == 0, "not all threads reach a copy into shared memory");
    std::vector<const Loop*> loops;
    Nest body = copy.body;
    for (const Loop* loop; (loop = as<Loop>(body)); body = loop->body) loops.push_back(loop);
    TC_INTERNAL_CHECK(as<Compute>(body), "a copy into shared memory is more than that");
    const int64_t elements = count_threads(loops), threads = count_threads(threads_);
    const std::string round = loops[0]->name + ".round", element = loops[0]->name + ".element";
    Expr rest = ir::make_variable(element);
    // The last loop's iterations are the neighbours.
    for (size_t l = loops.size(); l-- > 0;) {
      const Expr at = l == 0 ? rest : rest % loops[l]->extent;
      body = nest::make(nest::Binding{loops[l]->name, simplify(loops[l]->min + at), body});
      rest = rest / loops[l]->extent;
    }
    if (elements % threads != 0)
      body = nest::make(
          nest::Guard{ir::make_variable(element) < static_cast<int>(elements), body, nullptr});
    body = nest::make(nest::Binding{
        element, ir::make_variable(round) * static_cast<int>(threads) + thread_number(threads_),
        body});
    return nest::make_loop(round, 0, static_cast<int>(divide_up(elements, threads)), Role::Serial,
                           body);
  }

  ThreadLoops threads_;
  std::set<std::string> shared_;
  int conditions_ = 0;  ///< that differ between threads
};

}  // namespace

Nest share_copies(const Nest& nest) { return ShareCopies().node(nest); }

}  // namespace tc::codegen
