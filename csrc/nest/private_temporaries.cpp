#include "nest/private_temporaries.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/expressions/simplify.h"
#include "ir/loops.h"

namespace tc::nest {
namespace {

using namespace Halide::Internal;

/// An access of a buffer, in order of execution: what a compute reads comes before what it writes.
struct Access {
  const std::string& buffer;
  const Expr& index;
  Type type;  ///< in memory
  bool write;
};

/// The accesses of a node's own expressions.
void for_each_access(const Nest& node, const std::function<void(const Access&)>& visit) {
  for_each_own_expression(node, [&](const Expr& e) {
    for_each_load(e, [&](const Load& op) { visit({op.name, op.index, op.type, false}); });
  });
  const auto* compute = as<Compute>(node);
  if (!compute) return;
  const Type type = memory_type(compute->type);
  if (compute->reduction != ir::Reduction::None)
    visit({compute->buffer, compute->index, type, false});
  visit({compute->buffer, compute->index, type, true});
}

/// The loops that all accesses of each buffer have in common, outermost first.
struct CommonLoops {
  std::map<std::string, std::vector<const Loop*>> loops;
  std::map<std::string, Type> types;

  void find(const Nest& nest, std::vector<const Loop*>& around) {
    const auto* loop = as<Loop>(nest);
    if (loop) around.push_back(loop);
    for_each_access(nest, [&](const Access& access) {
      types[access.buffer] = access.type;
      auto [found, fresh] = loops.emplace(access.buffer, around);
      if (fresh) return;
      std::vector<const Loop*>& common = found->second;
      const auto ends = std::mismatch(common.begin(), common.end(), around.begin(), around.end());
      common.erase(ends.first, common.end());
    });
    for_each_child(nest, [&](const Nest& child) { find(child, around); });
    if (loop) around.pop_back();
  }
};

/// Whether an iteration of a loop writes a slice of a buffer before it reads of it, and stays
/// inside.
class CheckIteration {
 public:
  CheckIteration(std::string buffer, const Loop& loop) : buffer_(std::move(buffer)) {
    check(loop.body);
    if (!covered_) possible = false;
  }

  bool possible = true;
  Expr base;           ///< where the slice begins
  int64_t length = 1;  ///< elements

 private:
  void check(const Nest& nest) {
    if (!possible) return;
    const auto* loop = as<Loop>(nest);
    const bool guard = as<Guard>(nest) != nullptr;
    if (loop) {
      inner_.push_back(loop);
      bounds_.push(loop->name, Interval(loop->min, simplify(loop->min + loop->extent - 1)));
    }
    conditions_ += guard;
    for_each_access(nest, [&](const Access& access) { check(access); });
    for_each_child(nest, [&](const Nest& child) { check(child); });
    conditions_ -= guard;
    if (!loop) return;
    bounds_.pop(loop->name);
    inner_.pop_back();
    if (!writers_.empty() && writers_.front() == loop) covered_ = true;
  }

  void check(const Access& access) {
    if (access.buffer != buffer_ || !possible) return;
    if (access.write && !covered_ && !writing_.defined())
      cover(access.index);
    else if (access.write || covered_ ||
             // While the slice is being written only the element just written is known.
             (writing_.defined() && inner_ == writers_ && equal(access.index, writing_)))
      check_inside(access.index);
    else
      possible = false;
  }

  /// The first store: its loops must run through the slice.
  void cover(const Expr& index) {
    possible = conditions_ == 0;
    base = index;
    std::vector<std::pair<int64_t, int64_t>> steps;  // step, extent
    for (const Loop* loop : inner_) {
      auto extent = as_const_int(loop->extent);
      auto step = ir::step_along(index, loop->name);
      // A slice begins where its tile does.
      const bool moves = std::any_of(inner_.begin(), inner_.end(), [&](const Loop* around) {
        return expr_uses_var(loop->min, around->name);
      });
      if (!extent || !step || *step < 0 || moves) {
        possible = false;
        return;
      }
      base = Halide::Internal::substitute(loop->name, loop->min, base);
      if (*step != 0 && *extent != 1) steps.emplace_back(*step, *extent);
    }
    std::sort(steps.begin(), steps.end());
    for (const auto& [step, extent] : steps) {
      if (step != length) possible = false;
      length *= extent;
    }
    base = ir::simplify_index(base);
    writing_ = index;
    writers_ = inner_;
    if (inner_.empty()) covered_ = true;
    check_inside(index);
  }

  void check_inside(const Expr& index) {
    Expr position = ir::simplify_index(index - base);
    Interval range = bounds_of_expr_in_scope(position, bounds_);
    auto low = range.has_lower_bound() ? as_const_int(simplify(range.min)) : std::nullopt;
    auto high = range.has_upper_bound() ? as_const_int(simplify(range.max)) : std::nullopt;
    if (!low || !high || *low < 0 || *high >= length) possible = false;
  }

