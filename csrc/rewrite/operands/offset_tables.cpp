#include "rewrite/operands/offset_tables.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/intervals.h"
#include "machine/limits.h"
#include "rewrite/canonical/order_reductions.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

/// The terms of a sum, and what they are multiplied with.
struct Term {
  Expr value;
  int64_t factor = 1;
};

void collect_terms(const Expr& e, int64_t factor, std::vector<Term>& terms) {
  if (const auto* add = e.as<Add>()) {
    collect_terms(add->a, factor, terms);
    collect_terms(add->b, factor, terms);
  } else if (const auto* sub = e.as<Sub>()) {
    collect_terms(sub->a, factor, terms);
    collect_terms(sub->b, -factor, terms);
  } else {
    terms.push_back({e, factor});
  }
}

/// An input's offset along some indices, taken out of its subscripts.
struct Offset {
  Expr value;                   ///< in steps of `stride`
  std::vector<Expr> rest;       ///< subscripts without it
  size_t dimension = 0;         ///< that it is added to, of this stride
  std::set<std::string> along;  ///< these indices
};

class OffsetTables : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  void run() {
    put_in_front(program_, [&](Statement& statement) {
      const bool reduces = statement.reduction != Reduction::None && !is_scatter(statement);
      return reduces &&
                     count_points(kept_indices(statement)) >= machine_.least(machine::kTableResults)
                 ? rewrite(statement)
                 : std::vector<Statement>();
    });
  }

  /// Makes the statement read through tables, and returns the statements that fill them.
  std::vector<Statement> rewrite(Statement& statement) {
    std::vector<Statement> tables;
    for (const MemoryAccess& access : accesses(program_, statement)) {
      std::optional<Offset> offset = find_offset(statement, access);
      if (!offset) continue;
      order_reductions(program_, layouts_, statement, access.tensor);
      tables.push_back(make_table(statement, access, *offset));
      const Tensor& table = program_.tensor(tables.back().tensor);
      std::vector<Expr> subscripts = offset->rest;
      subscripts[offset->dimension] =
          simplify_index(subscripts[offset->dimension] + read(table, tables.back().subscripts));
      Expr from = read(program_.tensor(access.tensor), access.subscripts);
      Expr to = read(program_.tensor(access.tensor), subscripts);
      statement.value = substitute(from, to, statement.value);
    }
    return tables;
  }

 private:
  std::optional<Offset> find_offset(const Statement& statement, const MemoryAccess& access) const {
    const Tensor& tensor = program_.tensor(access.tensor);
    if (access.write || access.conditional || tensor.role != TensorRole::Input ||
        !is_gather(access, program_))
      return std::nullopt;
    const bool copies = statement.reduction == Reduction::None;
    std::vector<std::vector<Term>> terms(access.subscripts.size());
    Offset offset;
    int tables = 0;
    for (size_t d = 0; d < terms.size(); ++d) {
      collect_terms(access.subscripts[d], 1, terms[d]);
      for (const Term& term : terms[d]) {
        int reads = count_reads(term.value);
        if (reads == 0) continue;
        tables += reads;
        for (const Iterator& it : statement.domain) {
          if (!expr_uses_var(term.value, it.name)) continue;
          if (!it.reduction && !copies) return std::nullopt;
          offset.along.insert(it.name);
        }
      }
    }
    // Other reductions that the place moves along; a contiguous one may serve better as a vector.
    for (const Iterator& it : statement.domain) {
      if (!it.reduction || offset.along.count(it.name)) continue;
      const auto step = stride(access, it);
      if (step && std::abs(*step) > 1) offset.along.insert(it.name);
    }
    int64_t entries = 1;
    for (const Iterator& it : statement.domain) {
      if (!offset.along.count(it.name)) continue;
      entries *= extent_of(it);
      // What the second cache keeps beside operands.
      if (entries * Halide::Int(32).bytes() > machine_.cache_bytes / 4) return std::nullopt;
    }
    // A single table serves a copy as well as one of offsets.
    if (tables < (copies ? 2 : 1) || tables + offset.along.size() < 3 || entries < 2)
      return std::nullopt;
    return split(statement, access, terms, offset) ? std::optional(offset) : std::nullopt;
  }

  /// Fills in what moves along `offset.along` only, and what is left.
  bool split(const Statement& statement, const MemoryAccess& access,
             const std::vector<std::vector<Term>>& terms, Offset& offset) const {
    const Layout& layout = layouts_.at(access.tensor);
    auto moves = [&](const Expr& e, bool along) {
      return std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& it) {
        return (offset.along.count(it.name) > 0) == along && expr_uses_var(e, it.name);
      });
    };
    int64_t span = 0;
    std::vector<Expr> parts(terms.size());
    for (size_t d = 0; d < terms.size(); ++d) {
      Expr part = 0, rest = 0;
      for (const Term& term : terms[d]) {
        if (moves(term.value, true) && moves(term.value, false)) return false;
        const bool is_part = moves(term.value, true) || count_reads(term.value) > 0;
        Expr& sum = is_part ? part : rest;
        sum = sum + term.value * static_cast<int>(term.factor);
      }
      parts[d] = simplify_index(part);
      offset.rest.push_back(simplify_index(rest));
      // Parts and rests that come to places inside may lie far outside themselves: of 32 bits, too,
      // is what one of them is multiplied with its stride to.
      std::optional<int64_t> distance = 0;
      if (!is_const_zero(parts[d])) distance = largest_magnitude(statement, offset.rest[d]);
      if (!distance) return false;
      const int64_t stride = std::max<int64_t>(std::abs(layout.strides[d]), 1);
      const int64_t room = std::numeric_limits<int32_t>::max() - span;
      if (layout.sizes[d] + *distance > room / stride) return false;
      span += (layout.sizes[d] + *distance) * stride;
    }
    // The table counts in the smallest step along which something moves, if all others are
    // multiples of it, or else of all. What lies in rows then keeps a dimension for them.
    std::optional<size_t> unit = find_unit(parts, layout, true);
    if (!unit) unit = find_unit(parts, layout, false);
    if (!unit) return false;
    offset.value = 0;
    for (size_t d = 0; d < parts.size(); ++d)
      if (!is_const_zero(parts[d]))
        offset.value =
            offset.value + parts[d] * static_cast<int>(layout.strides[d] / layout.strides[*unit]);
    offset.value = simplify_index(offset.value);
    offset.dimension = *unit;
    return true;
  }

  /// Of what indices alone decide; nothing where intervals do not bound it.
  static std::optional<int64_t> largest_magnitude(const Statement& statement, const Expr& e) {
    const ConstantInterval interval =
        constant_integer_bounds(e, ir::index_intervals(statement.domain));
    if (!interval.is_bounded()) return std::nullopt;
    return std::max(std::abs(interval.min), std::abs(interval.max));
  }

  /// The dimension of the smallest stride, of those that a part moves along or of all, to which the
  /// strides of all parts are multiples.
  static std::optional<size_t> find_unit(const std::vector<Expr>& parts, const Layout& layout,
                                         bool moved) {
    auto moves = [&](size_t d) { return !is_const_zero(parts[d]); };
    std::optional<size_t> unit;
    for (size_t d = 0; d < parts.size(); ++d)
      if (layout.strides[d] > 0 && (moves(d) || !moved) &&
          (!unit || layout.strides[d] < layout.strides[*unit]))
        unit = d;
    for (size_t d = 0; unit && d < parts.size(); ++d)
      if (moves(d) && layout.strides[d] % layout.strides[*unit] != 0) return std::nullopt;
    return unit;
  }

  Statement make_table(const Statement& statement, const MemoryAccess& access,
                       const Offset& offset) {
    std::vector<Iterator> over;
    for (const Iterator& it : statement.domain)
      if (offset.along.count(it.name)) over.push_back(it);
    Statement fill = make_temporary(access.tensor + ".offsets", offset.value, over, statement.where,
                                    "offsets in " + access.tensor);
    fill.counts = true;
    return fill;
  }
};

}  // namespace

void make_offset_tables(Program& program, Layouts& layouts, const CpuMachine& machine) {
  OffsetTables(program, layouts, machine).run();
}

std::vector<Statement> make_offset_tables(Program& program, Layouts& layouts,
                                          const CpuMachine& machine, Statement& statement) {
  return OffsetTables(program, layouts, machine).rewrite(statement);
}

}  // namespace tc::ir
