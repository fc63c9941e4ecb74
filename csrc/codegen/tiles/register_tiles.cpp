#include "codegen/tiles/register_tiles.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/passes.h"
#include "codegen/names.h"
#include "codegen/tiles/accumulations.h"
#include "codegen/tiles/merge_reductions.h"
#include "codegen/tiles/point_vectors.h"
#include "codegen/tiles/unroll_reductions.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/expressions/simplify.h"
#include "machine/cpu.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

const Pass kMergeReductions("tile", "merge_reductions");
const Pass kUnrollReductions("tile", "unroll_reductions");
const Pass kKeepInRegisters("tile", "keep_in_registers");
const Pass kMarkAccumulations("tile", "mark_accumulations");
const Pass kCutPointVectors("tile", "cut_point_vectors");

using nest::make;
using nest::Tile;
using nest::TileDimension;

template <class Work>
Nest run(const Pass& pass, const Nest& before, Work work) {
  return run_pass(pass, std::move(work),
                  [&](const Nest& after) { return !nest::same(before, after); });
}

/// Replaces the extents of point loops by constants.
Nest fix_extents(const Nest& nest, const std::vector<int64_t>& extents) {
  Nest fixed =
      nest::map_children(nest, [&](const Nest& child) { return fix_extents(child, extents); });
  const auto* loop = as<Loop>(fixed);
  if (!loop || !loop->point) return fixed;
  Loop point = *loop;
  point.extent = static_cast<int>(extents[*loop->point]);
  return make(std::move(point));
}

/// How a buffer is addressed inside a tile: base + sum of steps[d] * (position in dimension d).
struct Addressing {
  Expr base;
  std::map<size_t, int64_t> steps;
  bool accumulated = false;  ///< stored below a loop that is no point loop
  bool inside = false;       ///< accessed below such a loop
  bool initialised = false;  ///< the first access is a store that reads nothing of it
  bool guarded = false;      ///< loaded under a condition, so perhaps outside of the buffer
  bool seen = false, regular = true, loaded = false, stored = false;
  Type type;
  Halide::Parameter parameter;
};

/// What is around an access.
struct Around {
  std::map<std::string, size_t> points;  ///< loops, and their dimensions
  std::set<std::string> loops;           ///< others
  bool repeated = false;                 ///< whether there are others, or an instruction's terms
  bool conditions = false;
};

class Addressings {
 public:
  explicit Addressings(const Nest& nest) { visit(nest, {}); }

  std::map<std::string, Addressing> buffers;

 private:
  void visit(const Nest& nest, Around around) {
    if (const auto* loop = as<Loop>(nest)) {
      if (loop->point) {
        around.points[loop->name] = *loop->point;
      } else {
        around.loops.insert(loop->name);
        around.repeated = true;
      }
    }
    if (as<nest::Guard>(nest)) around.conditions = true;
    // Its terms are a loop, also where there is one.
    if (as<nest::Intrinsic>(nest)) around.repeated = true;
    if (const auto* compute = as<Compute>(nest)) {
      // What it reads comes first.
      if (compute->reduction != ir::Reduction::None) loads(nest::load_of(*compute), around);
      loads(nest::computed_value(*compute), around);
      loads(compute->index, around);
      Addressing& a = access(compute->buffer, compute->index, memory_type(compute->type),
                             compute->parameter, around, true);
      a.stored = true;
      if (around.repeated) a.accumulated = true;
    } else {
      nest::for_each_own_expression(nest, [&](const Expr& e) { loads(e, around); });
    }
    nest::for_each_child(nest, [&](const Nest& child) { visit(child, around); });
  }

  void loads(const Expr& e, const Around& around) {
    nest::for_each_load(e, [&](const Load& load) {
      access(load.name, load.index, load.type, load.param, around, false).loaded = true;
    });
    nest::for_each_lazy_load(e, [&](const Load& load) { buffers.at(load.name).guarded = true; });
  }

