#include "rewrite/domains/split_ranges.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "ir/accesses.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/integer_value.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/loops.h"
#include "ir/operations.h"
#include "ir/scan.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "poly/index_sets.h"

namespace tc::rewrite {
namespace {

using namespace ir;

/// factor * index + offset for first <= index < end.
struct Piece {
  int64_t first, end, factor, offset;
  int64_t at(int64_t index) const { return factor * index + offset; }
};
using Pieces = std::vector<Piece>;

int64_t first_of(const isl::set& points) { return poly::to_integer(points.dim_min_val(0)); }

/// Takes the first integers without a gap out of a set of one dimension: from where, and up to
/// what.
std::pair<int64_t, int64_t> take_run(isl::set& points) {
  const auto from = [&](int64_t bound) {
    return isl::manage(isl_set_lower_bound_si(isl::set::universe(points.space()).release(),
                                              isl_dim_set, 0, static_cast<int>(bound)));
  };
  const int64_t first = first_of(points), end = first_of(from(first).subtract(points));
  points = points.intersect(from(end));
  return {first, end};
}

/// Adds where points of one dimension begin and end, up to more than so many ends.
void add_ends(isl::set points, size_t most, std::set<int64_t>& ends) {
  while (!points.is_empty() && ends.size() <= most) {
    const auto [first, end] = take_run(points);
    if (first > 0) ends.insert(first);
    ends.insert(end);
  }
}

/// The pieces of a function of one index on which it is affine.
class AffinePieces {
 public:
  /// Nothing where there are too many.
  std::optional<Pieces> find(const isl::pw_aff& function) {
    function.foreach_piece(
        [&](const isl::set& points, const isl::multi_aff& piece) { cut(points, piece.at(0), 0); });
    if (found_.size() > machine::kSubscriptPieces) return std::nullopt;
    std::sort(found_.begin(), found_.end(),
              [](const Piece& a, const Piece& b) { return a.first < b.first; });
    Pieces joined;
    for (const Piece& piece : found_) {
      if (std::abs(piece.offset) > std::numeric_limits<int32_t>::max()) return std::nullopt;
      if (joined.empty() || !join(joined.back(), piece)) joined.push_back(piece);
    }
    return joined;
  }

 private:
  /// Makes one piece of two neighbours, if it says what both say.
  static bool join(Piece& before, const Piece& piece) {
    const auto holds = [](const Piece& a, const Piece& b) {
      return a.at(b.first) == b.at(b.first) && a.at(b.end - 1) == b.at(b.end - 1);
    };
    if (!holds(before, piece)) {
      if (!holds(piece, before)) return false;
      before.factor = piece.factor;
      before.offset = piece.offset;
    }
    before.end = piece.end;
    return true;
  }

  static int64_t value_at(const isl::pw_aff& function, int64_t index) {
    isl::val place(function.ctx(), static_cast<long>(index));
    isl_point* point = isl_point_zero(function.domain().space().release());
    point = isl_point_set_coordinate_val(point, isl_dim_set, 0, place.release());
    return poly::to_integer(function.eval(isl::manage(point)));
  }

  /// Into the points on which each quotient, from the given one on, has one value.
  void cut(isl::set points, const isl::aff& function, int quotient) {
    if (quotient == isl_aff_dim(function.get(), isl_dim_div)) return add_runs(points, function);
    const isl::aff exact = isl::manage(isl_aff_get_div(function.get(), quotient));
    const isl::pw_aff value = isl::pw_aff(exact.floor()).intersect_domain(points);
    while (found_.size() <= machine::kSubscriptPieces && !points.is_empty()) {
      const int64_t number = value_at(value, first_of(points));
      const isl::set part = isl::manage(
          isl_pw_aff_zero_set(value.add_constant(static_cast<long>(-number)).release()));
      cut(part, function, quotient + 1);
      points = points.subtract(part);
    }
  }

  void add_runs(isl::set points, const isl::pw_aff& function) {
    while (found_.size() <= machine::kSubscriptPieces && !points.is_empty()) {
      const auto [first, end] = take_run(points);
      const int64_t before = value_at(function, first), last = value_at(function, end - 1);
      const int64_t factor = end - first > 1 ? (last - before) / (end - 1 - first) : 0;
      found_.push_back({first, end, factor, before - factor * first});
    }
  }

  Pieces found_;
};

/// Gives reads the subscripts that they have on the piece that begins with `first`.
Expr straighten(const Expr& e, const std::vector<std::pair<Expr, Pieces>>& subscripts,
                const std::string& index, int64_t first) {
  auto straight = [&](const Pieces& pieces) {
    auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      return piece.first <= first && first < piece.end;
    });
    TC_INTERNAL_CHECK(piece != pieces.end(), "no piece of ", index, " holds ", first);
    return simplify(make_variable(index) * static_cast<int>(piece->factor) +
                    static_cast<int>(piece->offset));
  };
  return mutate(e, [&](const Call* op, Mutator& self) {
    if (read_name(op).empty()) return self.inside(op);
    return map_arguments(op, op->type, [&](const Expr& arg) {
      auto found = std::find_if(subscripts.begin(), subscripts.end(),
                                [&](const auto& each) { return equal(each.first, arg); });
      return found == subscripts.end() ? self.mutate(arg) : straight(found->second);
    });
  });
}