  const std::string buffer_;
  std::vector<const Loop*> inner_, writers_;
  Scope<Interval> bounds_;
  Expr writing_;
  int conditions_ = 0;
  bool covered_ = false;
};

/// Where the slice of an iteration of these loops begins, if all accesses of a buffer move by the
/// strides of its slices along them; undefined otherwise.
Expr slice_base(const std::string& buffer, const poly::Slices& slices,
                const std::vector<const Loop*>& loops) {
  const size_t rank = slices.sizes.size();
  bool possible = loops.size() >= rank && rank > 0;
  for (size_t d = 0; possible && d < rank; ++d)
    possible = is_const_zero(loops[d]->min) && as_const_int(loops[d]->extent) == slices.sizes[d];
  if (!possible) return Expr();
  Type type;
  for_each_node(loops[0]->body, [&](const Nest& node) {
    for_each_access(node, [&](const Access& access) {
      if (access.buffer != buffer) return;
      type = access.index.type();
      for (size_t d = 0; d < rank; ++d)
        possible = possible && ir::step_along(access.index, loops[d]->name) == slices.strides[d];
    });
  });
  if (!possible || type.bits() == 0) return Expr();
  Expr base = make_zero(type);
  for (size_t d = 0; d < rank; ++d)
    base = base + Halide::cast(type, ir::make_variable(loops[d]->name)) *
                      make_const(type, slices.strides[d]);
  return base;
}

/// A slice of a temporary and the loop in whose body its buffer is made.
struct Private {
  std::string name;
  Type type;
  Expr base;
  int64_t length = 0;
  const Loop* place = nullptr;

  Expr position(const Expr& index) const {
    return Halide::cast<int>(ir::simplify_index(index - base));
  }
};

Nest make_private(const Nest& nest, const std::map<std::string, Private>& found,
                  const CpuMachine& machine) {
  const auto* loop = as<Loop>(nest);
  if (loop) {
    Nest body = make_private(loop->body, found, machine);
    for (const auto& [temporary, p] : found) {
      if (p.place != loop) continue;
      // The stack stays in the first cache, beside what else does.
      const bool little = p.length * p.type.bytes() <= machine.first_cache_bytes / 2;
      const Memory memory = little ? Memory::Stack : Memory::Heap;
      body = make(Buffer{p.name, p.type, p.length, memory, body});
    }
    return body == loop->body ? nest : with_body(*loop, body);
  }
  const auto redirect = [&](const Expr& e) {
    return map_loads(e, [&](const Load& load) -> Expr {
      const auto p = found.find(load.name);
      if (p == found.end()) return &load;
      return ir::make_load(load.type, p->second.name, p->second.position(load.index));
    });
  };
  const Nest redirected = map_own_expressions(nest, redirect);
  const auto* compute = as<Compute>(nest);
  if (!compute)
    return map_children(redirected, [&](const Nest& n) { return make_private(n, found, machine); });
  const auto p = found.find(compute->buffer);
  if (p == found.end()) return redirected;
  Compute changed = *as<Compute>(redirected);
  changed.buffer = p->second.name;
  changed.index = p->second.position(compute->index);
  changed.parameter = Halide::Parameter();
  return make(std::move(changed));
}

}  // namespace

Nest make_temporaries_private(const Nest& nest, std::set<std::string>& temporaries,
                              const std::map<std::string, poly::Slices>& slices,
                              const CpuMachine& machine) {
  CommonLoops common;
  std::vector<const Loop*> around;
  common.find(nest, around);
  std::map<std::string, Private> found;
  auto take = [&](const std::string& name, const std::vector<const Loop*>& loops, size_t k,
                  const Expr& base, int64_t length) {
    if (length * common.types[name].bytes() > machine.private_bytes) return;
    // Once for a task, or else once for an iteration of the outermost loop.
    size_t place = k;
    while (place > 0 && loops[place]->role != Role::Parallel) --place;
    found[name] = {name + ".private", common.types[name], base, length, loops[place]};
  };
  for (const auto& [name, loops] : common.loops) {
    if (!temporaries.count(name)) continue;
    for (size_t k = loops.size(); k-- > 0 && !found.count(name);) {
      if (loops[k]->role != Role::Serial && loops[k]->role != Role::Parallel) continue;
      CheckIteration check(name, *loops[k]);
      if (check.possible) take(name, loops, k, check.base, check.length);
    }
    auto slice = slices.find(name);
    if (slice == slices.end() || found.count(name)) continue;
    if (Expr base = slice_base(name, slice->second, loops); base.defined())
      take(name, loops, slice->second.sizes.size() - 1, base, slice->second.strides.back());
  }
  for (const auto& entry : found) temporaries.erase(entry.first);
  return found.empty() ? nest : make_private(nest, found, machine);
}

}  // namespace tc::nest