  Addressing& access(const std::string& name, const Expr& index, Type type,
                     const Halide::Parameter& parameter, const Around& around, bool store) {
    Addressing& a = buffers[name];
    if (around.repeated) a.inside = true;
    Expr base = index;
    std::map<size_t, int64_t> steps;
    // What other loops lead elsewhere is no one result.
    bool regular = !around.conditions &&
                   std::none_of(around.loops.begin(), around.loops.end(),
                                [&](const auto& loop) { return expr_uses_var(index, loop); });
    for (const auto& [loop, dimension] : around.points) {
      Expr next = substitute(loop, ir::make_variable(loop) + 1, index);
      Expr step = ir::simplify_index(next - index);
      auto constant = as_const_int(step);
      if (!constant || *constant == 0)
        regular = false;
      else
        steps[dimension] = *constant;
      base = substitute(loop, Expr(0), base);
    }
    base = ir::simplify_index(base);
    if (!a.seen) {
      a.base = base;
      a.steps = steps;
      a.initialised = store && !around.repeated;
      a.seen = true;
      a.regular = regular;
      a.type = type;
      a.parameter = parameter;
    } else if (!equal(a.base, base) || a.steps != steps || !regular) {
      a.regular = false;
    }
    return a;
  }
};

/// Redirects accesses of promoted buffers to their local arrays. `points`: loops around, by their
/// dimensions.
Nest redirect(const Nest& nest, const std::map<std::string, std::string>& locals,
              const std::vector<int64_t>& strides, std::map<size_t, std::string> points = {}) {
  if (const auto* loop = as<Loop>(nest); loop && loop->point) points[*loop->point] = loop->name;
  auto place = [&] {
    Expr index = 0;
    for (const auto& [dimension, loop] : points)
      index = index + ir::make_variable(loop) * static_cast<int>(strides[dimension]);
    return index;
  };
  Nest below = nest::map_children(
      nest, [&](const Nest& child) { return redirect(child, locals, strides, points); });
  below = nest::map_own_expressions(below, [&](const Expr& e) {
    return nest::map_loads(e, [&](const Load& load) -> Expr {
      auto local = locals.find(load.name);
      return local == locals.end() ? &load : ir::make_load(load.type, local->second, place());
    });
  });
  const auto* compute = as<Compute>(below);
  auto local = compute ? locals.find(compute->buffer) : locals.end();
  if (local == locals.end()) return below;
  Compute changed = *compute;
  changed.buffer = local->second;
  changed.index = place();
  changed.parameter = {};
  return make(std::move(changed));
}

/// Those of `among` that are accessed in one register tile only.
std::set<std::string> buffers_of_one_tile(const Nest& nest, const std::set<std::string>& among) {
  std::map<std::string, int> tiles;
  std::function<Nest(const Nest&)> take_tiles = [&](const Nest& part) -> Nest {
    const auto* tile = as<Tile>(part);
    if (!tile) return nest::map_children(part, take_tiles);
    for (const std::string& name : nest::used_buffers(tile->body)) ++tiles[name];
    return nest::make_sequence({});
  };
  const std::set<std::string> elsewhere = nest::used_buffers(take_tiles(nest));
  std::set<std::string> found;
  for (const std::string& name : among)
    if (tiles.count(name) && tiles.at(name) == 1 && !elsewhere.count(name)) found.insert(name);
  return found;
}

/// Buffers that are read for more than to add something to what is read.
std::set<std::string> read_buffers(const Nest& nest) {
  std::set<std::string> found;
  nest::for_each_load(nest, [&](const Load& load) { found.insert(load.name); });
  nest::for_each_compute(nest, [&](const Compute& compute) {
    if (compute.reduction != ir::Reduction::None && compute.reduction != ir::Reduction::Sum)
      found.insert(compute.buffer);
  });
  return found;
}

class ExpandTiles {
 public:
  ExpandTiles(int vector_bits, const std::set<std::string>& large, std::set<std::string> forgotten,
              std::set<std::string> read)
      : vector_bits_(vector_bits),
        large_(large),
        forgotten_(std::move(forgotten)),
        read_(std::move(read)) {}

