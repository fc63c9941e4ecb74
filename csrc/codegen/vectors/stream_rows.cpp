#include "codegen/vectors/stream_rows.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

/// Whether a nest of loops waits for arithmetic rather than for memory: for functions of lanes, in
/// any of its loops of vectors.
bool waits_for_functions(const Nest& nest) {
  static const std::set<std::string> light = {"abs",  "fabs",  "fmax", "fmin", "floor",
                                              "ceil", "trunc", "rint", "fma",  "copysign"};
  return nest::any<Loop>(nest, [&](const Loop& loop) {
    auto waits = [&](const Call* op) {
      const std::string name = ir::math_name(op);
      return !name.empty() && light.count(name) == 0 && expr_uses_var(Expr(op), loop.name);
    };
    bool found = false;
    if (loop.role == Role::Vector)
      nest::for_each_expression(loop.body,
                                [&](const Expr& e) { found = found || ir::any<Call>(e, waits); });
    return found;
  });
}

/// Whether lanes of a loop write side by side and read nothing that lies elsewhere than that: that
/// takes instructions.
bool is_side_by_side(const Compute& compute, const Loop& loop) {
  return ir::step_along(compute.index, loop.name) == 1 &&
         !ir::any<Load>(compute.value, [&](const Load* load) {
           const auto step = ir::step_along(load->index, loop.name);
           return step != 0 && step != 1;
         });
}

/// The elements that a loop of vectors writes side by side by this compute, and by others that
/// write the same buffer in front of it or behind, of which each row ends where the next one
/// begins. Nothing where rows have elements in common, or may have: each is written as a whole,
/// after the one before, in the place of iteration after iteration.
std::optional<int64_t> joined_row(const std::vector<Compute>& computes, const Compute& compute,
                                  int64_t extent) {
  int64_t rows = 1, farthest = 0;
  for (const Compute& other : computes) {
    if (&other == &compute || other.buffer != compute.buffer) continue;
    const auto distance = as_const_int(simplify(other.index - compute.index));
    if (!distance || std::abs(*distance) < extent) return std::nullopt;
    farthest = std::max(farthest, std::abs(*distance));
    ++rows;
  }
  return farthest < rows * extent ? rows * extent : extent;
}

/// The row that a loop of vectors writes, streaming where it may.
Nest choose_row(const Nest& row, const std::set<std::string>& results, int64_t least_bytes) {
  const Loop& loop = *as<Loop>(row);
  auto computes = nest::computes_of(loop.body);
  if (!computes || computes->empty()) return row;
  const auto extent = as_const_int(loop.extent);
  std::set<std::string> names;
  std::vector<Nest> streaming;
  for (const Compute& compute : *computes) {
    const bool again = !names.insert(compute.buffer).second;
    if (results.count(compute.buffer) == 0 || !is_side_by_side(compute, loop) || (again && !extent))
      return row;
    if (extent) {
      const auto elements = joined_row(*computes, compute, *extent);
      if (!elements || *elements * memory_type(compute.type).bytes() < least_bytes) return row;
    }
    Compute streams = compute;
    streams.streams = true;
    streaming.push_back(nest::make(streams));
  }
  return nest::with_body(loop, nest::make_sequence(streaming));
}

/// `inside` of a nest of loops that waits for memory.
Nest choose_rows(const Nest& nest, bool inside, const std::set<std::string>& results,
                 int64_t least_bytes) {
  const auto* loop = as<Loop>(nest);
  if (loop && loop->role == Role::Vector) return choose_row(nest, results, least_bytes);
  if (loop && !inside && waits_for_functions(nest)) return nest;
  return nest::map_children(nest, [&](const Nest& child) {
    return choose_rows(child, inside || loop, results, least_bytes);
  });
}

/// The name of what the system says of a result's memory.
std::string flag(const std::string& buffer) { return buffer + ".streams"; }

