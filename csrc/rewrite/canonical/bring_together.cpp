#include "rewrite/canonical/bring_together.h"

#include <algorithm>
#include <vector>

#include "ir/expressions/reads.h"
#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"

namespace tc::ir {

namespace {

/// Reads of tensors with the number of each index in the domain for its name.
std::vector<Expr> numbered_reads(const Statement& statement) {
  std::map<std::string, Expr> numbers;
  for (size_t d = 0; d < statement.domain.size(); ++d)
    numbers[statement.domain[d].name] = make_variable(std::to_string(d));
  std::vector<Expr> numbered;
  for (const Call* read : reads_of(statement))
    if (!read->args.empty()) numbered.push_back(substitute(numbers, Expr(read)));
  return numbered;
}

bool read_the_same(const Statement& a, const Statement& b) {
  const std::vector<Expr> here = numbered_reads(a), there = numbered_reads(b);
  return std::any_of(here.begin(), here.end(), [&](const Expr& x) {
    return std::any_of(there.begin(), there.end(), [&](const Expr& y) { return equal(x, y); });
  });
}

bool share_a_pass(const Statement& a, const Statement& b) {
  if (a.reduction == Reduction::None || b.reduction == Reduction::None || is_scatter(a) ||
      is_scatter(b) || a.domain.size() != b.domain.size())
    return false;
  for (size_t d = 0; d < a.domain.size(); ++d)
    if (a.domain[d].reduction != b.domain[d].reduction ||
        extent_of(a.domain[d]) != extent_of(b.domain[d]))
      return false;
  return read_the_same(a, b);
}

bool may_swap(const Statement& a, const Statement& b) {
  return a.tensor != b.tensor && !reads(a, b.tensor) && !reads(b, a.tensor);
}

/// Moves the statement at `from` in front of that at `to`.
void move_up(std::vector<Statement>& statements, size_t from, size_t to) {
  std::rotate(statements.begin() + static_cast<std::ptrdiff_t>(to),
              statements.begin() + static_cast<std::ptrdiff_t>(from),
              statements.begin() + static_cast<std::ptrdiff_t>(from) + 1);
}

/// Numbers that can be known before everything else.
void lead_with_numbers(std::vector<Statement>& statements) {
  size_t end = 0;  // of those in front
  for (size_t s = 0; s < statements.size(); ++s) {
    if (points_of(statements[s].domain) != 1 || is_scatter(statements[s])) continue;
    if (std::all_of(statements.begin() + static_cast<std::ptrdiff_t>(end),
                    statements.begin() + static_cast<std::ptrdiff_t>(s),
                    [&](const Statement& other) { return may_swap(other, statements[s]); }))
      move_up(statements, s, end++);
  }
}

/// Sums over the same data.
void join_passes(std::vector<Statement>& statements, double least) {
  for (size_t s = 2; s < statements.size(); ++s) {
    if (points_of(statements[s].domain) < least) continue;
    for (size_t e = s; e-- > 0;) {
      if (share_a_pass(statements[e], statements[s])) {
        move_up(statements, s, e + 1);
        break;
      }
      if (!may_swap(statements[e], statements[s])) break;
    }
  }
}

}  // namespace

void bring_together(Program& program, const CpuMachine& machine) {
  lead_with_numbers(program.statements);
  join_passes(program.statements, static_cast<double>(machine.least(machine::kPassPoints)));
  number_statements(program);
}

}  // namespace tc::ir
