#include "plan/forms/block_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ir/operations.h"
#include "plan/model/interleaved_stores.h"
#include "plan/model/near_lanes.h"
#include "plan/model/statement_reuse.h"

namespace tc::plan {
namespace {

// A run of results too short to transpose.
constexpr int64_t kShortRun = 4;
// Cycles to fetch and put back a result between two tiles of a reduction, where results do not
// lie along the vector and have left the cache (measured at rows of 64 KiB).
constexpr double kScatteredReload = 16;
// Loads that every lane, or the scalar that all lanes share, has to be asked for.
constexpr double kMaskedLoad = 2, kConditionalLoad = 8;

// Lanes up to so far apart are loads of all in between, and permutations.
constexpr int64_t kNear = 4;

/// In elements, along a dimension of a block, which may be none.
std::optional<int64_t> stride_of(const Operand& operand, const Member* member) {
  return member ? operand.strides[member->position] : 0;
}

double count_results(const ScopStatement& statement) {
  return volume(statement, [](const ir::Iterator& i) { return !i.reduction; });
}

}  // namespace

BlockStatements::BlockStatements(const ClusterContext& in, const Operands& operands)
    : in_(in),
      machine_(in.machine),
      operands_(operands),
      most_lanes_(count_lanes(in.cluster, in.program, machine_.vector_bits)),
      staying_(own_temporaries(in)) {
  for (const Update& update : operands_.updates())
    result_registers_ =
        std::max(result_registers_, ir::registers_of_results(*update.statement->source));
}

BlockSteps BlockStatements::describe(const BlockMembers& dimensions, int lanes) const {
  BlockSteps made;
  for (const Update& update : operands_.updates()) {
    Step step;
    step.vector_bytes = machine_.vector_bits / 8;
    step.parts =
        std::max(1.0, step.vector_bytes * lanes / most_lanes_ / (machine_.step_bits() / 8.0));
    step.repeats = volume(*update.statement, [](const ir::Iterator& i) { return i.reduction; });
    step.registers = result_registers_;
    for (const Operand& operand : update.operands) {
      if (operand.access.write)
        describe_write(update, operand, dimensions, lanes, made);
      else if (!is_held(operand))
        step.loads.push_back(describe_read(update, operand, dimensions, lanes, made));
    }
    made.steps.push_back(std::move(step));
  }
  return made;
}

void BlockStatements::describe_write(const Update& update, const Operand& operand,
                                     const BlockMembers& dimensions, int lanes,
                                     BlockSteps& made) const {
  if (is_stored_later(update, operand)) return;
  const double results = count_results(*update.statement);
  const auto stride = stride_of(operand, dimensions[0]);
  const bool run = stride_of(operand, dimensions[1]) == 1 && dimensions[1]->extent >= kShortRun;
  if (run && stride != 1) made.runs += results;
  if (staying_.count(operand.access.tensor)) return;
  const int bytes = in_.program.tensor(operand.access.tensor).type.bytes();
  const bool far = std::abs(stride.value_or(0)) * bytes >= kPageBytes;
  const double store = results * (stride == 1 ? 1.0 / lanes
                                  : run       ? machine_.transposed_store_cycles
                                  : far       ? machine_.far_store_cycles
                                              : machine_.scattered_store_cycles);
  const bool gone = stride != 1 && results > 2 * operands_.most_elements(operand.access);
  for (size_t d = 1; d < dimensions.size(); ++d)
    if (stride_of(operand, dimensions[d]) == 1 &&
        machine::is_interleaved(stride.value_or(0), dimensions[d]->extent))
      made.interleaved[d] += store - results * cycles_of_interleaved(dimensions[d]->extent, lanes);
  made.moves += store;
  made.reloads += gone ? results * kScatteredReload : 2 * store;
}

Load BlockStatements::describe_read(const Update& update, const Operand& operand,
                                    const BlockMembers& dimensions, int lanes,
                                    BlockSteps& made) const {
  const ScopStatement& statement = *update.statement;
  std::array<std::optional<int64_t>, 3> strides;
  Load load;
  for (size_t d = 0; d < strides.size(); ++d) {
    strides[d] = stride_of(operand, dimensions[d]);
    load.moves[d] = strides[d] != 0;
  }
  load.footprint = operands_.footprint(update, operand);
  for (Footprint::Dimension& dimension : load.footprint.dimensions) {
    std::vector<std::optional<int64_t>> steps(3, 0);
    for (size_t d = 0; d < 3; ++d)
      if (dimensions[d]) steps[d] = dimension.steps[dimensions[d]->position];
    dimension.steps = steps;
  }
  const bool apart = strides[0] != 1;
  const double pass = operands_.pass_saved_by_copies(operand);
  if (load.moves[0] && (apart || pass > 0 || operands_.is_leaping(update, operand))) {
    if (auto read = operands_.pack(update, operand, *dimensions[0])) {
      made.packed.push_back(*read);
      load.packed = true;
      made.copies.push_back(operands_.cost_of_copies(update, operand, *dimensions[0]));
      made.copies.back().counts = apart;
    } else if (apart) {
      const int64_t step = std::abs(strides[0].value_or(lanes));
      const bool near = step <= kNear && !operand.access.conditional;
      load.cost =
          near ? loads_of_near_lanes(static_cast<double>(step), is_loaded(update, operand, step))
               : 2 * lanes;
    }
  }
  if (!load.packed) made.moves += pass;
  load.scattered = load.moves[0] && !load.packed && operands_.near_bytes(update, operand, 1) > 0;
  const int64_t element = in_.program.tensor(operand.access.tensor).type.bytes();
  for (size_t d = 1; d < 3; ++d) load.bytes[d] = std::abs(strides[d].value_or(0)) * element;
  load.steps_of_a_line = operands_.steps_of_a_line(update, operand);
  if (!apart && !load.packed && strides[1] && strides[2] &&
      ir::count_functions(statement.source->value) == 0) {
    load.along_block = {{lanes, 1}, {*strides[1], 1}, {*strides[2], 1}};
    load.along_terms = walks_of_terms(statement, operand);
  }
  if (operand.access.conditional) load.cost *= load.moves[0] ? kMaskedLoad : kConditionalLoad;
  return load;
}

/// Whether a read before it loads the elements between lanes so far apart.
bool BlockStatements::is_loaded(const Update& update, const Operand& read, int64_t apart) const {
  const Layout& layout = in_.layouts.at(read.access.tensor);
  for (const Operand& other : update.operands) {
    if (&other == &read) break;
    if (in_one_window(other.access, read.access, layout, update.statement->source->domain, apart))
      return true;
  }
  return false;
}

/// Along the reductions of a statement; nothing where one of them goes as data says.
std::vector<Walk> BlockStatements::walks_of_terms(const ScopStatement& statement,
                                                  const Operand& read) const {
  std::vector<Walk> walks;
  for (const ir::Iterator& iterator : statement.source->domain) {
    if (!iterator.reduction) continue;
    const auto step = stride_along(read.access, in_.layouts.at(read.access.tensor), iterator.name);
    if (!step) return {};
    walks.push_back({*step, extent_of(iterator)});
  }
  return walks;
}

/// Whether a read finds in registers what a statement of the cluster has written there.
bool BlockStatements::is_held(const Operand& read) const {
  for (const Update& update : operands_.updates())
    for (const Operand& written : update.operands)
      if (written.access.write && written.access.tensor == read.access.tensor &&
          written.strides == read.strides)
        return true;
  return false;
}

/// Whether a result stays in registers for a later statement of the cluster that writes it.
bool BlockStatements::is_stored_later(const Update& update, const Operand& written) const {
  bool later = false;
  for (const Update& other : operands_.updates()) {
    if (later && other.operands.back().access.tensor == written.access.tensor &&
        other.operands.back().strides == written.strides)
      return true;
    later = later || &other == &update;
  }
  return false;
}

}  // namespace tc::plan
