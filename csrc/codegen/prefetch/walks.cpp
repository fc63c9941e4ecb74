#include "codegen/prefetch/walks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/walk.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

AroundLoop around_loop(const Loop& loop) {
  return {loop.name, loop.min, loop.extent, loop.role == Role::Serial, loop.role == Role::Vector};
}

struct InnermostLoops {
  const ChangeLoop& change;
  Around around;
  int64_t serial_loops = 0;  ///< left so far

  Nest visit(const Nest& nest) {
    if (const auto* loop = as<Loop>(nest)) return visit_loop(nest, *loop);
    if (const auto* copy = as<nest::Copy>(nest)) {
      around.copies.push_back(copy);
      ++serial_loops;
      return nest;
    }
    if (const auto* binding = as<nest::Binding>(nest)) {
      around.enter(*binding);
      Nest result = visit_inside(nest);
      around.leave();
      return result;
    }
    ScopedValue<bool> in_tile(around.in_tile), in_slice(around.in_slice);
    if (const auto* buffer = as<nest::Buffer>(nest)) {
      around.in_tile = around.in_tile || buffer->memory == nest::Memory::Registers;
      around.in_slice = around.in_slice || buffer->memory == nest::Memory::Stack;
    }
    return visit_inside(nest);
  }

  Nest visit_loop(const Nest& nest, const Loop& loop) {
    const bool serial = loop.role == Role::Serial, outermost = !around.outermost;
    const int64_t before = serial_loops;
    const size_t copies = around.copies.size();
    if (outermost) around.outermost = nest;
    around.enter(loop);
    Nest result = visit_inside(nest);
    if (serial && serial_loops == before) result = change(result, around);
    if (serial) ++serial_loops;
    around.leave();
    around.copies.resize(copies);
    if (outermost) around.outermost = nullptr;
    return result;
  }

  Nest visit_inside(const Nest& nest) {
    return map_children(nest, [&](const Nest& child) { return visit(child); });
  }
};

/// Loads with the loops around them: those at places that data says, or the others.
struct FindReads {
  const bool gathers;
  std::vector<Read> reads = {};
  std::vector<AroundLoop> inside = {};
  Scope<> bound = {};
  std::set<std::string> own = {};  ///< buffers of the nest

  std::vector<Read> in(const Nest& nest) {
    visit(nest);
    return std::move(reads);
  }

  void visit(const Nest& nest) {
    if (as<nest::Prefetch>(nest) || (gathers && as<nest::Guard>(nest))) return;
    if (const auto* compute = as<Compute>(nest)) {
      if (compute->reduction != ir::Reduction::None) look(load_of(*compute));
      look(compute->value);
      return look(compute->index);
    }
    const auto* loop = as<Loop>(nest);
    const auto* binding = as<nest::Binding>(nest);
    if (loop) inside.push_back(around_loop(*loop));
    if (const auto* buffer = as<nest::Buffer>(nest)) own.insert(buffer->name);
    for_each_own_expression(nest, [&](const Expr& e) { look(e); });
    if (binding) bound.push(binding->name);
    for_each_child(nest, [&](const Nest& child) { visit(child); });
    if (binding) bound.pop(binding->name);
    if (loop) inside.pop_back();
  }

  void look(const Expr& e) {
    auto is_own = [&](const Load* load) { return own.count(load->name) > 0; };
    // Nothing has checked the place at which an index is read ahead: at a bad one there may be no
    // memory, where a prefetch does no harm and a load does.
    auto is_nested = [&](const Load* load) { return ir::has_load(load->index); };
    ir::walk(e, [&](const Expr& part) {
      if (gathers && ir::find_choice(part)) return false;
      const auto* load = part.as<Load>();
      if (load && load->type.is_scalar() && ir::has_load(load->index) == gathers &&
          !expr_uses_vars(load->index, bound) &&
          !(gathers &&
            (ir::any<Load>(load->index, is_own) || ir::any<Load>(load->index, is_nested))))
        reads.push_back({load->type, load->name, load->index, inside});
      return true;
    });
  }
};

}  // namespace

void Around::enter(const Loop& loop) {
  enter(around_loop(loop), loop.min, loop.min + loop.extent - 1);
}

void Around::enter(const nest::Binding& binding) {
  enter({binding.name, Expr(), Expr(), false}, binding.value, binding.value);
}

void Around::enter(AroundLoop loop, const Expr& first, const Expr& last) {
  bounds_.push(loop.name,
               {find_constant_bounds(first, bounds_).min, find_constant_bounds(last, bounds_).max});
  loops_.push_back(std::move(loop));
}

void Around::leave() {
  bounds_.pop(loops_.back().name);
  loops_.pop_back();
}

std::optional<int64_t> Around::least(const Expr& value) const {
  return as_const_int(find_constant_bound(value, Direction::Lower, bounds_));
}

std::optional<int64_t> Around::most(const Expr& value) const {
  return as_const_int(find_constant_bound(value, Direction::Upper, bounds_));
}

Nest change_innermost_loops(const Nest& nest, const ChangeLoop& change) {
  return InnermostLoops{change, {}}.visit(nest);
}

std::vector<Read> find_reads(const Nest& nest) { return FindReads{false}.in(nest); }

std::vector<Read> find_gathers(const Nest& nest) { return FindReads{true}.in(nest); }

bool has_loops(const Nest& nest) {
  return nest::any<Loop>(nest, [](const Loop& loop) {
    return loop.role != Role::Vector && loop.role != Role::Unrolled;
  });
}

std::optional<int64_t> Footprint::step(const std::string& loop) const {
  return ir::step_along(start, loop);
}

std::optional<Walk> Footprint::along(const AroundLoop& loop, const Around* around) const {
  auto by = step(loop.name);
  if (!by || *by < 0) return std::nullopt;
  if (*by == 0) return Walk{1, 0};
  if (!loop.extent.defined()) return std::nullopt;
  auto extent = around ? around->most(loop.extent) : as_const_int(loop.extent);
  if (!extent || *extent < 1) return std::nullopt;
  return Walk{*extent, *by};
}

void Footprint::widen(const AroundLoop& loop, const Walk& walk) {
  width += walk.step * (walk.extent - 1);
  start = substitute(loop.name, loop.min, start);
}

void Footprint::repeat(const AroundLoop& loop, const Walk& walk) {
  if (walk.step > 0) walks.push_back(walk);
  start = substitute(loop.name, loop.min, start);
}

void Footprint::join_runs(int64_t gap) {
  std::sort(walks.begin(), walks.end(),
            [](const Walk& a, const Walk& b) { return a.step < b.step; });
  while (!walks.empty() && walks.front().step < width + gap) {
    width += walks.front().step * (walks.front().extent - 1);
    walks.erase(walks.begin());
  }
}

int64_t Footprint::runs() const {
  int64_t count = 1;
  for (const Walk& walk : walks) count *= walk.extent;
  return count;
}

int64_t Footprint::span() const {
  int64_t elements = width;
  for (const Walk& walk : walks) elements += walk.step * (walk.extent - 1);
  return elements;
}

}  // namespace tc::codegen
