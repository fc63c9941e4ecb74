#include "codegen/vectors/lane_gathers.h"

#include <vector>

#include "codegen/names.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

bool is_dense(const Expr& index) {
  const auto* ramp = index.as<Ramp>();
  return ramp && ramp->base.type().is_scalar() && is_const_one(ramp->stride);
}

/// Whether places are sums and products of what a table has side by side, and of what costs nothing
/// to say of a single lane.
bool lies_in_table(const Expr& index, bool& has_table) {
  if (index.as<Broadcast>() || index.as<Ramp>() || is_const(index)) return true;
  if (const auto* load = index.as<Load>()) {
    has_table = true;
    return is_dense(load->index) && is_const_one(load->predicate);
  }
  if (const auto* op = index.as<Cast>()) return lies_in_table(op->value, has_table);
  if (const auto* op = index.as<Add>())
    return lies_in_table(op->a, has_table) && lies_in_table(op->b, has_table);
  if (const auto* op = index.as<Sub>())
    return lies_in_table(op->a, has_table) && lies_in_table(op->b, has_table);
  if (const auto* op = index.as<Mul>())
    return lies_in_table(op->a, has_table) && lies_in_table(op->b, has_table);
  return false;
}

}  // namespace

Stmt gather_lane_by_lane(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Load* op, ir::Mutator& self) {
    bool has_table = false;
    if (op->type.lanes() < machine::kTableLanes || !is_const_one(op->predicate) ||
        !lies_in_table(op->index, has_table) || !has_table)
      return self.inside(op);
    std::vector<Expr> lanes;
    for (int lane = 0; lane < op->type.lanes(); ++lane)
      lanes.push_back(Load::make(op->type.element_of(), op->name,
                                 simplify(extract_lane(op->index, lane)), op->image, op->param,
                                 const_true(), ModulusRemainder()));
    return Shuffle::make_concat(lanes);
  });
}

}  // namespace tc::codegen
