#include "poly/register_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "poly/body_size.h"

namespace tc::poly {
namespace {

using Halide::Internal::as_const_int;

// Cycles to copy an element into the order of use: where some loop walks the source contiguously it
// is transposed in registers, otherwise every element is loaded alone.
constexpr double kTransposedCopy = 0.6, kScatteredCopy = 2;
// The same for results, an element each.
constexpr double kTransposedStore = 0.6, kScatteredStore = 2;
// An element alone, or a run too short to transpose, on another page than the one before: a line of
// memory is fetched again for every part of it.
constexpr double kFarStore = 14;
constexpr int64_t kShortRun = 4, kPageBytes = 4096;
// Steps of a reduction through an operand that lies along the vector, and uses of each element, from
// which on it is copied in the order of use (measured: 512 x 512 x 4096 with steps of 128 KiB to
// 1 MiB in 10.3 ms instead of 13.8 to 22).
constexpr int64_t kLeapBytes = 16 * kPageBytes;
constexpr double kLeapUses = 64;
// Cycles to begin a run of results that are transposed on their way to memory: long runs touch
// fewer lines (measured: 13 x 32 beside 6 x 64 is 1.2 times faster where rows lie along memory).
constexpr double kRun = 4;
// Vectors of a block; a single row reads longer stretches of memory at a time.
constexpr int64_t kMostVectors = 4, kMostVectorsAlone = 12;
// Cycles from a multiply-add to the next one that needs it.
constexpr double kLatency = 4;
constexpr double kStream = 48;
// Cycles to fetch and put back a result between two stretches of a reduction, where results do not
// lie along the vector and have left the cache (measured at rows of 64 KiB).
constexpr double kScatteredReload = 16;
// What the last cache keeps of an operand, in copies' shares of the second one; and the part of the
// time that copies may take which are made anew for every chunk.
constexpr int64_t kFarShares = 8;
constexpr double kChunkCopies = 0.1;
// Loads that every lane, or the scalar that all lanes share, has to be asked for.
constexpr double kMaskedLoad = 2, kConditionalLoad = 8;

// Operations of a block's step, which is unrolled (measured: a position among halfs took LLVM 2.6 s
// with 27 results in a block, 0.6 s within this limit).
constexpr int64_t kMostOperations = 480;

int64_t extent_of(const ir::Iterator& iterator) { return *as_const_int(iterator.extent); }

/// What a read costs in one step of a block: loads, and which dimensions of the block multiply
/// them. Dimension 0 is the vector, 1 and 2 are rows.
struct Load {
  double cost = 1;
  std::array<bool, 3> moves = {false, false, false};
};

/// One statement's step.
struct Step {
  std::vector<Load> loads;
  double repeats = 1;  ///< steps for every result
  double vector_bytes = 64;

  /// Cycles for a block of so many vectors and rows, on a machine that starts two multiply-adds and
  /// two loads a cycle, and gets kStream bytes a cycle of operands that do not fit in its first
  /// cache.
  double cycles(const std::array<int64_t, 3>& block) const {
    double work = 1, loaded = 0, streamed = 0;
    for (int64_t size : block) work *= static_cast<double>(size);
    for (const Load& load : loads) {
      double count = load.cost;
      for (size_t d = 0; d < block.size(); ++d)
        if (load.moves[d]) count *= static_cast<double>(block[d]);
      loaded += count;
      if (load.moves[0]) streamed += count * vector_bytes;
    }
    return std::max({work / 2, loaded / 2, streamed / kStream, kLatency}) * repeats;
  }
};

/// The copies of an operand: one of everything that a block reads, for every block along the
/// members that it moves along.
struct CopyCost {
  struct Dimension {
    int64_t size = 1;            ///< of one point's box
    std::vector<int64_t> steps;  ///< by position of the member
  };
  double element = 0;                 ///< cycles
  std::vector<int64_t> extents;       ///< of the members, by position; 1 where it does not move
  std::vector<Dimension> dimensions;  ///< of the tensor

