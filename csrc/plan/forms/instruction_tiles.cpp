#include "plan/forms/instruction_tiles.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/numbers.h"
#include "ir/loops.h"
#include "isa/instructions.h"
#include "plan/forms/block_tiles.h"
#include "plan/forms/register_tiles.h"
#include "plan/model/estimate.h"

namespace tc::plan {
namespace {

// Rows of a block, as register_blocks has them.
constexpr int64_t kMostTileRows = 14;

/// An instruction for every statement of a cluster that reduces, and the loop of each whose terms
/// it adds up.
struct Choice {
  const isa::Instruction* instruction = nullptr;
  std::vector<std::string> terms;
  std::vector<PackedRead> copies;  ///< of what does not lie as in a register
  /// Iterators with which blocks of a copy begin elsewhere: a copy is of one point of theirs.
  std::set<std::string> single;
};

class InstructionTiles {
 public:
  InstructionTiles(const ClusterContext& in, const std::vector<Member>& members,
                   const Constraints& constraints, bool parallel)
      : in_(in),
        members_(members),
        constraints_(constraints),
        limits_{constraints.tasks, constraints.last},
        parallel_(parallel),
        operands_(in, members),
        lanes_(count_lanes(in.cluster, in.program, in.machine.vector_bits)) {}

  std::optional<ClusterPlan> plan(Notes& notes) {
    for (const isa::Instruction& instruction : isa::instructions()) {
      if (!may_use(instruction)) continue;
      for (size_t v = members_.size(); v-- > 0;) {
        if (constraints_.last >= 0 && constraints_.last != members_[v].position) continue;
        if (auto choice = choose_terms(instruction, v)) try_blocks(*choice, v);
      }
    }
    if (!best_) return std::nullopt;
    notes = notes_;
    return best_;
  }

 private:
  bool may_use(const isa::Instruction& instruction) const {
    const auto& given = constraints_.cluster.instruction;
    return given ? instruction.name == *given : in_.machine.dot_products > 0;
  }

  /// Of every statement that reduces, the loop that fills most of its last terms; of such, the one
  /// that takes the fewest copies.
  std::optional<Choice> choose_terms(const isa::Instruction& instruction, size_t v) const {
    Choice all;
    all.instruction = &instruction;
    for (const Update& update : operands_.updates()) {
      const ir::Statement& source = *update.statement->source;
      const std::vector<ir::Iterator> terms = ir::reduced_indices(source);
      if (terms.empty()) continue;
      if (isa::match(source) != &instruction) return std::nullopt;
      std::optional<Choice> best;
      double best_waste = 0;
      for (const ir::Iterator& term : terms) {
        if (!may_take(instruction, term.name)) continue;
        auto made = find_copies(instruction, update, v, term);
        const auto extent = static_cast<double>(extent_of(term));
        const double waste =
            static_cast<double>(round_up(extent_of(term), instruction.terms)) / extent;
        if (!made || (best && (waste > best_waste || (waste == best_waste &&
                                                      made->copies.size() >= best->copies.size()))))
          continue;
        best = std::move(made);
        best_waste = waste;
      }
      if (!best) return std::nullopt;
      all.terms.push_back(best->terms[0]);
      all.copies.insert(all.copies.end(), best->copies.begin(), best->copies.end());
      all.single.insert(best->single.begin(), best->single.end());
    }
    return all.terms.empty() ? std::nullopt : std::optional(all);
  }
  /// Whether the options let a register tile have the instruction's terms along a loop; where they
  /// ask for the instruction, that they do not is an error that says so.
  bool may_take(const isa::Instruction& instruction, const std::string& index) const {
    const auto& given = constraints_.cluster.registers;
    if (!given) return true;
    const Tile* tile = find_tile(*given, index);
    return tile && (tile->size == instruction.terms || constraints_.cluster.instruction);
  }

