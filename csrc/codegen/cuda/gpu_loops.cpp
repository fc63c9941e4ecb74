#include "codegen/cuda/gpu_loops.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/notes.h"
#include "base/numbers.h"
#include "codegen/cuda/shared_copies.h"
#include "codegen/cuda/thread_reductions.h"
#include "codegen/lower_nest.h"
#include "codegen/math/narrow_steps.h"
#include "codegen/math/strict_floats.h"
#include "codegen/names.h"
#include "codegen/workarounds/changing_buffers.h"
#include "codegen/workarounds/nested_truncations.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "nest/loops.h"

namespace tc::codegen {
namespace {

// CUDA's limits for every architecture since sm_30.
constexpr int64_t kMaxGridX = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxThreadsZ = 64;

/// Loops around, with the values that their indices have.
using LoopBounds = Scope<Interval>;

int64_t constant_extent(const Expr& extent, const LoopBounds& around) {
  const auto value = as_const_int(find_constant_bound(extent, Direction::Upper, around));
  TC_INTERNAL_CHECK(value, "a loop mapped to the GPU has no constant bound: ", extent);
  return std::max<int64_t>(1, *value);
}

/// How many thread loops lie in each other at most.
int thread_depth(const Nest& nest) {
  int deepest = 0;
  nest::for_each_child(
      nest, [&](const Nest& child) { deepest = std::max(deepest, thread_depth(child)); });
  const auto* loop = as<Loop>(nest);
  return deepest + (loop && loop->role == Role::Thread);
}

bool has_barrier(const Nest& nest) {
  return nest::any<nest::Barrier>(nest, [](const nest::Barrier&) { return true; });
}

/// Whether 32 bits hold the indices of so many lanes of a loop, those that its guard leaves out as
/// well. The simplifier, which takes overflow for impossible, makes of tx < min(32, N - 32 * bx) a
/// comparison of max(32 * bx, N - 32) + tx with N: what the extent counts from must have room, too.
bool has_room(const Loop& loop, const LoopBounds& around, int64_t lanes) {
  const int64_t most = std::numeric_limits<int32_t>::max() - lanes;
  const auto last = as_const_int(find_constant_bound(loop.min, Direction::Upper, around));
  bool room = last && *last <= most;
  ir::visit_graph(loop.extent, [&](const IntImm* op, ir::Visitor&) {
    room = room && op->value <= most && op->value >= -most;
  });
  return room;
}

Expr wide(int64_t number) { return make_const(Halide::Int(64), number); }
Expr in_64_bits(const std::string& index) {
  return cast(Halide::Int(64), ir::make_variable(index));
}

/// The iterations of a loop on `lanes` hardware lanes called `lane`, over a body that uses its
/// iterator.
Nest distribute(const Loop& loop, const std::string& lane, int64_t lanes, int64_t extent,
                const LoopBounds& around, Nest body) {
  Expr index = ir::make_variable(lane);
  std::string round = loop.name + ".round";
  const int64_t rounds = divide_up(extent, lanes);
  TC_INTERNAL_CHECK(rounds == 1 || !has_barrier(body), "the ", extent, " iterations of ", loop.name,
                    " run on ", lanes, " threads, and wait for each other");
  if (rounds > 1) index = ir::make_variable(round) * static_cast<int>(lanes) + index;
  body = nest::make(nest::Binding{loop.name, simplify(loop.min + index), body});
  auto exact = as_const_int(loop.extent);
  if (!exact || *exact != rounds * lanes) {
    if (!has_room(loop, around, rounds * lanes))
      index = in_64_bits(lane) + (rounds > 1 ? in_64_bits(round) * wide(lanes) : wide(0));
    body = nest::make(nest::Guard{index < cast(index.type(), loop.extent), body, nullptr});
  }
  if (rounds > 1) body = nest::make_loop(round, 0, static_cast<int>(rounds), Role::Serial, body);
  return nest::make_loop(lane, 0, static_cast<int>(lanes), loop.role, body);
}

/// Gives blocks and threads their axes, and the launch its sizes.
class MapLoops {
 public:
  MapLoops(GpuLaunch& launch, const MappingOptions& options) : launch_(launch), options_(options) {}

  Nest map(const Nest& nest) {
    const auto* loop = as<Loop>(nest);
    if (loop && loop->role == Role::Block && !in_block_) return map_blocks(*loop);
    // The grid has one axis. What collapse_blocks left inside is the work of one block.
    if (loop && loop->role == Role::Block)
      return nest::make_loop(loop->name, loop->min, loop->extent, Role::Serial, map_body(*loop));
    if (loop && loop->role == Role::Thread) return map_threads(*loop);
    if (loop) return nest::with_body(*loop, map_body(*loop));
    if (const auto* binding = as<nest::Binding>(nest))
      return nest::make(
          nest::Binding{binding->name, binding->value,
                        map_inside(binding->name, binding->value, binding->value, binding->body)});
    return nest::map_children(nest, [&](const Nest& child) { return map(child); });
  }