  /// For blocks of so many points along every member, by position.
  double cycles(const std::vector<int64_t>& points) const {
    double result = element;
    for (size_t m = 0; m < extents.size(); ++m)
      result *= static_cast<double>((extents[m] + points[m] - 1) / points[m]);
    for (const Dimension& dimension : dimensions) {
      int64_t size = dimension.size;
      for (size_t m = 0; m < points.size(); ++m)
        size += dimension.steps[m] * (std::min(points[m], extents[m]) - 1);
      result *= static_cast<double>(size);
    }
    return result;
  }
};

/// The product of the extents of the statement's iterators for which `wanted` holds.
template <class Wanted>
double volume(const ScopStatement& statement, Wanted wanted) {
  double result = 1;
  for (const ir::Iterator& iterator : statement.source->domain)
    if (wanted(iterator)) result *= static_cast<double>(extent_of(iterator));
  return result;
}

/// Whether a copy makes the read contiguous along the iterator: it moves by one element in one
/// dimension of the tensor, which no other result index shares.
std::optional<size_t> packed_dimension(const MemoryAccess& read, const ir::Iterator& vector) {
  std::optional<size_t> found;
  for (size_t d = 0; d < read.subscripts.size(); ++d) {
    auto step = step_along(read.subscripts[d], vector.name);
    if (!step || (*step != 0 && (*step != 1 || found))) return std::nullopt;
    if (*step == 1) found = d;
  }
  return found;
}

/// An access and how far it moves along every member of the band.
struct Access {
  MemoryAccess access;
  std::vector<std::optional<int64_t>> strides;  ///< by position of the member
};

/// A statement that adds terms, in the view of the band.
struct Update {
  const ScopStatement* statement = nullptr;
  std::vector<const ir::Iterator*> iterators;  ///< by position of the member
  std::vector<Access> accesses;
  std::vector<int> outer;  ///< positions of the iterators that are loops around the cluster
};

class Chooser {
 public:
  Chooser(const Cluster& cluster, const std::vector<Member>& members, const ir::Program& program,
          const std::map<std::string, Layout>& layouts, const CpuMachine& machine)
      : cluster_(cluster),
        members_(members),
        program_(program),
        layouts_(layouts),
        machine_(machine) {
    for (size_t s = 0; s < cluster.statements.size(); ++s) {
      const ScopStatement* statement = cluster.statements[s];
      if (statement->initialization) continue;
      Update update{statement, std::vector<const ir::Iterator*>(members.size()), {}, {}};
      if (!cluster.outer.empty()) update.outer = cluster.outer[s];
      for (const Member& member : members)
        update.iterators[member.position] = &iterator_along(cluster, member, s);
      for (const MemoryAccess& access : accesses(program, *statement->source)) {
        update.accesses.push_back({access, {}});
        for (const ir::Iterator* iterator : update.iterators)
          update.accesses.back().strides.push_back(
              stride_along(access, layouts.at(access.tensor), iterator->name));
      }
      updates_.push_back(std::move(update));
      if (statement->source->reduction != ir::Reduction::None)
        operations_ += count_operations(statement->source->value);
    }
  }

  RegisterBlock choose() {
    best_.cycles = std::numeric_limits<double>::infinity();
    for (size_t v = members_.size(); v-- > 0;) {
      if (members_[v].extent == 1 && v + 1 < members_.size()) continue;
      try_vector(v);
    }
    best_.vectors = vectors_;
    if (!best_.packed.empty() && best_.stretch.empty()) choose_chunk();
    return best_;
  }

 private:
  /// All choices of rows for this vector.
  void try_vector(size_t v) {
    std::vector<size_t> others;
    for (size_t m = members_.size(); m-- > 0;)
      if (m != v) others.push_back(m);
    if (others.empty()) return try_rows(v, std::nullopt, std::nullopt);
    for (size_t first : others) {
      try_rows(v, first, std::nullopt);
      for (size_t second : others)
        if (second != first && members_[second].extent > 1 && members_[first].extent < 8)
          try_rows(v, first, second);
    }
  }

