// Guards: what a condition leaves out, be it some lanes only, must not read memory.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "ir/halide.h"

namespace tc::codegen {

/// A lazy choice (Call::if_then_else) of vectors becomes a select whose loads are predicated by the
/// condition; the parts of the condition that are the same in every lane become a branch around it.
/// Without this, Halide computes such choices lane by lane. Runs after vectorize_loops.
ir::Stmt predicate_guarded_loads(const ir::Stmt& stmt);

using StmtPass = std::function<ir::Stmt(const ir::Stmt&)>;
using ExprPass = std::function<ir::Expr(const ir::Expr&)>;

/// Runs a pass that names expressions or moves them, and would take what is read in a lazy choice
/// out of it: where the condition reads it too, where both branches do, out of a loop. `part_pass`
/// is for the conditions and branches.
ir::Stmt around_choices(const ir::Stmt& stmt, const StmtPass& pass, const ExprPass& part_pass);

/// Gives lanes that are switched off a value. To LLVM they hold poison, which `&&` and `||` of
/// vectors pass on where a lane's other side alone decides: once it finds that a mask is never set,
/// the result is anything. Neighbours, in rising order or in falling, are loaded under their mask,
/// and the others are 0. What is not together in memory is loaded without, for which Halide would
/// branch in every lane: from the first element where it is off. `empty` names the buffers that
/// have none. To be called after all simplification, which knows no poison.
ir::Stmt define_switched_off_lanes(const ir::Stmt& stmt, const std::set<std::string>& empty);

/// Names the constants at which vectors begin below 0, of which a guard has switched off some
/// lanes, or run backwards. Halide derives from constant addresses which accesses are apart, and
/// its rule holds for neither. To be called last: simplification undoes it.
ir::Stmt hide_negative_offsets(const ir::Stmt& stmt);

}  // namespace tc::codegen