 private:
  Nest map_body(const Loop& loop) {
    return map_inside(loop.name, loop.min, loop.min + loop.extent - 1, loop.body);
  }

  /// What lies in the scope of a name, whose values begin and end so.
  Nest map_inside(const std::string& name, const Expr& first, const Expr& last, const Nest& body) {
    // find_constant_bound does not simplify them.
    const Expr low = simplify(bounds_of_expr_in_scope(first, around_).min);
    const Expr high = simplify(bounds_of_expr_in_scope(last, around_).max);
    ScopedBinding<Interval> bound(around_, name, {low, high});
    return map(body);
  }

  Nest map_blocks(const Loop& loop) {
    int64_t extent = constant_extent(loop.extent, around_), limit = kMaxGridX;
    if (!options_.blocks.empty()) {
      limit = 1;
      for (int64_t blocks : options_.blocks)
        limit = std::min(limit * std::min(blocks, kMaxGridX), kMaxGridX);
    }
    const int64_t blocks = std::min(extent, limit);
    // Loops may follow one another: the grid is that of the largest, the others have guards.
    launch_.grid[0] = std::max(launch_.grid[0], blocks);
    const std::string block = loop.name + ".block";
    launch_.axes[block] = 0;
    in_block_ = true;
    Nest body = map_body(loop);
    in_block_ = false;
    return distribute(loop, block, blocks, extent, around_, body);
  }

  Nest map_threads(const Loop& loop) {
    int axis = thread_depth(loop.body);
    TC_INTERNAL_CHECK(axis < 3, "more than three nested thread loops");
    Nest body = map_body(loop);
    int64_t limit = axis == 2 ? kMaxThreadsZ : kMaxThreads;
    if (!options_.threads.empty())
      limit = std::min<int64_t>(
          limit, axis < static_cast<int>(options_.threads.size()) ? options_.threads[axis] : 1);
    // The block is as large as the largest loop on each axis, whichever loops follow one another.
    int64_t others = 1;
    for (int other = 0; other < 3; ++other)
      if (other != axis) others *= launch_.block[other];
    limit = std::max<int64_t>(1, std::min(limit, kMaxThreads / others));
    int64_t extent = constant_extent(loop.extent, around_);
    const int64_t lanes = std::min(extent, limit);
    launch_.block[axis] = std::max(launch_.block[axis], lanes);
    const std::string lane = loop.name + ".thread";
    launch_.axes[lane] = axis;
    return distribute(loop, lane, lanes, extent, around_, body);
  }

