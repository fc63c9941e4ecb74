#include "plan/forms/operands.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/numbers.h"
#include "ir/expressions/reads.h"
#include "ir/loops.h"
#include "plan/forms/computed_copies.h"

namespace tc::plan {
namespace {

// Cycles to copy an element into the order of use: where some loop walks the source's lines it is
// permuted in registers, otherwise every element is loaded alone.
constexpr double kNearCopy = 0.6, kScatteredCopy = 2;
// Uses of each element of an operand that lies along the vector, from which on it is copied in the
// order of use: where a reduction steps through it so far (measured: 512 x 512 x 4096 with steps of
// 128 KiB to 1 MiB in 10.3 ms instead of 13.8 to 22), or less far but for so many steps that what a
// block's columns read takes such a share of the cache for copies (measured: products of M x 1000 x
// 5000 1.1 times faster from M = 96 on, 1.7 times at 1000; no slower at half the depth), half of it
// from twice as many uses on.
constexpr int64_t kLeapUses = 64;
constexpr int64_t kLeapBytes = 16 * kPageBytes, kStrideBytes = kPageBytes / 4;
constexpr double kPanelShare = 0.5;
// Cycles a byte of a large temporary that is written in front of a product and read by it
// (measured: exp of 64 MiB in front of 32 x 4096 x 4096: 7 ms on a core of a Zen 4).
constexpr double kPass = 0.4;

/// Whether a copy makes the read contiguous along the iterator: it moves by one element in one
/// dimension of the tensor, which no other result index shares.
std::optional<size_t> packed_dimension(const ir::MemoryAccess& read, const ir::Iterator& vector) {
  std::optional<size_t> found;
  for (size_t d = 0; d < read.subscripts.size(); ++d) {
    auto step = ir::step_along(read.subscripts[d], vector.name);
    if (!step || (*step != 0 && (*step != 1 || found))) return std::nullopt;
    if (*step == 1) found = d;
  }
  return found;
}

/// Nothing where nothing is summed; of one iteration, as over a filter of one pixel, is no loop.
const ir::Iterator* innermost_reduction(const Update& update) {
  const std::vector<ir::Iterator>& domain = update.statement->source->domain;
  auto found = std::find_if(domain.rbegin(), domain.rend(),
                            [](const ir::Iterator& i) { return i.reduction && extent_of(i) > 1; });
  return found == domain.rend() ? nullptr : &*found;
}

}  // namespace

std::optional<poly::CopyLayout> order_of_use(const ir::MemoryAccess& read,
                                             const std::vector<std::string>& loops) {
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t d = 0; d < read.subscripts.size(); ++d) {
    size_t place = 0;
    for (size_t k = 0; k < loops.size(); ++k) {
      const auto step = ir::step_along(read.subscripts[d], loops[k]);
      if (!step) return std::nullopt;
      if (*step != 0) place = k + 1;
    }
    places.emplace_back(place, d);
  }
  if (places.empty()) return std::nullopt;
  std::sort(places.begin(), places.end());
  const auto step = ir::step_along(read.subscripts[places.back().second], loops.back());
  if (!step || std::abs(*step) != 1) return std::nullopt;
  poly::CopyLayout order;
  for (const auto& [place, d] : places) order.push_back(d);
  return order;
}

double Footprint::Dimension::span_of(const std::vector<int64_t>& points) const {
  double result = span;
  for (size_t m = 0; m < points.size(); ++m) {
    if (steps[m] == 0) continue;
    result += steps[m] ? static_cast<double>(std::abs(*steps[m]) * (points[m] - 1)) : whole;
  }
  return result;
}

double Footprint::Dimension::places_of(const std::vector<int64_t>& points) const {
  double result = places;
  for (size_t m = 0; m < points.size(); ++m)
    if (steps[m] != 0) result *= static_cast<double>(points[m]);
  return result;
}

double Footprint::bytes(const std::vector<int64_t>& points) const {
  double result = element;
  for (const Dimension& dimension : dimensions) {
    // Lines along memory come whole, rows that are passed over do not come.
    const double span = dimension.span_of(points);
    result *= std::min(dimension.whole,
                       dimension.stride == 1 ? span : std::min(span, dimension.places_of(points)));
  }
  return result;
}