/// How to take a statement apart.
struct Cut {
  size_t iterator = 0;
  std::vector<std::pair<Expr, Pieces>> subscripts;  ///< that are affine on pieces only
  std::vector<Expr> clamped;  ///< subscripts of contiguous dimensions, periodic but for their ends
  bool decides = false;       ///< conditions, one way on each segment
  std::vector<int64_t> ends;  ///< of the segments
};

/// Where the extremes and choices in a subscript of this index alone turn from one side to the
/// other; nothing where that is not known.
std::optional<std::set<int64_t>> find_turns(const Expr& subscript, const Iterator& it) {
  std::vector<Expr> conditions;
  const auto add = [&](const Expr& condition) { conditions.push_back(condition); };
  visit(
      subscript, [&](const Min* op, Visitor& self) { add(op->a <= op->b), self.inside(op); },
      [&](const Max* op, Visitor& self) { add(op->a >= op->b), self.inside(op); },
      [&](const Select* op, Visitor& self) { add(op->condition), self.inside(op); });
  std::set<int64_t> turns;
  poly::Context context;
  const poly::IndexSets row(context.get(), {it});
  for (const Expr& condition : conditions) {
    const std::optional<isl::set> holds = row.where(condition);
    if (!holds) return std::nullopt;
    add_ends(*holds, machine::kSubscriptPieces, turns);
  }
  context.require_memory();
  if (turns.size() > machine::kSubscriptPieces) return std::nullopt;
  return turns;
}

/// The longest segment between these ends.
std::pair<int64_t, int64_t> longest_segment(const std::set<int64_t>& ends) {
  std::pair<int64_t, int64_t> longest = {0, 0};
  int64_t first = 0;
  for (int64_t end : ends) {
    if (end - first > longest.second - longest.first) longest = {first, end};
    first = end;
  }
  return longest;
}

/// The subscripts of a read that are not affine in the index; false where they are not made of it
/// alone, by affine pieces, or by quotients and remainders between a few `turns`.
bool add_subscripts(const Statement& statement, const MemoryAccess& read, const Iterator& it,
                    const Layout& layout, Cut& cut, std::set<int64_t>& ends,
                    std::set<int64_t>& turns) {
  for (size_t d = 0; d < read.subscripts.size(); ++d) {
    const Expr& subscript = read.subscripts[d];
    if (!expr_uses_var(subscript, it.name) || ir::step_along(subscript, it.name)) continue;
    if (std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& other) {
          return other.name != it.name && expr_uses_var(subscript, other.name);
        }))
      return false;
    poly::Context context;
    poly::IndexSets row(context.get(), {it});
    row.most_pieces = machine::kSubscriptPieces;
    const auto function = row.value(subscript);
    const auto pieces = function ? AffinePieces().find(*function) : std::nullopt;
    context.require_memory();
    if (!pieces) {
      const auto found = function ? find_turns(subscript, it) : std::nullopt;
      if (!found) return false;
      if (!found->empty() && layout.strides[d] == 1) cut.clamped.push_back(subscript);
      turns.insert(found->begin(), found->end());
      continue;
    }
    for (const Piece& piece : *pieces) ends.insert(piece.end);
    cut.subscripts.emplace_back(subscript, *pieces);
  }
  return true;
}

bool computes(const Expr& e) {
  bool found = false;
  for_each_operation(e, [&](const Operation& each) {
    found = found || each.kind == OperationKind::Arithmetic || each.kind == OperationKind::Function;
  });
  return found;
}

/// Where conditions by this index alone begin to hold, or cease to. Of a choice between what is
/// computed a vector computes both sides; a choice of reads is two loads, no slower than loops for
/// each.
void add_choices(const Statement& statement, const Iterator& it, Cut& cut,
                 std::set<int64_t>& ends) {
  std::vector<Expr> conditions;
  const auto add = [&](const Expr& e) {
    const std::optional<Choice> choice = find_choice(e);
    if (!choice || !(computes(choice->yes) || computes(choice->no))) return;
    for (const Expr& condition : list_conditions(choice->condition))
      if (!has_data(condition) && variables_of(condition) == std::set<std::string>{it.name})
        conditions.push_back(condition);
  };
  visit(
      statement.value,
      [&](const Select* op, Visitor& self) {
        add(op);
        self.inside(op);
      },
      [&](const Call* op, Visitor& self) {
        add(op);
        if (read_name(op).empty()) self.inside(op);
      });
  if (conditions.empty()) return;
  std::set<int64_t> all = ends;
  poly::Context context;
  const poly::IndexSets row(context.get(), {it});
  for (const Expr& condition : conditions) {
    const std::optional<isl::set> holds = row.where(condition);
    if (holds) add_ends(*holds, machine::kRowSegments, all);
  }
  context.require_memory();
  int64_t shortest = extent_of(it), begin = 0;
  for (int64_t end : all) {
    shortest = std::min(shortest, end - begin);
    begin = end;
  }
  if (all.size() == ends.size() || all.size() > machine::kRowSegments ||
      shortest < machine::kSplitRow)
    return;
  cut.decides = true;
  ends = std::move(all);
}

