// Scaffolding while passes move from statements to the nest: goes with the last of them.
#pragma once

#include "nest/nest.h"

namespace tc::codegen {

/// The nest of a statement that lower() made, or passes over it.
nest::Nest raise(const ir::Stmt& stmt);

/// A register tile between two passes over nests.
ir::Stmt mark_register_tile(const std::vector<nest::TileDimension>& dimensions,
                            const ir::Stmt& body);

/// A pass over nests, for a place among passes over statements.
template <class Change>
ir::Stmt on_nest(const ir::Stmt& stmt, Change change);

}  // namespace tc::codegen

#include "codegen/lower_nest.h"

template <class Change>
tc::ir::Stmt tc::codegen::on_nest(const ir::Stmt& stmt, Change change) {
  return lower(change(raise(stmt)));
}
