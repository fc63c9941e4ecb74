#include "rewrite/algebra/share_scatters.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/numbers.h"
#include "ir/expressions/simplify.h"
#include "ir/loops.h"
#include "machine/gpu.h"
#include "machine/limits.h"
#include "rewrite/canonical/lower_scatters.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

/// The work of a scatter in numbers.
struct Shape {
  int64_t tasks = 1;     ///< of plain indices
  int64_t row = 1;       ///< points along the vector
  int64_t looks = 1;     ///< points of the other indices
  int64_t elements = 1;  ///< of the result
  double cycles = 0;     ///< of all points
};

/// The first and the last place along the first scattered dimension; all of it where they are not
/// known.
struct Places {
  size_t dimension = 0;
  int64_t first = 0, last = 0;
  bool linear = true;  ///< indices say which: nobody has to look at others' points
};

Places places_of(const Statement& statement, const Program& program) {
  size_t dimension = 0;
  while (!statement.scattered[dimension]) ++dimension;
  const Expr& size = program.tensor(statement.tensor).sizes[dimension];
  const Places all = {dimension, 0, *as_const_int(size) - 1, false};
  const Expr& subscript = statement.subscripts[dimension];
  std::map<std::string, Expr> start;
  int64_t below = 0, above = 0;
  for (const Iterator& it : statement.domain) {
    start[it.name] = it.min;
    const std::optional<int64_t> step = step_along(subscript, it.name);
    if (!step) return all;
    (*step < 0 ? below : above) += *step * (extent_of(it) - 1);
  }
  const auto first = as_const_int(simplify(substitute(start, subscript)));
  if (!first) return all;
  return {dimension, *first + below, *first + above, true};
}

/// The points whose place lies in the range of an owner, for each of them.
Statement owned(const Statement& statement, const Places& places, int owners) {
  Statement result = statement;
  const Iterator owner =
      make_index(statement, "owner", owners,
                 concat("ranges of dimension ", places.dimension, " of ", statement.tensor));
  result.domain.insert(result.domain.begin(), owner);
  const auto length = static_cast<int>(divide_up(places.last + 1 - places.first, owners));
  Expr place = statement.subscripts[places.dimension];
  if (places.first != 0) place = simplify(place - static_cast<int>(places.first));
  const Expr mine = place / length == make_variable(owner.name);
  result.guard = statement.guard.defined() ? statement.guard && mine : mine;
  return result;
}

