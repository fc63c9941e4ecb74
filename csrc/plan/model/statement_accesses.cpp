#include "plan/model/statement_accesses.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "base/memory.h"
#include "ir/accesses.h"
#include "ir/expressions/integer_value.h"
#include "ir/expressions/reads.h"
#include "ir/loops.h"
#include "ir/operations.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "plan/model/near_lanes.h"
#include "plan/model/shared_windows.h"

namespace tc::plan {
namespace {

// Runs of so many bytes make up for lying apart.
constexpr double kLongRun = 256;

/// How far the places of neighbours along an index lie apart on average, in elements, where they
/// are a pattern that codegen/vectors/near_gathers knows: quotients of it by small numbers.
std::optional<double> step_of_pattern(const ir::MemoryAccess& access, const Layout& layout,
                                      const std::string& index) {
  double step = 0;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    const ir::Expr& subscript = access.subscripts[d];
    if (!expr_uses_var(subscript, index)) continue;
    int64_t period = 1;
    const auto divide = [&](const auto* op) {
      const auto divisor = Halide::Internal::as_const_int(op->b);
      if (period <= machine::kMostPeriod)
        period =
            std::lcm(period, divisor ? std::max<int64_t>(1, *divisor) : machine::kMostPeriod + 1);
    };
    ir::for_each<Halide::Internal::Div>(subscript, divide);
    ir::for_each<Halide::Internal::Mod>(subscript, divide);
    const bool clamps = ir::any<Halide::Internal::Min>(subscript) ||
                        ir::any<Halide::Internal::Max>(subscript) ||
                        ir::any<Halide::Internal::Select>(subscript);
    if (clamps || period > machine::kMostPeriod || ir::variables_of(subscript).size() != 1)
      return std::nullopt;
    const auto first = ir::integer_value(subscript, {{index, 0}});
    const auto last = ir::integer_value(subscript, {{index, period}});
    if (!first || !last) return std::nullopt;
    step += static_cast<double>((*last - *first) * layout.strides[d]) / static_cast<double>(period);
  }
  return std::abs(step);
}

}  // namespace

StatementAccesses::StatementAccesses(const ClusterPlan& plan, size_t s, const ClusterContext& in,
                                     const StatementLoops& nest, std::set<std::string>& copies)
    : plan_(plan),
      in_(in),
      statement_(*in.cluster.statements[s]),
      domain_(statement_.source->domain),
      nest_(nest) {
  for (size_t i = 0; i < domain_.size(); ++i)
    extents_.push_back(i < statement_.dimensions ? extent_of(domain_[i]) : 1);
  at_copies_ = extents_;
  for (size_t l = 0; l < nest_.copies; ++l)
    at_copies_[nest_.loops[l].iterator] = nest_.loops[l].size;
  std::set<std::string> known;
  for (const ir::MemoryAccess& access : accesses(in_.program, *statement_.source)) {
    if (statement_.initialization && !access.write) continue;
    if (!access.write && !known.insert(access_text(access)).second) continue;
    add(access);
    Access& made = accesses_.back();
    made.makes_copy = made.copy && copies.insert(copy_text(s, made)).second;
  }
}

void StatementAccesses::add(const ir::MemoryAccess& access) {
  Access made;
  made.access = access;
  const Layout& layout = in_.layouts.at(access.tensor);
  const int64_t bytes = in_.program.tensor(access.tensor).type.bytes();
  made.footprint.element = static_cast<double>(bytes);
  for (size_t d = 0; d < access.subscripts.size(); ++d)
    made.footprint.dimensions.push_back(
        dimension(access.subscripts[d], static_cast<double>(layout.sizes[d]),
                  static_cast<double>(std::abs(layout.strides[d]))));
  made.footprint.sort();
  for (size_t i = 0; i < domain_.size(); ++i) {
    auto stride = i < statement_.dimensions ? stride_along(access, layout, domain_[i].name) : 0;
    made.strides.push_back(stride ? std::optional<int64_t>(*stride * bytes) : std::nullopt);
  }
  for (const CopyPlan& copy : plan_.copies)
    if (!access.write && copy.statement == statement_.id && copy.read == access_text(access))
      made.copy = &copy;
  made.used = made.copy ? copied(made) : made.footprint;
  made.spread = !made.copy && is_spread(made);
  made.loaded = !made.copy && is_loaded(made);
  accesses_.push_back(std::move(made));
}