  Nest expand(const Nest& nest) {
    const auto* tile = as<Tile>(nest);
    if (!tile) return nest::map_children(nest, [&](const Nest& child) { return expand(child); });
    // The first loop over a dimension says how many points this tile has.
    std::map<size_t, Expr> actual;
    nest::for_each_node(tile->body, [&](const Nest& node) {
      if (const auto* loop = as<Loop>(node); loop && loop->point)
        actual.emplace(*loop->point, loop->extent);
    });
    std::vector<int64_t> extents(tile->dimensions.size(), 1);
    return choose(*tile, actual, 0, extents);
  }

 private:
  /// if (dimension is full) ... else ..., for one dimension after the other.
  Nest choose(const Tile& tile, const std::map<size_t, Expr>& actual, size_t at,
              std::vector<int64_t>& extents) {
    if (at == tile.dimensions.size()) return version(extents, actual.size(), tile.body);
    const TileDimension& d = tile.dimensions[at];
    extents[at] = d.full;
    Nest full = choose(tile, actual, at + 1, extents);
    auto extent = actual.find(at);
    if (d.rest == 0 || extent == actual.end()) return full;
    const bool any = d.rest == TileDimension::kAnyRest;
    extents[at] = any ? 1 : d.rest;
    Nest chosen = choose(tile, actual, at + 1, extents);
    const auto guard = [&](int64_t size, const Nest& version) {
      chosen = make(nest::Guard{extent->second == static_cast<int>(size), version, chosen});
    };
    // Full tiles are the most: they are asked for first.
    for (extents[at] = 2; any && extents[at] < d.full; ++extents[at]) {
      const int64_t size = extents[at];
      const Nest version = choose(tile, actual, at + 1, extents);
      guard(size, version);
    }
    guard(d.full, full);
    return chosen;
  }

  /// `looped`: dimensions that have loops; the others have one point and none.
  Nest version(const std::vector<int64_t>& extents, size_t looped, const Nest& given) {
    Nest body = fix_extents(given, extents);
    body = run(kMergeReductions, body, [&] { return merge_reductions(body); });
    int bits = std::max(8, nest::widest_element(body));
    // Whole vectors and one that overlaps them beat masks, also at half the width.
    const int lanes = lanes_of_block(extents[0], std::max(1, vector_bits_ / bits));
    body = run(kUnrollReductions, body,
               [&] { return unroll_short_reductions(body, lanes, vector_bits_ >= 512 ? 32 : 16); });

    // Local arrays: whole vectors in dimension 0, then the other dimensions.
    std::vector<int64_t> strides(extents.size(), 1);
    int64_t elements = (extents[0] + lanes - 1) / lanes * lanes;
    for (size_t d = 1; d < extents.size(); ++d) {
      strides[d] = elements;
      elements *= extents[d];
    }
    const Addressings addressing(body);
    std::map<std::string, std::string> locals;
    std::set<std::string> names, accumulators, read;
    for (const auto& [name, a] : addressing.buffers) {
      if (!a.regular || a.steps.size() != looped || !a.steps.count(0)) continue;
      // Elements that are no neighbours are moved in loops of their own: unrolled, they are
      // hundreds of scalar accesses, among which LLVM compares all pairs.
      bool apart = a.steps.at(0) != 1 && !a.inside && (a.stored || !a.guarded);
      const bool own = a.initialised && forgotten_.count(name) > 0;
      if (!a.accumulated && !apart && !own) continue;
      locals[name] = concat(name, ".local", tiles_);
      names.insert(locals[name]);
      if (a.accumulated) accumulators.insert(locals[name]);
      if (read_.count(name)) read.insert(locals[name]);
    }
    ++tiles_;
    body = run(kKeepInRegisters, body, [&] { return redirect(body, locals, strides); });
    body = run(kMarkAccumulations, body,
               [&] { return mark_accumulations(body, names, read, elements); });
    std::vector<std::pair<std::string, Type>> arrays;
    std::vector<Part> parts = list_parts(body);
    for (const auto& [name, local] : locals) {
      const Addressing& a = addressing.buffers.at(name);
      const Result result{a, name, local, strides, extents};
      arrays.emplace_back(local, a.type);
      const bool direct = a.steps.at(0) == 1 || (fills_vectors(result) && !a.accumulated);
      Moves moves = direct ? move_vectors(result) : move_elements(result, arrays);
      // Registers are free for other results as soon as these are stored.
      auto uses = [&](const Part& part) { return part.buffers.count(local) > 0; };
      auto first = std::find_if(parts.begin(), parts.end(), uses);
      auto last = std::find_if(parts.rbegin(), parts.rend(), uses);
      if (!a.initialised) first->before.push_back(moves.in);
      if (a.initialised && forgotten_.count(name)) continue;
      if (a.initialised && large_.count(name) && stores_parts_of_lines(result))
        first->before.push_back(prefetch_lines(result));
      if (a.stored) last->after.push_back(moves.out);
    }
    for (const auto& [name, local] : locals) {
      if (!accumulators.count(local)) continue;
      const Result result{addressing.buffers.at(name), name, local, strides, extents};
      for (Part& part : parts)
        if (part.buffers.count(local) && is_points(part.nest) &&
            has_many_functions(part.nest, lanes))
          names.insert(keep_in_memory(part, result, arrays));
    }
    body = join(parts);
    bool repeatable =
        std::none_of(addressing.buffers.begin(), addressing.buffers.end(), [&](const auto& entry) {
          return entry.second.loaded && entry.second.stored && !locals.count(entry.first);
        });
    body = run(kCutPointVectors, body,
               [&] { return cut_point_vectors(body, lanes, names, accumulators, repeatable); });
    for (const auto& [array, type] : arrays)
      body = make(
          nest::Buffer{array, type, unlike_others(type, elements), nest::Memory::Registers, body});
    return body;
  }

