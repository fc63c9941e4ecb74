// Where loops lead an access: the footprint of their iterations as a start, a width and walks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/numbers.h"
#include "nest/nest.h"

namespace tc::codegen {

/// A loop around a node, or a name that is computed from one.
struct AroundLoop {
  std::string name;
  ir::Expr min, extent;  ///< undefined for a name
  bool serial = false;
  bool vector = false;
};

/// What is around a node that a pass visits.
class Around {
 public:
  /// Loops and names, outermost first.
  const std::vector<AroundLoop>& loops() const { return loops_; }
  /// What a value of their iterators and names can be; nothing where no bound is known.
  std::optional<int64_t> least(const ir::Expr& value) const;
  std::optional<int64_t> most(const ir::Expr& value) const;

  /// Whether the node belongs to a register tile.
  bool in_tile = false;
  /// Whether it works on a slice of a temporary, which the stack holds.
  bool in_slice = false;
  /// That the loops around make before the node.
  std::vector<const nest::Copy*> copies;
  /// The outermost loop; null where there is none.
  nest::Nest outermost;

  void enter(const nest::Loop& loop);
  void enter(const nest::Binding& binding);
  void leave();

 private:
  void enter(AroundLoop loop, const ir::Expr& first, const ir::Expr& last);

  std::vector<AroundLoop> loops_;
  Halide::Internal::Scope<Halide::Internal::Interval> bounds_;
};

/// What `change` makes of a loop; the loop is the last one that is around.
using ChangeLoop = std::function<nest::Nest(const nest::Nest& loop, const Around& around)>;

/// The nest with every serial loop changed that has no other serial loop inside. Copies are left
/// alone, and count as such loops.
nest::Nest change_innermost_loops(const nest::Nest& nest, const ChangeLoop& change);

/// A load, and the loops around it, outermost first, of the nest that was searched.
struct Read {
  ir::Type type;
  std::string buffer;
  ir::Expr index;
  std::vector<AroundLoop> inside;
};

/// The loads in a nest at places that are known before it, so that neither data nor names of its
/// own say where, in order of execution; reductions read their results. Lowered parts are left out.
std::vector<Read> find_reads(const nest::Nest& nest);
/// The loads in a nest that happen whenever it runs, at places that data says, and not what names
/// or buffers of its own hold.
std::vector<Read> find_gathers(const nest::Nest& nest);
/// Whether a nest has other loops in it than those that become vectors or are unrolled.
bool has_loops(const nest::Nest& nest);

/// How often a loop leads a place on, and by how many elements each time.
struct Walk {
  int64_t extent, step;
};

/// Elements of a buffer: runs side by side, which loops lead over.
struct Footprint {
  explicit Footprint(const Read& read) : type(read.type), buffer(read.buffer), start(read.index) {}

  ir::Type type;
  std::string buffer;
  ir::Expr start;           ///< of the first run
  int64_t width = 1;        ///< of a run
  std::vector<Walk> walks;  ///< innermost first

  /// By how much a loop moves the start; nothing where that varies.
  std::optional<int64_t> step(const std::string& loop) const;
  /// The same with how often; nothing where the loop leads backwards as well, or has an unknown
  /// number of iterations. With what is around it, that is what they are at most.
  std::optional<Walk> along(const AroundLoop& loop, const Around* around = nullptr) const;

  /// Goes on to one run over all that the loop leads to, gaps included.
  void widen(const AroundLoop& loop, const Walk& walk);
  /// Goes on to the runs of all iterations of the loop.
  void repeat(const AroundLoop& loop, const Walk& walk);
  /// Makes one of runs with fewer elements between them than so many, the innermost walk being the
  /// shortest from now on.
  void join_runs(int64_t gap);

  int64_t bytes() const { return width * type.bytes(); }
  /// That a run takes which begins with one.
  int64_t lines() const { return divide_up(bytes(), kLineBytes); }
  /// Elements of a line.
  int64_t line() const { return std::max<int64_t>(1, kLineBytes / type.bytes()); }
  int64_t runs() const;
  /// From the first element to behind the last.
  int64_t span() const;

  /// A prefetch of the line of an element of the buffer. What lies behind a buffer may have a place
  /// that 32 bits do not hold.
  nest::Nest prefetch(const ir::Expr& place, int cache = 1) const {
    return nest::make(nest::Prefetch{buffer, type, place, cache});
  }
};

/// A place, or a distance, as the index of a prefetch.
inline ir::Expr wide(const ir::Expr& place) { return Halide::cast(Halide::Int(64), place); }
inline ir::Expr wide(int64_t distance) {
  return Halide::Internal::make_const(Halide::Int(64), distance);
}

}  // namespace tc::codegen
