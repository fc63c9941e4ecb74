#include "plan/forms/register_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numbers.h"
#include "ir/operations.h"
#include "machine/limits.h"
#include "plan/forms/block_steps.h"
#include "plan/forms/block_tiles.h"
#include "plan/model/estimate.h"

namespace tc::plan {
namespace {

// Cycles to begin a run of results that are transposed on their way to memory: long runs touch
// fewer lines (measured: 13 x 32 beside 6 x 64 is 1.2 times faster where rows lie along memory).
constexpr double kRun = 4;
// Of the registers, the share that factors of few terms may have, one each.
constexpr int kFewTerms = 3;
// Vectors of a block of one row, which reads more memory in one piece than others.
constexpr int64_t kMostVectorsAlone = 12;
// Of two blocks that take the same time by the model, where operands lie, the one with so much
// fewer loads (measured: 12 x 81 x 64 x 81 with 9 x 48 instead of 6 x 64 1.1 times faster, 43 x 768
// x 2304 with 9 x 48 instead of 5 x 64 1.05 times).
constexpr double kEqual = 1.005, kLighter = 0.95;
// Operations of a block's step, which is unrolled (measured: a position among halfs took LLVM 2.6 s
// with 27 results in a block, 0.6 s within this limit).
constexpr int64_t kMostOperations = 480;
// The same for what follows a sum, once for every point of a block (measured: 24 points with three
// powers and two divisions compile for 7 s).
constexpr int64_t kMostLater = 1600;

// Rows of a block; where a vector holds all columns and has lanes to spare, as many as there are
// registers (measured with a Zen 4: 32 x 32 images of 8 x 26 x 26 results take 8.1 ms with 26
// columns by a vector of filters, 8.0 with 13, 9.3 with two vectors of columns, which the model
// prefers to 13).
constexpr int64_t kMostRows = 14, kMostNarrowRows = 28;

// Other blocks that the estimate is asked about: so many, which take at most so much longer.
constexpr double kNearlyBest = 1.15;
constexpr size_t kMostOthers = 6;

class Chooser {
 public:
  Chooser(const ClusterContext& in, const std::vector<Member>& members, const BlockLimits& limits)
      : in_(in),
        machine_(in.machine),
        members_(members),
        limits_(limits),
        operands_(in, members),
        statements_(in, operands_),
        most_lanes_(statements_.most_lanes()),
        result_registers_(statements_.registers_of_results()) {
    for (const Update& update : operands_.updates()) {
      const ir::Statement& source = *update.statement->source;
      (source.reduction == ir::Reduction::None ? later_ : operations_) +=
          ir::count_instructions(source.value);
    }
  }

  std::vector<RegisterBlock> choose() {
    for (size_t v = members_.size(); v-- > 0;) {
      if (limits_.points_of_task(&members_[v]) == 1 && v + 1 < members_.size()) continue;
      if (limits_.vector >= 0 && limits_.vector != members_[v].position) continue;
      try_vector(v);
    }
    if (best_.block.members.empty()) return {};
    std::vector<RegisterBlock> chosen = {best_.block};
    std::stable_sort(others_.begin(), others_.end(),
                     [](const auto& a, const auto& b) { return a.cycles < b.cycles; });
    for (RegisterBlock& other : others_) {
      if (other.cycles > kNearlyBest * best_.block.cycles || chosen.size() > kMostOthers) break;
      if (!have_same_shape(other, best_.block)) chosen.push_back(std::move(other));
    }
    for (RegisterBlock& block : chosen) {
      block.vectors = vectors_;
      arrange_tiles(operands_, machine_, block);
    }
    return chosen;
  }

 private:
  static bool have_same_shape(const RegisterBlock& a, const RegisterBlock& b) {
    return a.points == b.points &&
           std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                      [](const Member& x, const Member& y) { return x.position == y.position; });
  }