  void try_rows(size_t v, std::optional<size_t> row, std::optional<size_t> outer_row) {
    std::array<const Member*, 3> dimensions = {&members_[v], row ? &members_[*row] : nullptr,
                                               outer_row ? &members_[*outer_row] : nullptr};
    int lanes = count_lanes();
    while (lanes > dimensions[0]->extent) lanes /= 2;
    std::vector<PackedRead> packed;
    std::vector<CopyCost> copies;
    double moves = 0, reloads = 0;
    std::vector<Step> steps = describe(dimensions, lanes, packed, copies, moves, reloads);

    const double runs = row ? count_run_results(members_[v], members_[*row]) : 0;
    std::array<int64_t, 3> extents = {dimensions[0]->extent, row ? dimensions[1]->extent : 1,
                                      outer_row ? dimensions[2]->extent : 1};
    double rest = static_cast<double>(outer_iterations(cluster_));
    for (size_t m = 0; m < members_.size(); ++m)
      if (m != v && (!row || m != *row) && (!outer_row || m != *outer_row))
        rest *= static_cast<double>(members_[m].extent);
    int64_t all_vectors = (extents[0] + lanes - 1) / lanes;
    const bool waits = row && waits_for_data(members_[v], members_[*row]);
    for (int64_t vectors = std::min(kMostVectorsAlone, all_vectors); vectors >= 1; --vectors) {
      int64_t width = std::min(extents[0], vectors * lanes);
      int64_t most = std::min(extents[1], waits ? count_rows_of_latency(vectors) : 14);
      for (int64_t rows = most; rows >= 1; --rows) {
        for (int64_t outer = std::min<int64_t>(extents[2], 7); outer >= (outer_row ? 2 : 1);
             --outer) {
          // Loads serve several rows from registers. One register broadcasts, one is left to the
          // compiler.
          bool alone = rows * outer == 1;
          std::array<int64_t, 3> block = {vectors, rows, outer};
          int64_t registers = rows * outer * vectors + (alone ? 0 : count_held(steps, block)) + 2;
          if (registers > machine_.vector_registers || (!alone && vectors > kMostVectors)) continue;
          bool smallest = alone && vectors == 1;
          if (!smallest && rows * outer * vectors * operations_ > kMostOperations) continue;
          for (PackedRead& read : packed) {
            auto moves = [&](std::optional<size_t> m) {
              return m && std::count(read.members.begin(), read.members.end(),
                                     members_[*m].position) > 0;
            };
            read.width = width * (moves(row) ? rows : 1) * (moves(outer_row) ? outer : 1);
          }
          double stretches = count_stretches(packed);
          double moved = moves + (stretches - 1) * reloads;
          std::vector<int64_t> points(members_.size(), 1);
          points[members_[v].position] = width;
          if (row) points[members_[*row].position] = rows;
          if (outer_row) points[members_[*outer_row].position] = outer;
          double copied = 0;
          for (const CopyCost& copy : copies) copied += copy.cycles(points);
          moved += copied + kRun * runs / static_cast<double>(rows);
          double cycles = rest * tiles_cycles(steps, extents, {width, rows, outer}, lanes) + moved;
          double& fewest = vectors_.emplace(members_[v].position, cycles).first->second;
          fewest = std::min(fewest, cycles);
          if (cycles >= best_.cycles * 0.99) continue;
          take(v, row, outer_row, {width, rows, outer}, packed, cycles);
          best_.lanes = lanes;
          best_.copies = copied;
          best_.moves = moved;
          if (stretches > 1) best_.stretch = cut_reduction(packed);
        }
      }
    }
  }

  /// The outermost member that no copy moves along and that walks through more of an operand than
  /// the last cache keeps, if tiles of other members read that again.
  void choose_chunk() {
    for (size_t m = 0; m < best_.members.size() && best_.chunked < 0; ++m) {
      const Member& member = best_.members[m];
      if (std::any_of(best_.packed.begin(), best_.packed.end(), [&](const PackedRead& read) {
            return std::count(read.members.begin(), read.members.end(), member.position) > 0;
          }))
        continue;
      double bytes = 0;
      for (const Update& update : updates_)
        for (const Access& access : update.accesses)
          if (!access.access.write && access.strides[member.position] != 0 && is_read_again(access))
            bytes = std::max(bytes, whole_bytes(access.access));
      double most = static_cast<double>(kFarShares * machine_.cache_bytes);
      double chunks = std::ceil(bytes / most);
      if (chunks < 2 || chunks * best_.copies > kChunkCopies * best_.cycles) continue;
      auto points = static_cast<int64_t>(static_cast<double>(member.extent) / chunks);
      if (points < best_.points[m]) continue;
      best_.chunked = static_cast<int>(m);
      best_.chunk = points / best_.points[m] * best_.points[m];
    }
  }

  /// Whether several tiles of some member read the same elements.
  bool is_read_again(const Access& access) const {
    for (size_t m = 0; m < best_.members.size(); ++m)
      if (access.strides[best_.members[m].position] == 0 &&
          best_.members[m].extent > best_.points[m])
        return true;
    return false;
  }