class Sharing : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  std::vector<Statement> share(const Statement& statement) {
    const Shape shape = measure(statement);
    if (shape.cycles == 0 || shape.elements == 0) return {statement};
    const double threads = machine_.threads;
    double alone = shape.cycles / std::min<double>(threads, static_cast<double>(shape.tasks));
    const Places places = places_of(statement, program_);
    double guesses = 2 * machine_.wrong_guess_cycles / threads * (1 - 1 / threads);
    // The loops over an owner's own points have bounds that vary, which is nothing around a vector.
    const bool looks = !places.linear || shape.row == 1;
    double owners = machine_.tasks_cycles + shape.cycles / threads;
    if (looks) owners += static_cast<double>(shape.looks) * (machine_.look_cycles + guesses);
    const Iterator* split = longest_reduction(statement);
    int64_t copies = std::min({machine::kMostCopies, shape.looks, split ? extent_of(*split) : 1});
    double copied = machine_.tasks_cycles +
                    shape.cycles / std::min<double>(threads, static_cast<double>(copies)) +
                    static_cast<double>(copies * shape.elements) / threads;
    if (places.last - places.first + 1 < machine_.threads ||
        shape.looks < machine::kLooksPerOwner * machine_.threads)
      owners = std::numeric_limits<double>::infinity();
    if (alone < machine::kScatterGain * std::min(owners, copied)) return {statement};
    if (owners <= copied) return {owned(statement, places, machine_.threads)};
    return copy(statement, copies);
  }

 private:
  Shape measure(const Statement& statement) const {
    Shape shape;
    MemoryAccess write = accesses(program_, statement).back();
    for (int64_t size : layouts_.at(statement.tensor).sizes) shape.elements *= size;
    for (const Iterator& it : statement.domain) {
      const int64_t extent = extent_of(it);
      const bool vector = !it.reduction && stride(write, it) == 1;
      (vector ? shape.row : shape.looks) *= extent;
      if (!vector && !it.reduction) shape.tasks *= extent;
    }
    int64_t row_bytes = shape.row * program_.tensor(statement.tensor).type.bytes();
    if (row_bytes <= machine::kScatteredRowBytes)
      shape.tasks *= std::max<int64_t>(1, row_bytes / machine::kScatteredRangeBytes);
    const double row = static_cast<double>(shape.row) * machine_.scattered_lane_cycles;
    shape.cycles =
        static_cast<double>(shape.looks) * std::max(machine_.scattered_point_cycles, row);
    return shape;
  }

  static const Iterator* longest_reduction(const Statement& statement) {
    const Iterator* longest = nullptr;
    for (const Iterator& it : statement.domain)
      if (it.reduction && (!longest || extent_of(it) > extent_of(*longest))) longest = &it;
    return longest;
  }

  /// Fills the copies with the identity, adds to them, and adds them up.
  std::vector<Statement> copy(const Statement& statement, int64_t count) {
    const Tensor target = program_.tensor(statement.tensor);
    std::vector<Expr> sizes = target.sizes;
    sizes.insert(sizes.begin(), static_cast<int>(count));
    const Tensor& copies = add_temporary(program_, target.name + ".copies", target.type, sizes);
    layouts_[copies.name] = row_major(copies);

    const Iterator& whole = *longest_reduction(statement);
    const Iterator part =
        make_index(statement, "copy", static_cast<int>(count), "parts of " + whole.name);

    Statement sum = cover_scatter(statement, program_, /*numbered=*/true);
    sum.meaning.clear();
    Statement start = sum;
    start.tensor = copies.name;
    start.value = identity(statement.reduction, target.type);
    start.domain.insert(start.domain.begin(), part);
    start.subscripts.insert(start.subscripts.begin(), make_variable(part.name));
    sum.reduction = statement.reduction;
    sum.value = read(copies, start.subscripts);
    sum.domain.push_back(part);
    sum.domain.back().reduction = true;

    // Every part has as many points; what is left over is added at the end.
    const int length = static_cast<int>(extent_of(whole) / count);
    const int left = static_cast<int>(extent_of(whole) % count);
    Expr index = make_variable(whole.name);
    Statement parts =
        restrict_range(statement, whole, make_variable(part.name) * length + index, length);
    parts.tensor = copies.name;
    parts.subscripts.insert(parts.subscripts.begin(), make_variable(part.name));
    parts.scattered.insert(parts.scattered.begin(), false);
    parts.domain.insert(parts.domain.begin(), part);
    std::vector<Statement> result = {start, parts, sum};
    if (left > 0)
      result.push_back(
          restrict_range(statement, whole, index + static_cast<int>(count * length), left));
    return result;
  }

  /// The points of a statement whose index `whole`, counted from its minimum, has this value for
  /// values of it from 0 to `extent`.
  static Statement restrict_range(const Statement& statement, const Iterator& whole,
                                  const Expr& value, int extent) {
    Statement result = statement;
    for (Iterator& it : result.domain)
      if (it.name == whole.name) {
        it.min = 0;
        it.extent = extent;
      }
    substitute_indices(result, {{whole.name, whole.min + value}});
    return result;
  }
};

}  // namespace

void give_owners(Program& program) {
  const int64_t tasks = GpuMachine().scatter_tasks;
  for (Statement& statement : program.statements) {
    if (!is_scatter(statement)) continue;
    int64_t plain = 1, points = 1;
    for (const Iterator& it : statement.domain) (it.reduction ? points : plain) *= extent_of(it);
    const Places places = places_of(statement, program);
    const int64_t owners = std::min(
        {places.last + 1 - places.first, points, divide_up(tasks, std::max<int64_t>(1, plain))});
    if (owners > 1) statement = owned(statement, places, static_cast<int>(owners));
  }
}

void share_scatters(Program& program, Layouts& layouts, const CpuMachine& machine) {
  Sharing sharing(program, layouts, machine);
  replace_statements(program, [&](const Statement& statement) {
    return is_scatter(statement) && machine.threads > 1 ? sharing.share(statement)
                                                        : std::vector<Statement>{statement};
  });
}

}  // namespace tc::ir