  struct Best {
    RegisterBlock block = {};
    double loads = 0;  ///< see Effort
    BlockMembers dimensions = {};
    BlockShape shape = {};
  };

  /// All choices of rows for this vector.
  void try_vector(size_t v) {
    const Member* vector = &members_[v];
    if (members_.size() == 1) return try_rows({vector, nullptr, nullptr});
    for (size_t first = members_.size(); first-- > 0;) {
      if (first == v) continue;
      try_rows({vector, &members_[first], nullptr});
      for (size_t second = members_.size(); second-- > 0;)
        if (second != v && second != first && members_[second].extent > 1 &&
            members_[first].extent < 8)
          try_rows({vector, &members_[first], &members_[second]});
    }
  }

  void try_rows(const BlockMembers& dimensions) {
    const auto [vector, row, outer_row] = dimensions;
    const int lanes = lanes_of_block(vector->extent, most_lanes_);
    BlockSteps described = statements_.describe(dimensions, lanes);
    const std::vector<Step>& steps = described.steps;
    std::vector<PackedRead>& packed = described.packed;

    const BlockShape extents = {vector->extent, row ? row->extent : 1,
                                outer_row ? outer_row->extent : 1};
    double rest = static_cast<double>(outer_iterations(in_.cluster));
    for (const Member& member : members_)
      if (std::count(dimensions.begin(), dimensions.end(), &member) == 0)
        rest *= static_cast<double>(member.extent);
    const BlockShape limit = {limits_.points_of_task(vector), limits_.points_of_task(row),
                              limits_.points_of_task(outer_row)};
    int64_t all_vectors = divide_up(limit[0], lanes);
    const int64_t most_rows = lanes < most_lanes_ ? kMostNarrowRows : kMostRows;
    const bool waits = row && waits_for_data(*vector, *row);
    const bool streams = row && packed.empty() && has_few_terms(steps) && walks_rows(steps);
    const bool windows = streams && has_windows(steps);
    for (int64_t vectors = std::min(kMostVectorsAlone, all_vectors); vectors >= 1; --vectors) {
      Best alike;
      int64_t width = std::min(limit[0], vectors * lanes);
      int64_t most = std::min(limit[1], waits ? count_rows_of_latency(vectors) : most_rows);
      for (int64_t rows = most; rows >= 1; --rows) {
        for (int64_t outer = std::min<int64_t>(limit[2], 7); outer >= (outer_row ? 2 : 1);
             --outer) {
          // Loads serve several rows from registers. One register broadcasts, one is left to the
          // compiler.
          bool alone = rows * outer == 1;
          const BlockShape block = {vectors, rows, outer}, size = {width, rows, outer};
          // A tail of 13 lanes is two vectors of 8, which one of 16 has no registers for.
          const int64_t most_vectors =
              std::max(vectors, count_vectors(vector->extent % width, lanes));
          const int64_t registers = rows * outer * most_vectors * result_registers_ +
                                    (alone ? 0 : count_held(steps, block)) + 2;
          if (!limits_.fill_tasks(dimensions, size)) continue;
          if (registers > machine_.vector_registers ||
              (!alone && !streams && vectors > kMostVectors) ||
              (windows && !keeps_windows(steps, block)))
            continue;
          bool smallest = alone && vectors == 1;
          const int64_t vectors_of_block = rows * outer * vectors;
          if (!smallest && (vectors_of_block * operations_ > kMostOperations ||
                            vectors_of_block * later_ > kMostLater))
            continue;
          for (PackedRead& read : packed) read.width = width_of(read, dimensions, size);
          double tiles = count_reduction_tiles(packed);
          double moved = described.moves + (tiles - 1) * described.reloads;
          for (size_t d = 1; d < 3; ++d)
            if (size[d] == extents[d]) moved -= described.interleaved[d];
          std::vector<int64_t> points(members_.size(), 1);
          for (size_t d = 0; d < 3; ++d)
            if (dimensions[d]) points[dimensions[d]->position] = size[d];
          double copied = 0;
          for (const CopyCost& copy : described.copies) {
            const double cycles = copy.cycles(points);
            copied += cycles;
            if (copy.counts) moved += cycles;
          }
          moved += kRun * described.runs / static_cast<double>(rows);
          Effort effort = tiles_effort(steps, extents, size, lanes);
          double cycles = rest * effort.cycles + moved;
          double& fewest = vectors_.emplace(vector->position, cycles).first->second;
          fewest = std::min(fewest, cycles);
          const auto take = [&](Best& best) {
            const bool lighter = !outer_row && packed.empty() && best.block.packed.empty() &&
                                 cycles <= best.block.cycles * kEqual &&
                                 (!streams || vectors >= best.shape[0]) &&
                                 rest * effort.loads < best.loads * kLighter;
            const bool first = best.block.members.empty();
            // As many blocks of rows, without a smaller one at the end.
            const bool evener = dimensions == best.dimensions && vectors == best.shape[0] &&
                                outer == best.shape[2] && cycles <= best.block.cycles &&
                                extents[1] % rows == 0 &&
                                divide_up(extents[1], best.shape[1]) == extents[1] / rows;
            if (!first && !lighter && !evener && cycles >= best.block.cycles * 0.99) return;
            best.dimensions = dimensions;
            best.shape = block;
            best.loads = rest * effort.loads;
            best.block = RegisterBlock{};
            set_members(best.block, members_, dimensions, size);
            best.block.packed = packed;
            best.block.cycles = cycles;
            best.block.lanes = lanes;
            best.block.copies = copied;
            best.block.moves = moved;
            if (tiles > 1) best.block.reduction_tile = cut_reduction(packed);
          };
          take(best_);
          take(alike);
        }
      }
      if (!alike.block.members.empty()) others_.push_back(std::move(alike.block));
    }
  }

