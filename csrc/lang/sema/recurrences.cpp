#include "lang/sema/recurrences.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/wide_integers.h"
#include "ir/in_place.h"
#include "lang/sema/roles.h"
#include "lang/syntax/tree.h"
#include "poly/index_sets.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

using ir::Expr;

// Of isl's, on one statement: two thousand are usual. What takes more is left to the call, where
// sizes are numbers.
constexpr unsigned long kMostOperations = 200'000;

/// A read of what the statement writes, under conditions that all hold.
struct OwnRead {
  std::vector<Expr> subscripts;
  std::vector<Expr> conditions;
};

/// The reads of a tensor in an expression that no size makes go away.
class OwnReads : public IRVisitor {
 public:
  explicit OwnReads(const std::string& tensor) : tensor_(tensor) {}
  std::vector<OwnRead> found;

 private:
  using IRVisitor::visit;

  void under(const Expr& condition, const Expr& value) {
    size_t before = conditions_.size();
    add(condition);
    value.accept(this);
    conditions_.resize(before);
  }

  void add(const Expr& condition) {
    if (const auto* both = condition.as<And>()) {
      add(both->a);
      add(both->b);
      return;
    }
    if (const auto* negation = condition.as<Not>()) {
      if (const auto* either = negation->a.as<Or>()) {
        add(!either->a);
        add(!either->b);
        return;
      }
      if (const auto* twice = negation->a.as<Not>()) return add(twice->a);
    }
    conditions_.push_back(condition);
  }

  void choice(const Expr& condition, const Expr& yes, const Expr& no) {
    condition.accept(this);
    under(condition, yes);
    under(!condition, no);
  }
  void visit(const Select* op) override { choice(op->condition, op->true_value, op->false_value); }
  void visit(const And* op) override { choice(op->a, op->b, const_false()); }
  void visit(const Or* op) override { choice(op->a, const_true(), op->b); }

  /// Of integers, what no data decides may come to a number that leaves the rest without effect.
  template <class Node>
  void combination(const Node* op) {
    if (op->type.is_float()) return IRVisitor::visit(op);
    for (auto [operand, other] : {std::pair(op->a, op->b), std::pair(op->b, op->a)})
      if (ir::has_data(other) || is_const(other)) operand.accept(this);
  }
  void visit(const Mul* op) override { combination(op); }
  void visit(const Div* op) override { combination(op); }
  void visit(const Mod* op) override { combination(op); }
  void visit(const Min* op) override { combination(op); }
  void visit(const Max* op) override { combination(op); }

  void visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3)
      return choice(op->args[0], op->args[1], op->args[2]);
    if (op->is_intrinsic() && op->args.size() == 2 && !op->type.is_float() &&
        ir::read_name(op).empty()) {
      for (size_t k = 0; k < 2; ++k)
        if (ir::has_data(op->args[1 - k]) || is_const(op->args[1 - k])) op->args[k].accept(this);
      return;
    }
    if (ir::read_name(op) == tensor_) found.push_back({op->args, conditions_});
    IRVisitor::visit(op);
  }

  const std::string& tensor_;
  std::vector<Expr> conditions_;
};

/// Says of one statement for which sizes it reads what it writes elsewhere.
class InPlace {
 public:
  InPlace(const ir::Program& program, const ir::Statement& statement)
      : program_(program), statement_(statement) {
    isl_ctx_set_max_operations(context_.raw(), kMostOperations);
  }

  bool is_never_right(const std::vector<OwnRead>& reads) try {
    const poly::IndexSets writing = points(0), reading = points(1);
    isl::set conflicts = writing.points().subtract(writing.points());
    for (const OwnRead& read : reads)
      if (auto found = conflict(writing, reading, read)) conflicts = conflicts.unite(*found);
    if (conflicts.is_empty()) return false;
    const std::optional<isl::set> counts = what_counts(conflicts, writing, reading);
    const bool never =
        counts && !counts->is_empty() && sizes_of(*counts).is_subset(sizes_of(conflicts));
    context_.require_memory();
    return never;
  } catch (const isl::exception&) {
    return false;
  }

 private:
  /// { [sizes, the point that writes, the one that reads] }, with the names of one of the points.
  poly::IndexSets points(size_t which) const {
    const size_t sizes = program_.sizes.size(), indices = statement_.domain.size();
    std::vector<std::string> names = program_.sizes;
    names.resize(sizes + 2 * indices);
    for (size_t k = 0; k < indices; ++k)
      names[sizes + which * indices + k] = statement_.domain[k].name;
    isl_set* all = isl_set_universe(
        isl_space_set_alloc(context_.raw(), 0, static_cast<unsigned>(names.size())));
    for (unsigned k = 0; k < sizes; ++k) all = isl_set_lower_bound_si(all, isl_dim_set, k, 0);
    return poly::IndexSets(isl::manage(all), names);
  }

