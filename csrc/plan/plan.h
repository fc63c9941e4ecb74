// A Plan: every decision about the loops of a cluster of statements, as plain data. propose makes
// one, apply makes a schedule tree of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "poly/copy_layout.h"

namespace tc::plan {

/// Points that tiles have along a loop.
struct Tile {
  std::string index;  ///< of the loop
  int64_t size = 1;
};

/// The one along a loop; null where there is none.
inline const Tile* find_tile(const std::vector<Tile>& tiles, const std::string& index) {
  for (const Tile& tile : tiles)
    if (tile.index == index) return &tile;
  return nullptr;
}

/// A copy of what a tile reads (memory promotion; Vasilache et al., Tensor Comprehensions, section
/// 5.3), made in front of its points and contiguous in the order of use. Copies of the same
/// elements in the same order, for reads of several statements, are one.
struct CopyPlan {
  std::string statement;   ///< "S0": whose read it serves
  std::string read;        ///< "B(k, n)", see ir::access_text
  poly::CopyLayout order;  ///< of the tensor's dimensions in the copy, slowest first
  /// A statement that does not run: the copy computes its value instead of reading it.
  std::string computes;
  /// A copy that needs more elements is refused.
  int64_t most_elements = INT32_MAX;
};

/// Loops of statements beside those that the cluster shares.
struct NestPlan {
  std::vector<std::string> statements;  ///< that share them, in order: "S0_init", "S0"
  /// Indices of the first of them, outermost first; where another one has its own in another order,
  /// a list for each.
  std::vector<std::vector<std::string>> loops = {{}};
  bool vector = false;  ///< whether the innermost is one
};

/// How the loops over a task's points lie to the nests of the statements.
enum class Points {
  Around,        ///< around all nests, which share them
  VectorInside,  ///< the last of them inside every nest, the others around all
  Inside,        ///< inside every nest: its statements pass over a tile by themselves
  Apart          ///< around every nest by itself
};

/// What a loop over tasks becomes.
enum class Tasks {
  Serial,
  Parallel,
  Blocks  ///< of a CUDA grid; points of the last loops are threads of a block
};
/// Dimensions of a CUDA block.
constexpr size_t kThreadAxes = 3;

/// The loops of one cluster. Shared loops have the names that its last statement gives them.
struct ClusterPlan {
  std::vector<std::string> statements;  ///< "S0_init", "S0"
  /// Loops around it, outermost first, which neighbours may have in common (see chain); whether it
  /// runs inside those of the cluster before.
  std::vector<std::string> outer;
  bool joined = false;
  std::vector<std::string> order;  ///< of the shared loops' points, outermost first
  /// Tiles that are tasks, in the order of their loops; loops that are missing are whole.
  std::vector<Tile> tasks;
  Tasks run_tasks = Tasks::Serial;
  /// Tiles of reductions, in nests that have loops of these names, between which results rest in
  /// memory and copies are made anew. Points are then apart. Loops that are missing are whole.
  std::vector<Tile> reductions;
  /// Tiles inside a task whose points are unrolled innermost, but for the vector; loops that are
  /// missing have one point. Where the vector is shared, results stay in registers meanwhile, and
  /// loops over reductions may be named, which have no points in the result: so many terms are
  /// added to each at a time.
  std::vector<Tile> registers;
  /// Adds up the terms of `registers` (see isa/instructions); empty: code for each of them.
  std::string instruction;
  Points points = Points::Around;
  bool vector = false;          ///< whether the last of `order` is one
  std::vector<NestPlan> nests;  ///< in order; none: every statement's own, as in the text
  std::vector<CopyPlan> copies;
};

/// Whether every nest has points of its own, and copies.
inline bool has_points_apart(const ClusterPlan& plan) {
  return plan.points == Points::Apart || !plan.reductions.empty();
}

}  // namespace tc::plan