  /// Whether all that is read along the vector is read anew for every row: long pieces of few rows
  /// are then how memory gives them best (measured: sums of 3 x 3 of images of 112 x 112, in blocks
  /// of 2 rows of 112 in 1.96 ms, of 14 rows of 16 in 5.6).
  static bool walks_rows(const std::vector<Step>& steps) {
    bool walks = false;
    for (const Step& step : steps)
      for (const Load& load : step.loads) {
        if (load.moves[0] && !load.moves[1]) return false;
        walks = walks || load.moves[0];
      }
    return walks;
  }

  static double count_terms(const std::vector<Step>& steps) {
    double terms = 1;
    for (const Step& step : steps) terms = std::max(terms, step.repeats);
    return terms;
  }

  /// As pooling and filters of 3 x 3 have.
  bool has_few_terms(const std::vector<Step>& steps) const {
    return count_terms(steps) * kFewTerms <= machine_.vector_registers;
  }

  /// Whether neighbours are added up, of what such blocks walk along.
  static bool has_windows(const std::vector<Step>& steps) {
    return count_terms(steps) > 1 && std::all_of(steps.begin(), steps.end(), [](const Step& step) {
             return std::all_of(step.loads.begin(), step.loads.end(),
                                [](const Load& load) { return !load.moves[0] || load.cost <= 1; });
           });
  }

  /// Whether no term of a block is a loop, and registers hold the results, a factor of every term,
  /// and what the windows of several rows have in common: it is loaded once then, instead of once
  /// for each (measured: 3 x 3 of 28 x 28, in blocks of 4 rows in 36 us, of 7 in 70, of 14 in 55).
  bool keeps_windows(const std::vector<Step>& steps, const BlockShape& block) const {
    const double terms = count_terms(steps);
    const int64_t rows = block[1] * block[2];
    const auto results = static_cast<double>(block[0] * rows * result_registers_);
    double held = results;
    for (const Step& step : steps)
      for (const Load& load : step.loads)
        if (!load.moves[0]) held = results + terms;
    if (rows > 2) held += static_cast<double>(block[0] * rows);
    return results * terms <= machine::kUnrolledOperations && held <= machine_.vector_registers;
  }