  isl::set sizes_of(const isl::set& points) const {
    const auto sizes = static_cast<unsigned>(program_.sizes.size());
    const auto indices = static_cast<unsigned>(2 * statement_.domain.size());
    return isl::manage(isl_set_project_out(points.copy(), isl_dim_set, sizes, indices));
  }

  /// The pairs of points of which the second reads here what the first writes.
  std::optional<isl::set> conflict(const poly::IndexSets& writing, const poly::IndexSets& reading,
                                   const OwnRead& read) const {
    isl::set conflicts = writing.points(), same = conflicts;
    for (const ir::Iterator& it : statement_.domain) {
      const Expr index = ir::make_variable(it.name);
      for (const poly::IndexSets* point : {&writing, &reading}) {
        const auto runs = point->where(it.min <= index && index < it.min + it.extent);
        if (!runs) return std::nullopt;
        conflicts = conflicts.intersect(*runs);
      }
      same = same.intersect(writing.value(index)->eq_set(*reading.value(index)));
    }
    for (const Expr& condition : read.conditions) {
      const std::optional<isl::set> holds = reading.where(condition);
      // What data decides may be, whatever the sizes are.
      if (!holds && !ir::has_data(condition)) return std::nullopt;
      if (holds) conflicts = conflicts.intersect(*holds);
    }
    for (size_t d = 0; d < statement_.subscripts.size(); ++d) {
      const auto written = writing.value(statement_.subscripts[d]),
                 place = reading.value(read.subscripts[d]);
      // Data may lead anywhere.
      if (!written || (!place && !ir::has_data(read.subscripts[d]))) return std::nullopt;
      if (place) conflicts = conflicts.intersect(written->eq_set(*place));
    }
    return conflicts.subtract(same);
  }

  /// The sizes that leave several values to every index along which it reads elsewhere, and one to
  /// the others.
  std::optional<isl::set> what_counts(const isl::set& conflicts, const poly::IndexSets& writing,
                                      const poly::IndexSets& reading) const {
    isl::set counts = writing.points();
    for (const ir::Iterator& it : statement_.domain) {
      const Expr index = ir::make_variable(it.name);
      const isl::set along = writing.value(index)->ne_set(*reading.value(index));
      const bool several = !conflicts.intersect(along).is_empty();
      const std::optional<isl::set> enough = writing.where(it.extent >= (several ? 2 : 1));
      if (!enough) return std::nullopt;
      counts = counts.intersect(*enough);
    }
    return counts;
  }

  const ir::Program& program_;
  const ir::Statement& statement_;
  poly::Context context_;
};

/// Whether every point reads no place but its own.
bool reads_own_place(const ir::Statement& statement, const OwnRead& read) {
  return ir::reduced_indices(statement).empty() &&
         std::equal(read.subscripts.begin(), read.subscripts.end(), statement.subscripts.begin(),
                    [](const Expr& a, const Expr& b) { return equal(a, b); });
}

bool may_read_own(const TreeStatement& statement) {
  return !statement.scatters() && reads(statement, statement.target.name);
}

/// The value with quotients of what is not negative as such, which only texts of C's make choices.
Expr simple_value(const ir::Program& program, const ir::Statement& statement) {
  ir::Bounds bounds;
  for (const std::string& size : program.sizes)
    bounds.push(size, Interval(Expr(0), Interval::pos_inf()));
  for (const ir::Iterator& it : statement.domain)
    if (!is_const_one(it.extent))
      bounds.push(it.name, Interval(it.min, simplify(it.min + it.extent - 1)));
  const Expr simple = ir::simplify_integers(statement.value, bounds);
  return ir::overflows(simple) ? statement.value : simple;
}

}  // namespace

void refuse_recurrences(const Definition& definition) {
  const std::vector<TreeStatement>& trees = definition.tree->statements;
  if (std::none_of(trees.begin(), trees.end(), may_read_own)) return;
  for (const auto& entry : definition.signature.scalars)
    if (entry.second.specialized) return;
  const ir::Program program = infer_ranges(definition, {});
  for (const ir::Statement& statement : program.statements) {
    if (ir::is_scatter(statement)) continue;
    OwnReads own(statement.tensor);
    simple_value(program, statement).accept(&own);
    std::vector<OwnRead> elsewhere;
    for (const OwnRead& read : own.found)
      if (!reads_own_place(statement, read)) elsewhere.push_back(read);
    if (elsewhere.empty()) continue;
    if (InPlace(program, statement).is_never_right(elsewhere))
      throw LanguageError(statement.where, ir::in_place_message(statement));
  }
}

}  // namespace tc::lang
