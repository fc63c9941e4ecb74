#include "rewrite/domains/unroll_choices.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/walk.h"
#include "ir/operations.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::rewrite {
namespace {

using ir::Expr;

/// Whether `find` gives some expression of the index alone for a part of the value outside of
/// reads.
template <class Find>
bool has_part_of(const std::string& index, const Expr& value, const Find& find) {
  bool found = false;
  ir::walk(value, [&](const Expr& e) {
    const auto* call = e.as<Halide::Internal::Call>();
    if (call && !ir::read_name(call).empty()) return false;
    if (const Expr part = find(e); part.defined() && !ir::has_data(part))
      found = found || ir::variables_of(part) == std::set<std::string>{index};
    return true;
  });
  return found;
}

/// Whether an index alone decides which side of some choice is computed.
bool chooses(const std::string& index, const Expr& value) {
  return has_part_of(index, value, [](const Expr& e) {
    const auto choice = ir::find_choice(e);
    return choice ? choice->condition : Expr();
  });
}

/// Whether an index alone is the exponent of some power: those by a literal are a few products.
bool raises(const std::string& index, const Expr& value) {
  return has_part_of(index, value, [](const Expr& e) {
    const auto* call = e.as<Halide::Internal::Call>();
    return call && ir::math_name(call) == "pow" ? call->args[1] : Expr();
  });
}

/// The index of a reduction that is written out next.
std::optional<ir::Iterator> find_short(const ir::Statement& statement) {
  const int64_t instructions = ir::count_instructions(statement.value);
  for (const ir::Iterator& iterator : ir::reduced_indices(statement)) {
    const auto extent = Halide::Internal::as_const_int(iterator.extent);
    const bool guards = statement.guard.defined() &&
                        Halide::Internal::expr_uses_var(statement.guard, iterator.name);
    if (!extent || *extent < 2 || guards) continue;
    if (*extent <= machine::kWrittenTerms &&
        *extent * instructions <= machine::kWrittenInstructions &&
        chooses(iterator.name, statement.value))
      return iterator;
    if (*extent <= machine::kWrittenPowers && raises(iterator.name, statement.value))
      return iterator;
  }
  return std::nullopt;
}

/// Numbers for what was said of an index: float(2) - 1.0, which Halide rounds as the machine does.
Expr fold_numbers(const Expr& e) {
  using namespace Halide::Internal;
  const auto fold = [](const auto* op, ir::Mutator& self) -> Expr {
    using Node = std::remove_cv_t<std::remove_pointer_t<decltype(op)>>;
    const Expr a = self.mutate(op->a), b = self.mutate(op->b), folded = Node::make(a, b);
    return is_const(a) && is_const(b) ? simplify(folded) : folded;
  };
  return ir::mutate(
      e,
      [](const Cast* op, ir::Mutator& self) {
        const Expr value = self.mutate(op->value);
        return is_const(value) ? simplify(Cast::make(op->type, value))
                               : Cast::make(op->type, value);
      },
      [&](const Add* op, ir::Mutator& self) { return fold(op, self); },
      [&](const Sub* op, ir::Mutator& self) { return fold(op, self); },
      [&](const Mul* op, ir::Mutator& self) { return fold(op, self); },
      [&](const EQ* op, ir::Mutator& self) { return fold(op, self); });
}

void write_out(ir::Statement& statement, const ir::Iterator& index) {
  Expr sum;
  for (int64_t k = 0; k < *Halide::Internal::as_const_int(index.extent); ++k) {
    const Expr place = Halide::Internal::make_const(Halide::Int(32), k);
    Expr term = fold_numbers(Halide::Internal::substitute(index.name, place, statement.value));
    term = ir::decide_repeated_conditions(ir::simplify_integers(term, {}));
    // Sums of bools are what one of them says.
    if (sum.defined()) term = term.type().is_bool() ? sum || term : sum + term;
    sum = term;
  }
  statement.value = sum;
  std::vector<ir::Iterator>& domain = statement.domain;
  domain.erase(std::find_if(domain.begin(), domain.end(),
                            [&](const ir::Iterator& each) { return each.name == index.name; }));
}

}  // namespace

void unroll_choices(ir::Program& program) {
  for (ir::Statement& statement : program.statements) {
    if (statement.reduction != ir::Reduction::Sum || ir::is_scatter(statement)) continue;
    ir::Statement written = statement;
    while (const auto index = find_short(written)) write_out(written, *index);
    if (!ir::reduced_indices(written).empty()) continue;
    if (written.initializes) ir::assign(written);
    statement = written;
  }
}

}  // namespace tc::rewrite