/// Whether what was no neighbour is one from `first` on.
bool reads_neighbours(const std::vector<MemoryAccess>& accesses, const Iterator& it, const Cut& cut,
                      const Program& program, const Layouts& layouts, int64_t first) {
  return std::any_of(accesses.begin(), accesses.end() - 1, [&](const MemoryAccess& read) {
    MemoryAccess straight = read;
    const Expr value = straighten(ir::read(program.tensor(read.tensor), read.subscripts),
                                  cut.subscripts, it.name, first);
    straight.subscripts = value.as<Call>()->args;
    auto before = stride_along(read, layouts.at(read.tensor), it.name);
    auto after = stride_along(straight, layouts.at(read.tensor), it.name);
    return !before && after && std::abs(*after) <= 1;
  });
}

/// Whether a vector's lanes from `first` on lie so near to each other that they come from few loads
/// of neighbours (codegen/vectors/near_gathers), which need no extremes in their places.
bool reads_nearby(const Iterator& it, const Cut& cut, int64_t first) {
  const int64_t lanes = machine::kSplitRow;
  return std::any_of(cut.clamped.begin(), cut.clamped.end(), [&](const Expr& subscript) {
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const auto place = integer_value(subscript, {{it.name, first + lane}});
      if (!place) return false;
      least = std::min(least, *place);
      most = std::max(most, *place);
    }
    return most - least < lanes * static_cast<int64_t>(machine::kNeighbourLoads);
  });
}

std::optional<Cut> find_cut(const Statement& statement, const Program& program,
                            const Layouts& layouts) {
  if (statement.reduction != Reduction::None || statement.guard.defined() || is_scan(statement) ||
      reads(statement, statement.tensor))
    return std::nullopt;
  const std::vector<MemoryAccess> accesses = ir::accesses(program, statement);
  const MemoryAccess& write = accesses.back();
  Cut cut;
  while (cut.iterator < statement.domain.size() &&
         stride_along(write, layouts.at(write.tensor), statement.domain[cut.iterator].name) != 1)
    ++cut.iterator;
  if (cut.iterator == statement.domain.size()) return std::nullopt;
  const Iterator& it = statement.domain[cut.iterator];
  if (extent_of(it) < machine::kSplitRow) return std::nullopt;
  std::set<int64_t> ends = {extent_of(it)}, turns;
  for (size_t a = 0; a + 1 < accesses.size(); ++a)
    if (!add_subscripts(statement, accesses[a], it, layouts.at(accesses[a].tensor), cut, ends,
                        turns))
      return std::nullopt;
  // Extremes stay in what lies around the longest segment without a turn.
  turns.insert(ends.begin(), ends.end());
  const auto [first, end] = longest_segment(turns);
  const bool clamps =
      !cut.clamped.empty() && end - first >= machine::kSplitRow && reads_nearby(it, cut, first);
  if (clamps) ends.insert({first, end});
  ends.erase(0);
  add_choices(statement, it, cut, ends);
  if (ends.size() > machine::kRowSegments) return std::nullopt;
  cut.ends.assign(ends.begin(), ends.end());
  const bool gains =
      clamps || cut.decides ||
      (!cut.subscripts.empty() &&
       reads_neighbours(accesses, it, cut, program, layouts, longest_segment(ends).first));
  if (!clamps) cut.clamped.clear();
  return gains ? std::optional<Cut>(cut) : std::nullopt;
}

std::vector<Statement> split(const Statement& statement, const Cut& cut) {
  const std::string& index = statement.domain[cut.iterator].name;
  std::vector<Statement> statements;
  int64_t first = 0;
  for (int64_t end : cut.ends) {
    Statement part = statement;
    part.domain[cut.iterator].extent = static_cast<int>(end - first);
    part.value = straighten(part.value, cut.subscripts, index, first);
    substitute_indices(part, {{index, make_variable(index) + static_cast<int>(first)}});
    if (cut.decides || !cut.clamped.empty()) {
      Bounds bounds;
      bounds.push(index, Interval(0, static_cast<int>(end - first - 1)));
      part.value = decide_repeated_conditions(simplify_integers(part.value, bounds));
    }
    statements.push_back(std::move(part));
    first = end;
  }
  return statements;
}

}  // namespace

void split_ranges(Program& program, const Layouts& layouts) {
  replace_statements(program, [&](const Statement& statement) {
    const std::optional<Cut> cut = find_cut(statement, program, layouts);
    return cut ? split(statement, *cut) : std::vector<Statement>{statement};
  });
}

}  // namespace tc::rewrite
