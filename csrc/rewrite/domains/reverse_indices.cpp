#include "rewrite/domains/reverse_indices.h"

#include "ir/accesses.h"
#include "ir/expressions/simplify.h"
#include "ir/scan.h"

namespace tc::rewrite {
namespace {

using namespace ir;

/// Whether neighbours along an index lie in falling order, and nowhere in rising order.
bool runs_backwards(const Statement& statement, const Iterator& it, const Program& program,
                    const Layouts& layouts) {
  bool falls = false;
  for (const MemoryAccess& access : accesses(program, statement)) {
    const auto stride = stride_along(access, layouts.at(access.tensor), it.name);
    if (!stride || *stride == 1 || (access.write && *stride < 0)) return false;
    falls = falls || *stride == -1;
  }
  return falls;
}

}  // namespace

void reverse_indices(Program& program, const Layouts& layouts) {
  for (Statement& statement : program.statements) {
    if (statement.reduction != Reduction::None || is_scatter(statement) || is_scan(statement))
      continue;
    for (const Iterator& it : statement.domain) {
      if (!runs_backwards(statement, it, program, layouts)) continue;
      substitute_indices(statement,
                         {{it.name, static_cast<int>(extent_of(it) - 1) - make_variable(it.name)}});
    }
  }
}

}  // namespace tc::rewrite