  /// Elements of an array of at least this many that is larger than all arrays before. Halide lets
  /// one that is no larger lie where another was, and LLVM then takes accumulators of 8 lanes for
  /// halves of those of 16, which it puts together and takes apart in every step.
  int64_t unlike_others(Type type, int64_t elements) {
    const int64_t vector = vector_bits_ / 8;
    const int64_t bytes = (elements * type.bytes() + vector - 1) / vector * vector;
    largest_ = std::max(bytes, largest_ + vector);
    return largest_ / type.bytes();
  }

  /// One of the parts that a tile runs one after the other, and what moves results for it.
  struct Part {
    Nest nest;
    std::set<std::string> buffers;
    std::vector<Nest> before, after;
  };
  static std::vector<Part> list_parts(const Nest& body) {
    std::vector<Part> parts;
    for (const Nest& part : nest::parts_of(body))
      parts.push_back({part, nest::used_buffers(part), {}, {}});
    return parts;
  }
  static Nest join(const std::vector<Part>& parts) {
    std::vector<Nest> all;
    for (const Part& part : parts) {
      all.insert(all.end(), part.before.begin(), part.before.end());
      all.push_back(part.nest);
      all.insert(all.end(), part.after.begin(), part.after.end());
    }
    return nest::make_sequence(all);
  }

  /// What a tile keeps in a local array.
  struct Result {
    const Addressing& addressing;
    const std::string &name, &local;
    const std::vector<int64_t>&strides, &extents;
  };

  /// The loops of a purpose over all points of a result: its element in the local array and in
  /// memory at the iterators that these loops have.
  struct Points {
    Points(const Result& result, std::string purpose)
        : local(0), memory(result.addressing.base), result_(result), purpose_(std::move(purpose)) {
      for (const auto& [d, step] : result.addressing.steps) {
        Expr point = ir::make_variable(iterator(d));
        local = local + point * static_cast<int>(result.strides[d]);
        memory = memory + Halide::cast(memory.type(), point) * make_const(memory.type(), step);
      }
    }