double Footprint::lines(const std::vector<int64_t>& points) const {
  // Runs of elements that follow each other, from end to end, and what all their places are
  // multiples of.
  double run = 1, runs = 1;
  int64_t alignment = kLineBytes;
  const auto align = [&](double elements) {
    alignment = std::gcd(alignment, static_cast<int64_t>(elements * element));
  };
  for (auto dimension = dimensions.rbegin(); dimension != dimensions.rend(); ++dimension) {
    const double span = std::max(1.0, std::min(dimension->whole, dimension->span_of(points)));
    const double places = std::min(span, dimension->places_of(points));
    if (dimension->stride * element * span / places >= run * element + kLineBytes) {
      runs *= places;
      align(dimension->stride);
      continue;
    }
    run += (span - 1) * dimension->stride;
    for (size_t m = 0; m < points.size(); ++m)
      if (dimension->steps[m] != 0)
        align(dimension->stride * static_cast<double>(dimension->steps[m].value_or(1) * points[m]));
  }
  const auto unit = static_cast<double>(alignment);
  return runs * (1 + (std::ceil(run * element / unit) - 1) * unit / kLineBytes);
}

double Footprint::box(const std::vector<int64_t>& points) const {
  double result = 1;
  for (const Dimension& dimension : dimensions) result *= dimension.span_of(points);
  return result;
}

bool Footprint::moves(int position) const {
  return std::any_of(dimensions.begin(), dimensions.end(),
                     [&](const Dimension& dimension) { return dimension.steps[position] != 0; });
}

void Footprint::sort() {
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
}

double CopyCost::cycles(const std::vector<int64_t>& points) const {
  double result = element;
  std::vector<int64_t> block(points.size());
  for (size_t m = 0; m < extents.size(); ++m) {
    result *= static_cast<double>(divide_up(extents[m], points[m]));
    block[m] = std::min(points[m], extents[m]);
  }
  return result * footprint.box(block);
}

Operands::Operands(const ClusterContext& in, const std::vector<Member>& members)
    : in_(in), members_(members) {
  const Cluster& cluster = in.cluster;
  for (size_t s = 0; s < cluster.statements.size(); ++s) {
    const ScopStatement* statement = cluster.statements[s];
    if (statement->initialization) continue;
    Update update{statement, std::vector<const ir::Iterator*>(members.size()), {}, {}};
    if (!cluster.outer.empty()) update.outer = cluster.outer[s];
    for (const Member& member : members)
      update.iterators[member.position] = &iterator_along(cluster, member, s);
    for (const ir::MemoryAccess& access : accesses(in.program, *statement->source)) {
      const auto same = std::find_if(
          update.operands.begin(), update.operands.end(),
          [&](const Operand& operand) { return same_element(operand.access, access); });
      if (!access.write && same != update.operands.end()) {
        same->access.conditional &= access.conditional;
        continue;
      }
      update.operands.push_back({access, {}});
      for (const ir::Iterator* iterator : update.iterators)
        update.operands.back().strides.push_back(
            stride_along(access, in.layouts.at(access.tensor), iterator->name));
    }
    updates_.push_back(std::move(update));
  }
}

double Operands::whole_bytes(const Operand& operand) const {
  const std::string& tensor = operand.access.tensor;
  return static_cast<double>(dense_bytes(in_.program.tensor(tensor), in_.layouts.at(tensor)));
}