  /// Of one statement and loop; nothing where an operand that has to be copied cannot be.
  std::optional<Choice> find_copies(const isa::Instruction& instruction, const Update& update,
                                    size_t v, const ir::Iterator& term) const {
    Choice choice;
    choice.terms = {term.name};
    for (const Operand& operand : update.operands) {
      if (operand.access.write) continue;
      const auto along_lanes = operand.strides[members_[v].position];
      const auto along_terms =
          stride_along(operand.access, in_.layouts.at(operand.access.tensor), term.name);
      if (!along_lanes || !along_terms) return std::nullopt;
      if (isa::fits_register(instruction, *along_lanes, *along_terms)) continue;
      auto copy = pack(instruction, update, operand, v, term, choice.single);
      if (!copy) return std::nullopt;
      choice.copies.push_back(std::move(*copy));
    }
    return choice;
  }

  /// A copy with the terms innermost, then the vector or, where all its lanes read the same, what
  /// memory has side by side; the others in order of use.
  std::optional<PackedRead> pack(const isa::Instruction& instruction, const Update& update,
                                 const Operand& operand, size_t v, const ir::Iterator& term,
                                 std::set<std::string>& single) const {
    const ir::MemoryAccess& read = operand.access;
    const ir::Iterator& vector = *update.iterators[members_[v].position];
    const std::vector<ir::Iterator>& domain = update.statement->source->domain;
    const Layout& layout = in_.layouts.at(read.tensor);
    std::optional<PackedRead> packed = operands_.begin_copy(update, operand);
    if (!packed) return std::nullopt;
    std::optional<size_t> terms, lanes;
    std::vector<std::pair<int, size_t>> places;
    for (size_t d = 0; d < read.subscripts.size(); ++d) {
      int place = -1;
      for (size_t i = 0; i < domain.size(); ++i) {
        const auto step = ir::step_along(read.subscripts[d], domain[i].name);
        if (!step) return std::nullopt;
        if (*step == 0) continue;
        if (domain[i].reduction) place = static_cast<int>(i);
        const bool is_term = domain[i].name == term.name, is_lane = domain[i].name == vector.name;
        if (is_term && *step != 1) return std::nullopt;
        if (is_lane && (*step != 1 || lanes)) return std::nullopt;
        if (is_term) terms = d;
        if (is_lane) lanes = d;
      }
      places.emplace_back(place, d);
    }
    if (!terms || terms == lanes) return std::nullopt;
    for (const ir::Iterator& other : domain) {
      const auto step = ir::step_along(read.subscripts[*terms], other.name);
      if (other.name == term.name || *step % instruction.terms == 0) continue;
      if (other.reduction) return std::nullopt;
      single.insert(other.name);
    }
    std::optional<size_t> last = lanes;
    for (size_t d = 0; d < layout.strides.size() && !lanes; ++d)
      if (layout.strides[d] == 1 && d != *terms) last = d;
    for (auto& [place, d] : places)
      if (d == last) place = static_cast<int>(domain.size());
    std::sort(places.begin(), places.end());
    using Part = poly::CopyDimension::Part;
    for (const auto& [place, d] : places)
      packed->order.push_back(d == *terms ? poly::CopyDimension(d, Part::Block, instruction.terms)
                                          : d);
    packed->order.emplace_back(*terms, Part::Place, instruction.terms);
    return packed;
  }

  // ---- blocks

  void try_blocks(const Choice& choice, size_t v) {
    const int64_t width = limits_.points_of_task(&members_[v]);
    const int64_t lanes = lanes_of_block(width, lanes_);
    for (int64_t vectors = std::min(kMostVectors, divide_up(width, lanes)); vectors >= 1;
         --vectors) {
      const int64_t points = std::min(width, vectors * lanes);
      try_block(choice, {&members_[v], nullptr, nullptr}, {points, 1, 1});
      for (size_t row = members_.size(); row-- > 0;) {
        if (row == v) continue;
        for (int64_t rows = std::min(kMostTileRows, limits_.points_of_task(&members_[row]));
             rows > 1; --rows)
          if (rows * vectors + vectors + 2 <= in_.machine.vector_registers)
            try_block(choice, {&members_[v], &members_[row], nullptr}, {points, rows, 1});
      }
    }
  }

