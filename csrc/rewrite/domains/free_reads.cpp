#include "rewrite/domains/free_reads.h"

#include <optional>

#include "ir/accesses.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/visit.h"
#include "rewrite/domains/inside.h"

namespace tc::rewrite {

namespace {

using namespace ir;

/// The index along which results are neighbours; null where there is none.
const Iterator* contiguous_index(const Statement& statement, const Layouts& layouts) {
  const MemoryAccess written{statement.tensor, statement.subscripts, true};
  for (const Iterator& it : statement.domain)
    if (!it.reduction && stride_along(written, layouts.at(statement.tensor), it.name) == 1)
      return &it;
  return nullptr;
}

/// Whether a read without need of a guard would be a vector of elements a little apart.
bool has_free_row(const Expr& e, const Statement& statement, const Program& program,
                  const Layouts& layouts) {
  const Iterator* lane = contiguous_index(statement, layouts);
  if (!lane) return false;
  return any<Call>(e, [&](const Call* read) {
    auto layout = layouts.find(read_name(read));
    if (layout == layouts.end()) return false;
    auto stride = stride_along({read_name(read), read->args}, layout->second, lane->name);
    return stride && *stride >= 2 && *stride <= 4 && lies_inside(read, program, statement.domain);
  });
}

}  // namespace

void free_reads(Program& program, const Layouts& layouts) {
  for (Statement& statement : program.statements) {
    if (is_scatter(statement)) continue;
    statement.value = mutate(statement.value, [&](const Call* op, Mutator& self) {
      const std::optional<Choice> choice = find_choice(op);
      if (!choice || has_data(choice->condition) || has_data(choice->no) ||
          !has_free_row(choice->yes, statement, program, layouts))
        return self.inside(op);
      const Expr yes = mutate(choice->yes, [&](const Call* read, Mutator& inner) {
        if (read_name(read).empty() || lies_inside(read, program, statement.domain))
          return inner.inside(read);
        return choose_lazily(choice->condition, read, make_zero(read->type));
      });
      return Select::make(choice->condition, yes, choice->no);
    });
  }
}

}  // namespace tc::rewrite