Footprint Operands::footprint(const Update& update, const Operand& operand) const {
  const ir::MemoryAccess& read = operand.access;
  const Layout& layout = in_.layouts.at(read.tensor);
  Footprint result;
  result.element = in_.program.tensor(read.tensor).type.bytes();
  const bool gathers = is_gather(read, in_.program);
  for (size_t d = 0; d < read.subscripts.size(); ++d) {
    Footprint::Dimension dimension;
    dimension.whole = static_cast<double>(layout.sizes[d]);
    dimension.stride = static_cast<double>(std::abs(layout.strides[d]));
    bool moves = false;
    for (const ir::Iterator& iterator : update.statement->source->domain) {
      auto step = ir::step_along(read.subscripts[d], iterator.name);
      moves = moves || step != 0;
      if (!iterator.reduction || step == 0) continue;
      const auto extent = static_cast<double>(extent_of(iterator));
      dimension.places *= extent;
      dimension.span +=
          step ? static_cast<double>(std::abs(*step)) * (extent - 1) : dimension.whole;
    }
    if (gathers && !moves) dimension.span = dimension.places = dimension.whole;
    for (const ir::Iterator* iterator : update.iterators)
      dimension.steps.push_back(ir::step_along(read.subscripts[d], iterator->name));
    result.dimensions.push_back(std::move(dimension));
  }
  result.sort();
  return result;
}

int64_t Operands::near_bytes(const Update& update, const Operand& operand, int64_t lines) const {
  const ir::MemoryAccess& read = operand.access;
  const int64_t element = in_.program.tensor(read.tensor).type.bytes();
  int64_t longest = 0;
  for (const ir::Iterator& iterator : update.statement->source->domain) {
    if (!iterator.reduction || extent_of(iterator) == 1) continue;
    const auto step = stride_along(read, in_.layouts.at(read.tensor), iterator.name);
    if (!step || std::abs(*step) * element > lines * kLineBytes) continue;
    longest = std::max(longest, std::abs(*step) * element * extent_of(iterator));
  }
  return longest;
}

double Operands::steps_of_a_line(const Update& update, const Operand& operand) const {
  const ir::Iterator* innermost = innermost_reduction(update);
  if (!innermost) return 1;
  const ir::MemoryAccess& read = operand.access;
  const auto stride = stride_along(read, in_.layouts.at(read.tensor), innermost->name);
  // Of one element for all of them nothing is known here: it may be in a register.
  if (!stride || *stride == 0) return 1;
  const int64_t step = std::abs(*stride) * in_.program.tensor(read.tensor).type.bytes();
  return static_cast<double>(std::clamp<int64_t>(kLineBytes / step, 1, extent_of(*innermost)));
}

double Operands::most_elements(const ir::MemoryAccess& access) const {
  return static_cast<double>(in_.machine.cache_bytes /
                             in_.program.tensor(access.tensor).type.bytes());
}

std::optional<PackedRead> Operands::begin_copy(const Update& update, const Operand& operand) const {
  const ir::MemoryAccess& read = operand.access;
  if (read.conditional) return std::nullopt;
  for (const ScopStatement* writer : in_.cluster.statements)
    if (writer->source->tensor == read.tensor) return std::nullopt;
  PackedRead packed;
  packed.statement = update.statement;
  packed.read = read;
  for (const Member& member : members_)
    if (operand.strides[member.position] != 0) packed.members.push_back(member.position);
  packed.depth = volume(*update.statement, [&](const ir::Iterator& i) {
    return i.reduction && stride_along(read, in_.layouts.at(read.tensor), i.name) != 0;
  });
  return packed;
}

std::optional<PackedRead> Operands::pack(const Update& update, const Operand& operand,
                                         const Member& vector) const {
  const ir::MemoryAccess& read = operand.access;
  auto dimension = packed_dimension(read, *update.iterators[vector.position]);
  std::optional<PackedRead> packed = dimension ? begin_copy(update, operand) : std::nullopt;
  if (!packed) return std::nullopt;
  // A dimension's place is that of the fastest loop that walks it.
  const std::vector<ir::Iterator>& domain = update.statement->source->domain;
  std::vector<std::pair<int, size_t>> places;
  for (size_t d = 0; d < read.subscripts.size(); ++d) {
    int place = -1;
    for (size_t i = 0; i < domain.size(); ++i) {
      auto step = ir::step_along(read.subscripts[d], domain[i].name);
      if (!step) return std::nullopt;
      if (*step != 0 && domain[i].reduction) place = static_cast<int>(i);
    }
    if (d == *dimension) place = static_cast<int>(domain.size());
    places.emplace_back(place, d);
  }
  std::sort(places.begin(), places.end());
  for (const auto& [place, d] : places) packed->order.push_back(d);
  return packed;
}