  double whole_bytes(const MemoryAccess& access) const {
    double bytes = program_.tensor(access.tensor).type.bytes();
    for (int64_t size : layouts_.at(access.tensor).sizes) bytes *= static_cast<double>(size);
    return bytes;
  }

  /// Whether every row has vectors of its own, some of them at places that are data, in a tensor
  /// that no cache of a core keeps. Rows then share nothing but the memory that they wait for, and
  /// gain nothing from each other once they cover the latency of the arithmetic (measured: rows of
  /// 256 bytes from tables of 256 MB 1.02 to 1.03 times faster by ones than by sixes).
  bool waits_for_data(const Member& vector, const Member& row) const {
    bool waits = false;
    for (const Update& update : updates_) {
      for (const Access& access : update.accesses) {
        if (access.access.write || access.strides[vector.position] == 0) continue;
        if (access.strides[row.position] == 0) return false;
        waits =
            waits || (is_gather(access.access, program_) &&
                      whole_bytes(access.access) > static_cast<double>(2 * machine_.cache_bytes));
      }
    }
    return waits;
  }
  /// Rows of so many streamed vectors whose step takes as long as a multiply-add.
  int64_t count_rows_of_latency(int64_t vectors) const {
    double row = static_cast<double>(vectors * machine_.vector_bits / 8) / kStream;
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(kLatency / row)));
  }

  /// Results that lie along the rows instead of the vector.
  double count_run_results(const Member& vector, const Member& row) const {
    double results = 0;
    for (const Update& update : updates_)
      for (const Access& access : update.accesses)
        if (access.access.write && access.strides[vector.position] != 1 &&
            access.strides[row.position] == 1 && row.extent >= kShortRun)
          results += volume(*update.statement, [](const ir::Iterator& i) { return !i.reduction; });
    return results;
  }