    std::string iterator(size_t d) const {
      return concat("point", d, ".", result_.local, purpose_);
    }
    Expr load_local() const { return load(result_.local, local, {}); }
    Expr load_memory() const { return load(result_.name, memory, result_.addressing.parameter); }
    Expr load(const std::string& buffer, const Expr& index,
              const Halide::Parameter& parameter) const {
      return ir::make_load(result_.addressing.type, buffer, index, parameter);
    }
    Nest store_local(const Expr& value) const { return store(result_.local, local, value, {}); }
    Nest store_memory(const Expr& value) const {
      return store(result_.name, memory, value, result_.addressing.parameter);
    }
    Nest store(const std::string& buffer, const Expr& index, const Expr& value,
               const Halide::Parameter& parameter) const {
      Compute made{buffer, result_.addressing.type, index, value};
      made.parameter = parameter;
      return make(std::move(made));
    }
    /// Vectors, unrolled.
    Nest vectors(Nest inner) const {
      for (const auto& [d, step] : result_.addressing.steps)
        inner = make(Loop{iterator(d), 0, static_cast<int>(result_.extents[d]),
                          d == 0 ? Role::Vector : Role::Unrolled, d, inner});
      return inner;
    }
    /// One by one, over all dimensions but this one.
    Nest elements(Nest inner, std::optional<size_t> without = {}) const {
      for (const auto& [d, step] : result_.addressing.steps)
        if (d != without)
          inner = nest::make_loop(iterator(d), 0, static_cast<int>(result_.extents[d]),
                                  Role::Serial, inner);
      return inner;
    }

    Expr local, memory;

   private:
    const Result& result_;
    const std::string purpose_;
  };

  /// Whether results whose neighbours along dimension 0 lie apart fill whole vectors of memory,
  /// since all that lies between them is there: strided vectors, which Halide interleaves.
  static bool fills_vectors(const Result& result) {
    const std::map<size_t, int64_t>& steps = result.addressing.steps;
    const int64_t apart = steps.at(0);
    return std::any_of(steps.begin(), steps.end(), [&](const auto& step) {
      return step.second == 1 && machine::is_interleaved(apart, result.extents[step.first]);
    });
  }

  /// What fills a local array and what stores it.
  struct Moves {
    Nest in, out;
  };

  /// Results that lie side by side in memory go there as vectors.
  static Moves move_vectors(const Result& result) {
    const Points in(result, ".in"), out(result, ".out");
    return {in.vectors(in.store_local(in.load_memory())),
            out.vectors(out.store_memory(out.load_local()))};
  }

  /// Others pass through an array in memory that keeps their order, from where they are copied one
  /// by one or in transposed blocks: LLVM would take accumulators apart whose elements are stored
  /// alone. The hidden zero keeps it from doing so through that array.
  static Moves move_elements(const Result& result,
                             std::vector<std::pair<std::string, Type>>& arrays) {
    const std::string bounce = result.local + ".memory";
    arrays.emplace_back(bounce, result.addressing.type);
    const Points gather(result, ".gather"), in(result, ".in"), out(result, ".out"),
        scatter(result, ".scatter");
    auto copy = [](Nest loops) { return make(nest::Copy{std::move(loops)}); };
    const Nest store =
        scatter.store_memory(scatter.load(bounce, scatter.local + hidden_zero(), {}));
    return {
        nest::make_sequence(
            {copy(gather.elements(gather.store(bounce, gather.local, gather.load_memory(), {}))),
             in.vectors(in.store_local(in.load(bounce, in.local, {})))}),
        nest::make_sequence(
            {out.vectors(out.store(bounce, out.local, out.load_local(), {})),
             fills_vectors(result) ? scatter.vectors(store) : copy(scatter.elements(store))})};
  }

  /// Whether there are no loops but those over points.
  static bool is_points(const Nest& nest) {
    bool others = false;
    nest::for_each_node(nest, [&](const Nest& node) {
      const auto* loop = as<Loop>(node);
      others = others || as<nest::Intrinsic>(node) || (loop && !loop->point);
    });
    return !others;
  }