CopyCost Operands::cost_of_copies(const Update& update, const Operand& operand,
                                  const Member& along) const {
  const ir::MemoryAccess& read = operand.access;
  const Layout& layout = in_.layouts.at(read.tensor);
  CopyCost cost;
  const int64_t bytes = in_.program.tensor(read.tensor).type.bytes();
  const ir::Iterator* vector = update.iterators[along.position];
  bool near = false;
  // Forwards or backwards, as a gradient walks filters: copies walk their source forwards.
  for (const ir::Iterator& iterator : update.statement->source->domain) {
    const auto stride = stride_along(read, layout, iterator.name);
    // Other loops than the vector only make squares.
    const int64_t most = &iterator == vector ? kLineBytes / bytes - 1 : 1;
    near = near || (stride && *stride != 0 && std::abs(*stride) <= most);
  }
  cost.element = near ? kNearCopy : kScatteredCopy;
  // Copies are made inside the outer loops.
  for (int d : update.outer)
    cost.element *= static_cast<double>(extent_of(update.statement->source->domain[d]));
  for (size_t m = 0; m < update.iterators.size(); ++m)
    cost.extents.push_back(operand.strides[m] != 0 ? extent_of(*update.iterators[m]) : 1);
  cost.footprint = footprint(update, operand);
  return cost;
}

bool Operands::is_leaping(const Update& update, const Operand& operand) const {
  const Layout& layout = in_.layouts.at(operand.access.tensor);
  const ir::Iterator* innermost = innermost_reduction(update);
  if (!innermost) return false;
  auto moves = [&](const ir::Iterator& i) {
    return stride_along(operand.access, layout, i.name) != 0;
  };
  double uses =
      volume(*update.statement, [&](const ir::Iterator& i) { return !i.reduction && !moves(i); });
  if (uses < static_cast<double>(in_.machine.least(kLeapUses))) return false;
  const bool many = uses >= static_cast<double>(in_.machine.least(2 * kLeapUses));
  int64_t step = std::abs(stride_along(operand.access, layout, innermost->name).value_or(0)) *
                 in_.program.tensor(operand.access.tensor).type.bytes();
  double steps =
      volume(*update.statement, [&](const ir::Iterator& i) { return i.reduction && moves(i); });
  double panel = steps * kMostVectors * in_.machine.vector_bits / 8;
  const auto cache = static_cast<double>(in_.machine.cache_bytes);
  if (step >= in_.machine.least(kLeapBytes)) return true;
  if (step < in_.machine.least(kStrideBytes)) return false;
  // A cache's sets are told apart by the low bits of an address: rows a power of two apart share
  // few of them. That many of these do not fit in the second-level cache, though their bytes would
  // (measured there: 64 to 512 x 512 x 1024 1.2 to 1.4 times faster from a copy, and with 2048
  // columns or twice the depth up to twice as fast).
  const auto power = static_cast<double>(step & -step);
  if (steps * power >= 2 * cache) return true;
  // Twice as many uses also pay for rows that do not begin with a line, or begin in the same sets
  // of the first cache (128 x 256 x 900, 1024 and 1500 1.1 to 1.2 times faster, with 64 rows not).
  return panel >= (many ? kPanelShare / 2 : kPanelShare) * cache ||
         (many && (step % kLineBytes != 0 || power >= kPageBytes));
}

double Operands::pass_saved_by_copies(const Operand& operand) const {
  const std::string& tensor = operand.access.tensor;
  const double bytes = whole_bytes(operand);
  if (in_.program.tensor(tensor).role != ir::TensorRole::Temporary ||
      bytes <= 2 * static_cast<double>(in_.machine.cache_bytes))
    return 0;
  int readers = 0, writers = 0;
  for (const ir::Statement& statement : in_.program.statements) {
    readers += ir::reads(statement, tensor);
    if (statement.tensor != tensor) continue;
    ++writers;
    if (!suits_copies(statement)) return 0;
  }
  return readers == 1 && writers == 1 ? kPass * bytes : 0;
}

}  // namespace tc::plan