  /// Registers for vectors of operands: those that serve several rows wait for all of them, and
  /// LLVM orders a step's multiply-adds as it likes.
  static int64_t count_held(const std::vector<Step>& steps, const std::array<int64_t, 3>& block) {
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

  /// Over all tiles of the three dimensions, the smaller ones at the ends included.
  static double tiles_cycles(const std::vector<Step>& steps, const std::array<int64_t, 3>& extents,
                             const std::array<int64_t, 3>& tile, int lanes) {
    double total = 0;
    for (int tails = 0; tails < 8; ++tails) {
      double count = 1;
      std::array<int64_t, 3> block;
      for (size_t d = 0; d < 3; ++d) {
        bool tail = tails >> d & 1;
        int64_t size = tail ? extents[d] % tile[d] : tile[d];
        count *= static_cast<double>(tail ? size > 0 : extents[d] / tile[d]);
        block[d] = d == 0 ? (size + lanes - 1) / lanes : size;
      }
      if (count == 0) continue;
      for (const Step& step : steps) total += count * step.cycles(block);
    }
    return total;
  }

  /// Elements of a copy that fit in the cache.
  double most_elements(const MemoryAccess& access) const {
    return static_cast<double>(machine_.cache_bytes / program_.tensor(access.tensor).type.bytes());
  }

  /// How many stretches the reduction must be cut into so that its copies fit in the cache.
  double count_stretches(const std::vector<PackedRead>& packed) const {
    double most = 1;
    for (const PackedRead& read : packed)
      most = std::max(
          most, std::ceil(read.depth * static_cast<double>(read.width) / most_elements(read.read)));
    return most;
  }

  /// Iterations of every reduction loop in a stretch: whole inner loops, a part of the next one.
  /// Nothing when several statements reduce, whose loops would have to agree.
  std::vector<int64_t> cut_reduction(const std::vector<PackedRead>& packed) const {
    std::vector<int64_t> stretch;
    const ScopStatement& statement = *packed[0].statement;
    for (const Update& update : updates_) {
      bool reduces = update.statement->dimensions > update.iterators.size();
      if (reduces && update.statement != &statement) return {};
    }
    double room = std::numeric_limits<double>::infinity();
    for (const PackedRead& read : packed)
      room = std::min(room, most_elements(read.read) / static_cast<double>(read.width));
    const std::vector<ir::Iterator>& domain = statement.source->domain;
    for (size_t i = domain.size(); i-- > 0;) {
      if (!domain[i].reduction) continue;
      bool moves = std::any_of(packed.begin(), packed.end(), [&](const PackedRead& read) {
        return stride_along(read.read, layouts_.at(read.read.tensor), domain[i].name) != 0;
      });
      int64_t size = extent_of(domain[i]);
      if (moves) size = std::clamp<int64_t>(static_cast<int64_t>(room), 1, size);
      if (moves) room /= static_cast<double>(size);
      stretch.insert(stretch.begin(), size);
    }
    return stretch;
  }

  /// The loads of a step of every statement, what copies cost, and the cycles of moving all results
  /// between registers and memory once, and of doing so between two stretches.
  std::vector<Step> describe(const std::array<const Member*, 3>& dimensions, int lanes,
                             std::vector<PackedRead>& packed, std::vector<CopyCost>& copies,
                             double& moves, double& reloads) const {
    std::vector<Step> steps;
    for (const Update& update : updates_) {
      const ScopStatement& statement = *update.statement;
      Step step;
      step.vector_bytes = machine_.vector_bits / 8;
      step.repeats = volume(statement, [](const ir::Iterator& i) { return i.reduction; });
      for (const Access& access : update.accesses) {
        auto stride = [&](size_t d) -> std::optional<int64_t> {
          return dimensions[d] ? access.strides[dimensions[d]->position] : 0;
        };
        if (access.access.write) {
          double results = volume(statement, [](const ir::Iterator& i) { return !i.reduction; });
          bool run = stride(1) == 1 && dimensions[1]->extent >= kShortRun;
          int bytes = program_.tensor(access.access.tensor).type.bytes();
          bool far = std::abs(stride(0).value_or(0)) * bytes >= kPageBytes;
          double store = results * (stride(0) == 1 ? 1.0 / lanes
                                    : run          ? kTransposedStore
                                    : far          ? kFarStore
                                                   : kScatteredStore);
          bool gone = stride(0) != 1 && results > 2 * most_elements(access.access);
          moves += store;
          reloads += gone ? results * kScatteredReload : 2 * store;
          continue;
        }
        Load load;
        for (size_t d = 0; d < 3; ++d) load.moves[d] = stride(d) != 0;
        bool apart = stride(0) != 1;
        if (load.moves[0] && (apart || is_leaping(update, access))) {
          if (auto read = pack(update, access, *dimensions[0])) {
            packed.push_back(*read);
            copies.push_back(cost_of_copies(update, access));
          } else if (apart) {
            load.cost = 2 * lanes;
          }
        }
        if (access.access.conditional) load.cost *= load.moves[0] ? kMaskedLoad : kConditionalLoad;
        step.loads.push_back(load);
      }
      steps.push_back(step);
    }
    return steps;
  }

  /// Whether the steps of the reduction's innermost loop are so far apart that neither prefetches
  /// nor the ways of a cache serve them, and enough rows use a copy.
  bool is_leaping(const Update& update, const Access& access) const {
    const std::vector<ir::Iterator>& domain = update.statement->source->domain;
    const std::string& tensor = access.access.tensor;
    if (domain.empty() || !domain.back().reduction) return false;
    auto step = stride_along(access.access, layouts_.at(tensor), domain.back().name);
    int bytes = program_.tensor(tensor).type.bytes();
    if (!step || std::abs(*step) * bytes < kLeapBytes) return false;
    double uses = volume(*update.statement, [&](const ir::Iterator& i) {
      return !i.reduction && stride_along(access.access, layouts_.at(tensor), i.name) == 0;
    });
    return uses >= kLeapUses;
  }

  std::optional<PackedRead> pack(const Update& update, const Access& access,
                                 const Member& vector) const {
    const MemoryAccess& read = access.access;
    auto dimension = packed_dimension(read, *update.iterators[vector.position]);
    if (!dimension || read.conditional) return std::nullopt;
    for (const ScopStatement* writer : cluster_.statements)
      if (writer->source->tensor == read.tensor) return std::nullopt;
    PackedRead packed;
    packed.statement = update.statement;
    packed.read = read;
    // A dimension's place is that of the fastest loop that walks it.
    const std::vector<ir::Iterator>& domain = update.statement->source->domain;
    std::vector<std::pair<int, size_t>> places;
    for (size_t d = 0; d < read.subscripts.size(); ++d) {
      int place = -1;
      for (size_t i = 0; i < domain.size(); ++i) {
        auto step = step_along(read.subscripts[d], domain[i].name);
        if (!step) return std::nullopt;
        if (*step != 0 && domain[i].reduction) place = static_cast<int>(i);
      }
      if (d == *dimension) place = static_cast<int>(domain.size());
      places.emplace_back(place, d);
    }
    std::sort(places.begin(), places.end());
    for (const auto& [place, d] : places) packed.order.push_back(d);
    for (const Member& member : members_)
      if (access.strides[member.position] != 0) packed.members.push_back(member.position);
    packed.depth = volume(*update.statement, [&](const ir::Iterator& i) {
      return i.reduction && stride_along(read, layouts_.at(read.tensor), i.name) != 0;
    });
    return packed;
  }

  CopyCost cost_of_copies(const Update& update, const Access& access) const {
    const MemoryAccess& read = access.access;
    const Layout& layout = layouts_.at(read.tensor);
    CopyCost cost;
    bool contiguous = false;
    for (const ir::Iterator& iterator : update.statement->source->domain)
      contiguous = contiguous || stride_along(read, layout, iterator.name) == 1;
    cost.element = contiguous ? kTransposedCopy : kScatteredCopy;
    // Copies are made inside the outer loops.
    for (int d : update.outer)
      cost.element *= static_cast<double>(extent_of(update.statement->source->domain[d]));
    for (size_t m = 0; m < update.iterators.size(); ++m) {
      bool moves = access.strides[m] != 0;
      cost.extents.push_back(moves ? extent_of(*update.iterators[m]) : 1);
    }
    for (const ir::Expr& subscript : read.subscripts) {
      CopyCost::Dimension dimension;
      for (const ir::Iterator& i : update.statement->source->domain)
        if (i.reduction)
          dimension.size +=
              std::abs(step_along(subscript, i.name).value_or(0)) * (extent_of(i) - 1);
      for (const ir::Iterator* iterator : update.iterators)
        dimension.steps.push_back(std::abs(step_along(subscript, iterator->name).value_or(0)));
      cost.dimensions.push_back(dimension);
    }
    return cost;
  }

  void take(size_t v, std::optional<size_t> row, std::optional<size_t> outer_row,
            const std::array<int64_t, 3>& tile, const std::vector<PackedRead>& packed,
            double cycles) {
    best_ = RegisterBlock{};
    best_.cycles = cycles;
    best_.packed = packed;
    for (size_t m = 0; m < members_.size(); ++m) {
      if (m == v || (row && m == *row) || (outer_row && m == *outer_row)) continue;
      best_.members.push_back(members_[m]);
      best_.points.push_back(1);
    }
    auto add = [&](std::optional<size_t> m, int64_t points) {
      if (!m) return;
      best_.members.push_back(members_[*m]);
      best_.points.push_back(points);
    };
    add(outer_row, tile[2]);
    add(row, tile[1]);
    add(v, tile[0]);
    best_.tile_order = order_tiles();
  }

  /// As the block's members, but the vector in front of those that a result moves less far along.
  std::vector<int> order_tiles() const {
    std::vector<int> order = positions(best_.members);
    int vector = order.back();
    for (const Access& access : updates_.front().accesses) {
      if (!access.access.write) continue;
      auto stride = [&](int position) { return access.strides[position].value_or(0); };
      order.pop_back();
      auto near = std::stable_partition(order.begin(), order.end(), [&](int position) {
        return stride(position) >= stride(vector);
      });
      order.insert(near, vector);
    }
    // Numbers of the block's members instead of positions in the band.
    for (int& member : order)
      member = static_cast<int>(
          std::find_if(best_.members.begin(), best_.members.end(),
                       [&](const Member& other) { return other.position == member; }) -
          best_.members.begin());
    return order;
  }

  /// Lanes of a vector of the widest result.
  int count_lanes() const {
    int bits = 8;
    for (const ScopStatement* statement : cluster_.statements)
      bits = std::max(bits, program_.tensor(statement->source->tensor).type.bits());
    return std::max(1, machine_.vector_bits / bits);
  }

  const Cluster& cluster_;
  std::vector<Update> updates_;
  const std::vector<Member>& members_;
  const ir::Program& program_;
  const std::map<std::string, Layout>& layouts_;
  const CpuMachine& machine_;
  int64_t operations_ = 0;  ///< of all sums at one point
  RegisterBlock best_;
  std::map<int, double> vectors_;
};

}  // namespace

RegisterBlock choose_block(const Cluster& cluster, const std::vector<Member>& members,
                           const ir::Program& program, const std::map<std::string, Layout>& layouts,
                           const CpuMachine& machine) {
  return Chooser(cluster, members, program, layouts, machine).choose();
}

}  // namespace tc::poly