  void try_block(const Choice& choice, const BlockMembers& dimensions, const BlockShape& points) {
    if (!limits_.fill_tasks(dimensions, points)) return;
    for (const Update& update : operands_.updates())
      if (dimensions[1] && choice.single.count(update.iterators[dimensions[1]->position]->name))
        return;
    RegisterBlock block;
    block.lanes = lanes_;
    set_members(block, members_, dimensions, points);
    block.packed = choice.copies;
    for (PackedRead& read : block.packed) read.width = width_of(read, dimensions, points);
    block.reduction_tile = cut_reduction(choice, block.packed);
    arrange_tiles(operands_, in_.machine, block);
    Notes notes;
    // Tasks are joined where they are short.
    block.cycles = estimate(make_plan(choice, block, notes), in_).total();
    const ClusterPlan plan = make_plan(choice, block, notes);
    const double cycles = estimate(plan, in_).total();
    if (best_ && cycles >= cycles_) return;
    best_ = plan;
    cycles_ = cycles;
    notes_ = notes;
    notes_.insert(notes_.begin(), describe(choice, block));
  }

  ClusterPlan make_plan(const Choice& choice, const RegisterBlock& block, Notes& notes) const {
    notes.clear();
    ClusterPlan plan = plan_register_tiles(in_, block, constraints_, parallel_, notes);
    for (const std::string& index : choice.terms)
      if (!find_tile(plan.registers, index))
        plan.registers.push_back({index, choice.instruction->terms});
    plan.instruction = choice.instruction->name;
    return plan;
  }

  /// Iterations of every reduction loop between which copies are made anew, whole register tiles;
  /// none where all that a block reads fits in the cache.
  std::vector<int64_t> cut_reduction(const Choice& choice,
                                     const std::vector<PackedRead>& packed) const {
    double room = std::numeric_limits<double>::infinity(), most = 1;
    for (const PackedRead& read : packed) {
      const double fits = operands_.most_elements(read.read) / static_cast<double>(read.width);
      room = std::min(room, fits);
      most = std::max(most, read.depth / fits);
      if (read.statement != packed[0].statement) return {};
    }
    if (most <= 1) return {};
    std::vector<int64_t> tile;
    const std::vector<ir::Iterator>& domain = packed[0].statement->source->domain;
    for (size_t i = domain.size(); i-- > 0;) {
      if (!domain[i].reduction) continue;
      int64_t size = extent_of(domain[i]);
      if (room < static_cast<double>(size)) {
        const int64_t count = divide_up(size, std::max<int64_t>(1, static_cast<int64_t>(room)));
        const bool terms = domain[i].name == choice.terms[0];
        size = std::min(
            size, round_up(divide_up(size, count), terms ? choice.instruction->terms * lanes_ : 1));
      }
      room /= static_cast<double>(size);
      tile.insert(tile.begin(), size);
    }
    return tile;
  }

  Note describe(const Choice& choice, const RegisterBlock& block) const {
    std::vector<std::string> sides;
    for (size_t m = 0; m < block.members.size(); ++m)
      if (block.points[m] > 1 || m + 1 == block.members.size())
        sides.push_back(concat(block.points[m], " of ", name_of(in_.cluster, block.members[m])));
    return {"form", concat("a block of results in registers: ", join(sides, " x "), "; ",
                           choice.instruction->name, " adds up ", choice.instruction->terms,
                           " terms of ", join(choice.terms), " at a time")};
  }

  const ClusterContext in_;
  const std::vector<Member>& members_;
  const Constraints& constraints_;
  const BlockLimits limits_;
  const bool parallel_;
  const Operands operands_;
  const int lanes_;
  std::optional<ClusterPlan> best_;
  double cycles_ = 0;
  Notes notes_;
};

}  // namespace

std::optional<ClusterPlan> plan_instruction_tiles(const ClusterContext& in,
                                                  const std::vector<Member>& members,
                                                  const Constraints& constraints, bool parallel,
                                                  Notes& notes) {
  return InstructionTiles(in, members, constraints, parallel).plan(notes);
}

}  // namespace tc::plan