  GpuLaunch& launch_;
  const MappingOptions& options_;
  LoopBounds around_;
  bool in_block_ = false;
};

/// Loops over fewer axes than the block has, because others beside them have more, run on the first
/// threads of the rest.
Stmt limit_threads(const Stmt& stmt, GpuLaunch& launch) {
  return ir::mutate(stmt, [&](const For* op, ir::Mutator& self) -> Stmt {
    if (op->for_type != ForType::GPUThread) return self.inside(op);
    Stmt limited = op;
    for (int axis = launch.axes.at(op->name) + 1; axis < 3; ++axis) {
      if (launch.block[axis] == 1) continue;
      const std::string first = concat(op->name, ".first", axis);
      launch.axes[first] = axis;
      limited = ir::make_for(first, 0, 1, ForType::GPUThread, limited);
    }
    return limited;
  });
}

/// Collects buffers and turns loads of run-time scalars into variables.
Stmt find_arguments(const Stmt& stmt, GpuLaunch& launch, const ir::Program& program) {
  std::set<std::string> scalars, own;  // `own`: buffers of the launch's own
  auto buffer = [&](const std::string& name, Type type) -> GpuBuffer& {
    for (GpuBuffer& known : launch.buffers)
      if (known.name == name) return known;
    return launch.buffers.emplace_back(GpuBuffer{name, type});
  };
  return ir::mutate(
      stmt,
      [&](const Load* op, ir::Mutator& self) -> Expr {
        if (program.scalars.count(op->name) && !program.tensors.count(op->name)) {
          if (scalars.insert(op->name).second) launch.scalars.push_back({op->name, op->type});
          return ir::make_variable(op->name, op->type);
        }
        if (!own.count(op->name)) buffer(op->name, op->type);
        return self.inside(op);
      },
      [&](const Store* op, ir::Mutator& self) {
        if (!own.count(op->name)) buffer(op->name, op->value.type()).written = true;
        return self.inside(op);
      },
      [&](const Allocate* op, ir::Mutator& self) {
        own.insert(op->name);
        return self.inside(op);
      },
      [&](const Evaluate* op, ir::Mutator& self) {
        const Call* call = op->value.as<Call>();
        const Load* place = call ? atomic_place(call) : nullptr;
        if (place) buffer(place->name, place->type).written = true;
        return self.inside(op);
      },
      [&](const Call* op, ir::Mutator& self) {
        launch.checks_indices = launch.checks_indices || ir::find_checked_index(op);
        return self.inside(op);
      });
}

/// What passes over a launch know beside its body.
struct LaunchContext {
  GpuLaunch& launch;
  const ir::Program& program;
  const MappingOptions& options;
};

using C = LaunchContext;

const PassList<Nest, LaunchContext> kLaunchNestPasses(
    "launch_nest", nest::same, nest::to_string,
    {
        {"collapse_blocks", "first: a grid has one axis, whose size the options bound",
         [](Nest& n, C&) { n = nest::collapse_loops(n, Role::Block); }},
        {"map_loops", "needs one loop over blocks; gives blocks and threads their names",
         [](Nest& n, C& c) { n = MapLoops(c.launch, c.options).map(n); }},
    });

const PassList<Stmt, LaunchContext> kLaunchPasses(
    "launch", ir::same, ir::to_string,
    {
        {"forget_parameters",
         "in front of simplify, which takes loads with parameters for those of constants",
         [](Stmt& s, C&) { s = forget_parameters(s); }},
        {"hide_nested_truncations",
         "in front of simplify, which walks through them four times for each they are in",
         [](Stmt& s, C&) { s = hide_nested_truncations(s); }},
        {"lower_narrow_steps", "in front of simplify: arithmetic on bits instead of a function",
         [](Stmt& s, C&) { s = lower_narrow_steps(s); }},
        {"make_floats_strict", "in front of simplify, which takes floats for finite numbers",
         [](Stmt& s, C&) { s = make_floats_strict(s); }},
        {"simplify", "the text is read by people, and NVRTC takes as long as it is",
         [](Stmt& s, C&) { s = simplify(s); }},
        {"make_floats_plain", "behind simplify: CUDA's arithmetic is strict",
         [](Stmt& s, C&) { s = make_floats_plain(s); }},
        {"show_nested_truncations", "behind simplify",
         [](Stmt& s, C&) { s = show_nested_truncations(s); }},
        {"find_arguments", "last: the buffers that are still used",
         [](Stmt& s, C& c) { s = find_arguments(s, c.launch, c.program); }},
    });

}  // namespace

GpuLaunch make_launch(const std::string& name, const Nest& nest, const ir::Program& program,
                      const MappingOptions& options) {
  GpuLaunch launch;
  launch.name = name;
  LaunchContext context{launch, program, options};
  // Not among the passes: no Plan proposes these yet, whoever puts nests together by hand may.
  Nest mapped = reduce_over_threads(share_copies(nest));
  kLaunchNestPasses.run(mapped, context);
  launch.body = lower(mapped);
  kLaunchPasses.run(launch.body, context);
  // Not among the passes: schedules make no such loops, whoever puts statements together by hand
  // may. Behind them, since Halide's simplifier would take the loops that this adds away.
  launch.body = limit_threads(launch.body, launch);
  return launch;
}

std::string describe_launches(const GpuProgram& program) {
  const auto sizes = [](const int64_t* axes) {
    return concat("[", axes[0], ", ", axes[1], ", ", axes[2], "]");
  };
  std::vector<std::string> launches, temporaries;
  for (const GpuLaunch& launch : program.launches) {
    std::vector<std::string> arguments;
    auto add = [&](const std::string& name) { arguments.push_back("\"" + name + "\""); };
    for (const GpuBuffer& buffer : launch.buffers) add(buffer.name);
    for (const GpuScalar& scalar : launch.scalars) add(scalar.name);
    if (launch.checks_indices) add(".report"), add(".kernel");
    launches.push_back(concat(
        "{\"symbol\": \"", kernel_symbol(launch.name), "\", \"grid\": ", sizes(launch.grid),
        ", \"block\": ", sizes(launch.block), ", \"shared_bytes\": ", dynamic_shared_bytes(launch),
        ", \"arguments\": [", join(arguments), "]}"));
  }
  for (const GpuBuffer& temporary : program.temporaries)
    temporaries.push_back(concat("{\"name\": \"", temporary.name, "\", \"elements\": ",
                                 temporary.elements, ", \"bytes\": ", temporary.type.bytes(), "}"));
  return concat("{\"launches\": [", join(launches), "], \"temporaries\": [", join(temporaries),
                "]}");
}

}  // namespace tc::codegen