class StreamRows {
 public:
  Nest node(const Nest& nest) {
    const auto* loop = as<Loop>(nest);
    auto computes =
        loop && loop->role == Role::Vector ? nest::computes_of(loop->body) : std::nullopt;
    if (!computes || computes->empty() ||
        !std::all_of(computes->begin(), computes->end(),
                     [](const Compute& compute) { return compute.streams; }))
      return nest::map_children(nest, [&](const Nest& child) { return node(child); });
    const auto extent = as_const_int(loop->extent);
    int64_t most = machine::kStreamedPart;
    Expr streams = const_true();
    std::vector<Nest> cached;
    for (Compute& compute : *computes) {
      compute.streams = false;
      cached.push_back(nest::make(compute));
      most = std::min(most, machine::kStreamedPart / memory_type(compute.type).bytes());
      streams = streams && ir::make_variable(flag(compute.buffer), Halide::Bool());
    }
    const bool parts = !extent || *extent > most;
    Nest row = parts ? stream_parts(*loop, *computes, static_cast<int>(most))
                     : stream(*loop, *computes, loop->min, loop->extent, static_cast<int>(*extent));
    return nest::make(
        nest::Guard{simplify(streams), row, nest::with_body(*loop, nest::make_sequence(cached))});
  }

 private:
  /// Rows that are longer than the arrays.
  Nest stream_parts(const Loop& loop, const std::vector<Compute>& computes, int most) {
    const std::string part = loop.name + ".part";
    auto extent = as_const_int(loop.extent);
    Expr first = ir::make_variable(part) * most;
    Expr size = extent && *extent % most == 0 ? Expr(most) : min(Expr(most), loop.extent - first);
    Expr count = simplify((loop.extent + (most - 1)) / most);
    return nest::make_loop(part, 0, count, Role::Serial,
                           stream(loop, computes, loop.min + first, size, most));
  }

  /// The iterations from `first` on, through arrays of `most` elements.
  Nest stream(const Loop& loop, const std::vector<Compute>& computes, const Expr& first,
              const Expr& extent, int most) {
    const std::string lane = loop.name + ".streamed";
    const Expr at = first + ir::make_variable(lane);
    std::vector<Nest> fills, copies;
    std::vector<std::pair<std::string, Type>> arrays;
    for (const Compute& compute : computes) {
      const Type type = memory_type(compute.type);
      arrays.emplace_back(concat(compute.buffer, ".row", count_++), type);
      const std::string& array = arrays.back().first;
      copies.push_back(copy(compute, substitute(loop.name, first, compute.index), array,
                            Halide::cast<int64_t>(extent) * type.bytes()));
      fills.push_back(nest::make(Compute{array, compute.type, ir::make_variable(lane),
                                         substitute(loop.name, at, compute.value)}));
    }
    copies.insert(copies.begin(),
                  nest::make_loop(lane, 0, extent, Role::Vector, nest::make_sequence(fills)));
    Nest result = nest::make_sequence(copies);
    for (const auto& [array, type] : arrays)
      result = nest::make(nest::Buffer{array, type, most, nest::Memory::Stack, result});
    return result;
  }

  /// From an array to a result's elements from `index` on.
  static Nest copy(const Compute& compute, const Expr& index, const std::string& array,
                   const Expr& bytes) {
    return nest::make(nest::Lowered{Evaluate::make(
        Call::make(Halide::Int(32), kCopyNontemporal,
                   {ir::make_address(memory_type(compute.type), compute.buffer, index),
                    ir::make_variable(array, Halide::Handle()), bytes},
                   Call::Extern))});
  }

  int count_ = 0;
};

}  // namespace

Nest choose_streamed(const Nest& nest, const std::map<std::string, int64_t>& results,
                     int64_t least_bytes) {
  if (results.empty()) return nest;
  const std::set<std::string> loaded = nest::loaded_buffers(nest);
  std::set<std::string> unread;
  for (const auto& [name, bytes] : results)
    if (loaded.count(name) == 0) unread.insert(name);
  return unread.empty() ? nest : choose_rows(nest, false, unread, least_bytes);
}

std::set<std::string> streamed_buffers(const Nest& nest) {
  std::set<std::string> names;
  nest::for_each_compute(nest, [&](const Compute& compute) {
    if (compute.streams) names.insert(compute.buffer);
  });
  return names;
}

Nest stream_rows(const Nest& nest, const std::map<std::string, int64_t>& sizes) {
  const std::set<std::string> streamed = streamed_buffers(nest);
  if (streamed.empty()) return nest;
  Nest streaming = StreamRows().node(nest);
  for (const std::string& name : streamed) {
    Expr asked = Call::make(
        Halide::Int(32), kIsResident,
        {ir::make_variable(name, Halide::Handle()), make_const(Halide::Int(64), sizes.at(name))},
        Call::Extern);
    streaming = nest::make(nest::Binding{flag(name), asked != 0, streaming});
  }
  return streaming;
}

}  // namespace tc::codegen
