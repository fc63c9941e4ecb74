// The static control part: the program's statements as integer sets, their accesses as relations,
// and the schedule of the text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/accesses.h"
#include "ir/program.h"
#include "poly/isl.h"

namespace tc::poly {

/// What isl schedules. A statement `+=!` becomes two: its initialisation over the left-hand side's
/// indices, then its updates.
struct ScopStatement {
  std::string id;  ///< the name of its tuple: "S0", "S0_init"
  const ir::Statement* source = nullptr;
  bool initialization = false;
  size_t dimensions = 0;  ///< leading iterators of source->domain that it runs over
  isl::union_set domain;  ///< not empty; of updates, the points that indices let a guard hold at
  ir::Expr guard;         ///< what else has to hold, which data says; undefined where nothing has
};

struct Scop {
  std::shared_ptr<Context> context;
  const ir::Program* program = nullptr;
  std::vector<ScopStatement> statements;  ///< in order of the text
  isl::union_map reads, writes;  ///< may accesses; indirect subscripts reach the whole dimension
  isl::schedule textual;         ///< every statement its own nest, in order of the text

  const ScopStatement& statement(const std::string& id) const;
  /// { statement -> tensor } of one access of a statement over its whole domain.
  isl::union_map access(const ScopStatement& statement, const ir::MemoryAccess& access) const;
};

/// The program must be specialised: all extents and sizes constant. Statements that never run are
/// left out. An in-place statement for which some element is written before another iteration has
/// read it is a LanguageError with that reason: its right-hand side could not be read first.
Scop make_scop(const ir::Program& program);

}  // namespace tc::poly