  /// Whether every row has vectors of its own, some of them at places that are data, in a tensor
  /// that no cache of a core keeps. Rows then share nothing but the memory that they wait for, and
  /// gain nothing from each other once they cover the latency of the arithmetic (measured: rows of
  /// 256 bytes from tables of 256 MB 1.02 to 1.03 times faster by ones than by sixes).
  bool waits_for_data(const Member& vector, const Member& row) const {
    bool waits = false;
    for (const Update& update : operands_.updates()) {
      for (const Operand& operand : update.operands) {
        if (operand.access.write || operand.strides[vector.position] == 0) continue;
        if (operand.strides[row.position] == 0) return false;
        waits = waits ||
                (is_gather(operand.access, in_.program) &&
                 operands_.whole_bytes(operand) > static_cast<double>(2 * machine_.cache_bytes));
      }
    }
    return waits;
  }
  /// Rows of so many streamed vectors whose step takes as long as a multiply-add.
  int64_t count_rows_of_latency(int64_t vectors) const {
    double row = static_cast<double>(vectors) * 100 / machine_.second_cache_percent;
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(machine_.multiply_latency / row)));
  }

  /// Registers for vectors of operands: those that serve several rows wait for all of them, and
  /// LLVM orders a step's multiply-adds as it likes.
  static int64_t count_held(const std::vector<Step>& steps, const BlockShape& block) {
    int64_t most = block[0];
    for (const Step& step : steps) {
      for (const Load& load : step.loads) {
        if (!load.moves[0]) continue;
        int64_t loaded = block[0], served = 1;
        for (size_t d = 1; d < 3; ++d) (load.moves[d] ? loaded : served) *= block[d];
        if (served > 1) most = std::max(most, loaded);
      }
    }
    return most;
  }

  static int64_t count_vectors(int64_t points, int lanes) {
    return points > 0 ? divide_up(points, lanes_of_block(points, lanes)) : 0;
  }

  /// Over all tiles of the three dimensions, the smaller ones at the ends included.
  Effort tiles_effort(const std::vector<Step>& steps, const BlockShape& extents,
                      const BlockShape& tile, int lanes) const {
    Effort total;
    const double terms = count_terms(steps);
    const auto row_blocks = static_cast<double>(divide_up(extents[1], tile[1]));
    for (int tails = 0; tails < 8; ++tails) {
      double count = 1;
      BlockShape block;
      std::vector<int64_t> points(3);
      for (size_t d = 0; d < 3; ++d) {
        bool tail = tails >> d & 1;
        int64_t size = tail ? extents[d] % tile[d] : tile[d];
        count *= static_cast<double>(tail ? size > 0 : extents[d] / tile[d]);
        block[d] = d == 0 ? divide_up(size, lanes) : size;
        points[d] = size;
      }
      if (count == 0) continue;
      for (const Step& step : steps) {
        const Effort each = step.effort(block, points, row_blocks, machine_);
        total.cycles += count * each.cycles;
        total.loads += count * each.loads;
      }
      if (!has_few_terms(steps)) continue;
      // To begin and end a block shows where it is short.
      const auto results = static_cast<double>(block[0] * block[1] * block[2] * result_registers_);
      total.cycles += count * cycles_of_block(results * terms, machine_);
    }
    return total;
  }

  /// How many tiles the reduction must be cut into so that its copies fit in the cache.
  double count_reduction_tiles(const std::vector<PackedRead>& packed) const {
    double most = 1;
    for (const PackedRead& read : packed)
      most = std::max(most, std::ceil(read.depth * static_cast<double>(read.width) /
                                      operands_.most_elements(read.read)));
    return most;
  }

  /// Iterations of every reduction loop in a tile: whole inner loops, a part of the next one,
  /// the same in all tiles (measured: 512 x 9 terms in two halves 1.04 times faster than in 8
  /// ninths and the rest). Nothing when several statements reduce, whose loops would have to agree.
  std::vector<int64_t> cut_reduction(const std::vector<PackedRead>& packed) const {
    std::vector<int64_t> tile;
    const ScopStatement& statement = *packed[0].statement;
    for (const Update& update : operands_.updates()) {
      bool reduces = update.statement->dimensions > update.iterators.size();
      if (reduces && update.statement != &statement) return {};
    }
    double room = std::numeric_limits<double>::infinity();
    for (const PackedRead& read : packed)
      room = std::min(room, operands_.most_elements(read.read) / static_cast<double>(read.width));
    const std::vector<ir::Iterator>& domain = statement.source->domain;
    for (size_t i = domain.size(); i-- > 0;) {
      if (!domain[i].reduction) continue;
      bool moves = std::any_of(packed.begin(), packed.end(), [&](const PackedRead& read) {
        return stride_along(read.read, in_.layouts.at(read.read.tensor), domain[i].name) != 0;
      });
      int64_t size = extent_of(domain[i]);
      if (moves && room < static_cast<double>(size)) {
        const auto most = std::max<int64_t>(1, static_cast<int64_t>(room));
        const int64_t count = divide_up(size, most);
        // Whole vectors, which copies are transposed in.
        const int64_t even = divide_up(size, count), whole = round_up(even, most_lanes_);
        size = whole <= most ? whole : even;
      }
      if (moves) room /= static_cast<double>(size);
      tile.insert(tile.begin(), size);
    }
    return tile;
  }

  const ClusterContext in_;
  const CpuMachine& machine_;
  const std::vector<Member>& members_;
  const BlockLimits& limits_;
  const Operands operands_;
  const BlockStatements statements_;
  const int most_lanes_;
  const int result_registers_;  ///< of a vector of results
  int64_t operations_ = 0;      ///< of all sums at one point
  int64_t later_ = 0;           ///< of what is computed of them, at one point
  Best best_;
  std::vector<RegisterBlock> others_;  ///< the best of all members with each number of vectors
  std::map<int, double> vectors_;
};

}  // namespace