  /// Accumulators pass through an array in memory to points that stay in loops, and back where
  /// these change them: registers are no places that a loop counts. Returns the array.
  static std::string keep_in_memory(Part& part, const Result& result,
                                    std::vector<std::pair<std::string, Type>>& arrays) {
    const std::string array = concat(result.local, ".kept", arrays.size());
    arrays.emplace_back(array, result.addressing.type);
    const Points keep(result, concat(".keep", arrays.size())),
        back(result, concat(".back", arrays.size()));
    part.before.push_back(keep.vectors(keep.store(array, keep.local, keep.load_local(), {})));
    bool changes = false;
    nest::for_each_compute(part.nest, [&](const Compute& compute) {
      changes = changes || compute.buffer == result.local;
    });
    if (changes)
      part.after.insert(part.after.begin(),
                        back.vectors(back.store_local(back.load(array, back.local, {}))));
    part.nest = nest::map_expressions(part.nest, [&](const Expr& e) {
      return nest::map_loads(e, [&](const Load& load) -> Expr {
        return load.name == result.local ? ir::make_load(load.type, array, load.index)
                                         : Expr(&load);
      });
    });
    part.nest = nest::map_computes(part.nest, [&](const Compute& compute) -> Nest {
      Compute changed = compute;
      if (changed.buffer == result.local) changed.buffer = array;
      return make(std::move(changed));
    });
    return array;
  }

  /// Whether some line is stored to that the tile does not fill.
  static bool stores_parts_of_lines(const Result& result) {
    const Addressing& a = result.addressing;
    const int64_t line = kLineBytes / a.type.bytes();
    if (fills_vectors(result)) return false;
    return a.steps.at(0) != 1 || result.extents[0] % line != 0 ||
           std::any_of(a.steps.begin(), a.steps.end(), [&](const auto& step) {
             return step.first != 0 && step.second % line != 0;
           });
  }

  /// Prefetches the lines that results will be stored to, some elements to each: the store buffer
  /// would be full of stores that wait for the rest of their lines (measured: 14 x 32 blocks of 16
  /// x 256 x 28 x 28 results, 14 side by side, 1.13 times faster; blocks of 8 rows of 26 in 32 x 32
  /// x 8 x 26 x 26 results 1.06 times; 64 columns of results whose rows begin with a line 0.95 to
  /// 1.02). Nothing where no dimension is contiguous.
  static Nest prefetch_lines(const Result& result) {
    const Addressing& a = result.addressing;
    const Points points(result, ".ask");
    auto run = std::find_if(a.steps.begin(), a.steps.end(),
                            [](const auto& step) { return step.second == 1; });
    if (run == a.steps.end()) return nullptr;
    int64_t line = kLineBytes / a.type.bytes(), last = result.extents[run->first] - 1;
    std::vector<Nest> lines;
    for (int64_t at = 0; at < last + line; at += line) {
      Expr index = substitute(points.iterator(run->first),
                              Expr(static_cast<int>(std::min(at, last))), points.memory);
      lines.push_back(make(nest::Prefetch{result.name, a.type, index, 2}));
    }
    return points.elements(nest::make_sequence(lines), run->first);
  }

  const int vector_bits_;
  const std::set<std::string>& large_;
  const std::set<std::string> forgotten_;  ///< behind their tile
  const std::set<std::string> read_;       ///< somewhere, other than to be added to
  int tiles_ = 0;
  int64_t largest_ = 0;  ///< of the arrays so far, in bytes
};

}  // namespace

Nest expand_register_tiles(const Nest& nest, int vector_bits, const std::set<std::string>& large,
                           const std::set<std::string>& temporaries) {
  return ExpandTiles(vector_bits, large, buffers_of_one_tile(nest, temporaries), read_buffers(nest))
      .expand(nest);
}

}  // namespace tc::codegen