/// The same for equal copies in the same place.
std::string StatementAccesses::copy_text(size_t s, const Access& access) const {
  std::string text = shared_text(in_.cluster, s, access.access) + access.copy->computes;
  for (const poly::CopyDimension& each : access.copy->order)
    text += concat(" ", each.dimension, each.suffix());
  if (!has_points_apart(plan_)) return text;
  for (const NestPlan& nest : plan_.nests)
    if (std::count(nest.statements.begin(), nest.statements.end(), statement_.id) > 0)
      return text + " " + nest.statements.front();
  return text + " " + statement_.id;
}

Footprint::Dimension StatementAccesses::dimension(const ir::Expr& subscript, double size,
                                                  double stride) const {
  Footprint::Dimension result;
  result.whole = size;
  result.stride = stride;
  for (size_t i = 0; i < domain_.size(); ++i)
    result.steps.push_back(i < statement_.dimensions ? ir::step_along(subscript, domain_[i].name)
                                                     : std::optional<int64_t>(0));
  return result;
}

double StatementAccesses::copied_elements(const Access& access, size_t d) const {
  const auto size = static_cast<double>(in_.layouts.at(access.access.tensor).sizes[d]);
  return std::min(size, dimension(access.access.subscripts[d], size, 1).span_of(at_copies_));
}

/// The box of a copy, as it lies. Places in blocks are close together.
Footprint StatementAccesses::copied(const Access& access) const {
  Footprint result;
  result.element = access.footprint.element;
  double stride = 1;
  for (auto each = access.copy->order.rbegin(); each != access.copy->order.rend(); ++each) {
    if (each->part == poly::CopyDimension::Part::Place) continue;
    const size_t d = each->dimension;
    const auto size = static_cast<double>(in_.layouts.at(access.access.tensor).sizes[d]);
    Footprint::Dimension made = dimension(access.access.subscripts[d], size, stride);
    made.whole = copied_elements(access, d);
    stride *= made.whole;
    result.dimensions.insert(result.dimensions.begin(), std::move(made));
  }
  return result;
}

/// Whether the innermost loop that an access moves along leaves the reach of what fetches lines
/// ahead, and its body reads less than makes up for that.
bool StatementAccesses::is_spread(const Access& access) const {
  for (size_t l = nest_.loops.size(); l-- > nest_.tasks;) {
    const NestLoop& loop = nest_.loops[l];
    const int64_t stride = std::abs(access.strides[loop.iterator].value_or(kPageBytes));
    if (!loop.is_loop() || stride == 0) continue;
    if (stride * loop.size < kPageBytes / 2) return false;
    return run_bytes(access) < kLongRun;
  }
  return false;
}

bool StatementAccesses::is_loaded(const Access& access) const {
  if (access.access.write || nest_.vector < 0) return false;
  const int64_t apart = std::abs(access.strides[nest_.vector].value_or(0)) /
                        static_cast<int64_t>(access.footprint.element);
  return apart > 1 && apart <= nest_.lanes &&
         std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& other) {
           return !other.copy &&
                  in_one_window(access.access, other.access, in_.layouts.at(access.access.tensor),
                                domain_, apart);
         });
}

/// Bytes without gaps that the points inside all loops touch.
double StatementAccesses::run_bytes(const Access& access) const {
  const std::vector<int64_t>& points = nest_.block;
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto stride = [&](size_t i) { return std::abs(access.strides[i].value_or(kPageBytes)); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stride(a) < stride(b); });
  double run = access.footprint.element;
  for (size_t i : order)
    if (points[i] > 1 && stride(i) > 0 && static_cast<double>(stride(i)) <= run)
      run += static_cast<double>(stride(i) * (points[i] - 1));
  return run;
}

/// Bytes from lane to lane. Blocks have the places that an instruction takes together.
std::optional<int64_t> StatementAccesses::stride_in_copy(const Access& access) const {
  const auto element = static_cast<int64_t>(access.used.element);
  double stride = 0;
  for (const Footprint::Dimension& dimension : access.used.dimensions) {
    const auto& step = dimension.steps[nest_.vector];
    if (!step) return std::nullopt;
    stride += static_cast<double>(*step) * dimension.stride;
  }
  const bool blocks =
      std::any_of(access.copy->order.begin(), access.copy->order.end(),
                  [](const auto& each) { return each.part != poly::CopyDimension::Part::Whole; });
  return blocks ? element : static_cast<int64_t>(stride) * element;
}