int64_t BlockLimits::points_of_task(const Member* member) const {
  if (!member) return 1;
  const auto position = static_cast<size_t>(member->position);
  const int64_t task = position < tasks.size() ? tasks[position] : 0;
  return task > 0 ? std::min(task, member->extent) : member->extent;
}

bool BlockLimits::fill_tasks(const BlockMembers& dimensions, const BlockShape& points) const {
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const int64_t task = points_of_task(dimensions[d]);
    if (dimensions[d] && task != dimensions[d]->extent && task % points[d] != 0) return false;
  }
  return true;
}

void set_members(RegisterBlock& block, const std::vector<Member>& band,
                 const BlockMembers& dimensions, const BlockShape& points) {
  auto add = [&](const Member& member, int64_t size) {
    block.members.push_back(member);
    block.points.push_back(size);
  };
  for (const Member& member : band)
    if (std::count(dimensions.begin(), dimensions.end(), &member) == 0) add(member, 1);
  for (size_t d = dimensions.size(); d-- > 0;)
    if (dimensions[d]) add(*dimensions[d], points[d]);
}

int64_t width_of(const PackedRead& read, const BlockMembers& dimensions, const BlockShape& points) {
  int64_t width = 1;
  for (size_t d = 0; d < dimensions.size(); ++d)
    if (dimensions[d] &&
        std::count(read.members.begin(), read.members.end(), dimensions[d]->position) > 0)
      width *= points[d];
  return width;
}

std::vector<RegisterBlock> choose_blocks(const ClusterContext& in,
                                         const std::vector<Member>& members,
                                         const BlockLimits& limits) {
  return Chooser(in, members, limits).choose();
}

}  // namespace tc::plan