bool StatementAccesses::is_in_table(const Access& access) const {
  const std::string& along = domain_[nest_.vector].name;
  const auto& subscripts = access.access.subscripts;
  return !access.copy && std::all_of(subscripts.begin(), subscripts.end(), [&](ir::Expr subscript) {
    if (ir::step_along(subscript, along)) return true;
    while (const auto* cast = subscript.as<Halide::Internal::Cast>()) subscript = cast->value;
    const auto* call = subscript.as<Halide::Internal::Call>();
    const std::string table = call ? ir::read_name(call) : "";
    return in_.program.tensors.count(table) > 0 &&
           ir::stride_along({table, call->args}, in_.layouts.at(table), along) == 1;
  });
}

double StatementAccesses::loads_of_a_vector(const Access& access, double parts) const {
  if (nest_.vector < 0 || access.strides[nest_.vector] == 0) return 1;
  const double bytes = nest_.lanes * access.footprint.element;
  const auto stride = access.copy ? stride_in_copy(access) : access.strides[nest_.vector];
  if (!stride || std::abs(*stride) != access.footprint.element) {
    // Neighbours come with the lanes between them; others are loaded one by one, and put
    // together.
    const std::optional<double> step =
        stride        ? std::optional(std::abs(*stride) / access.footprint.element)
        : access.copy ? std::nullopt
                      : step_of_pattern(access.access, in_.layouts.at(access.access.tensor),
                                        domain_[nest_.vector].name);
    const double lane = step                  ? in_.machine.strided_lane_cycles
                        : is_in_table(access) ? in_.machine.table_lane_cycles
                                              : in_.machine.gathered_lane_cycles;
    return std::min(lane * in_.machine.loads * nest_.lanes,
                    loads_of_near_lanes(step.value_or(nest_.lanes), access.loaded));
  }
  // A vector that does not begin with a line lies in two.
  int64_t unit = kLineBytes;
  if (access.copy) {
    double stride_of_row = access.used.element;
    for (size_t d = access.used.dimensions.size(); d-- > 1;) {
      stride_of_row *= access.used.dimensions[d].whole;
      unit = std::gcd(unit, static_cast<int64_t>(stride_of_row));
    }
  } else {
    for (size_t i = 0; i < extents_.size(); ++i)
      if (static_cast<int>(i) != nest_.vector && extents_[i] > 1)
        unit = std::gcd(unit, access.strides[i].value_or(kLineBytes));
  }
  return parts + std::min(1.0, bytes / kLineBytes) *
                     (1 - static_cast<double>(unit) / static_cast<double>(kLineBytes));
}

double StatementAccesses::share_of_windows(const Access& access,
                                           const std::vector<int64_t>& block) const {
  if (access.copy || nest_.vector < 0 ||
      access.strides[nest_.vector] != static_cast<int64_t>(access.footprint.element) ||
      ir::count_functions(statement_.source->value) > 0)
    return 1;
  std::vector<Walk> walks;
  double results = ir::registers_of_results(*statement_.source), row = results, terms = 1;
  for (size_t i = 0; i < block.size(); ++i) {
    if (!access.strides[i]) return 1;
    const int64_t count = nest_.vectors(i, block[i]);
    const bool along_vector = static_cast<int>(i) == nest_.vector;
    results *= static_cast<double>(count);
    if (along_vector) row *= static_cast<double>(count);
    // What stays the same for all rows is loaded once in every step.
    if (*access.strides[i] != 0)
      walks.push_back({*access.strides[i] * (along_vector ? nest_.lanes : 1), count});
  }
  for (size_t l = nest_.loops.size(); l-- > nest_.copies;) {
    const NestLoop& loop = nest_.loops[l];
    if (!loop.is_loop()) continue;
    const bool reduces = static_cast<size_t>(loop.iterator) < statement_.dimensions &&
                         domain_[loop.iterator].reduction;
    if (!reduces || results * terms * loop.iterations() > machine::kUnrolledOperations) break;
    terms *= loop.iterations();
    walks.push_back({*access.strides[loop.iterator], loop.extent});
  }
  // Registers hold the results, a factor of every term, and what several rows have in common.
  const double held = results + terms + (results > 2 * row ? results : 0);
  if (held > in_.machine.vector_registers) return 1;
  return different_share(walks);
}

}  // namespace tc::plan
