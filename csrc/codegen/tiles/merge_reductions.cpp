#include "codegen/tiles/merge_reductions.h"

#include <limits>

#include "codegen/names.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

/// Whether all uses of the two iterators are indices that walk through both loops as through one.
bool walk_as_one(const Loop& outer, const Loop& inner, int64_t extent) {
  bool regular = true;
  auto check = [&](const Expr& e) {
    // What is read at such an index is data where it is an index itself.
    const Expr rest = nest::map_loads(e, [&](const Load& load) -> Expr {
      auto far = ir::step_along(load.index, outer.name),
           near = ir::step_along(load.index, inner.name);
      return far && near && *far == *near * extent ? make_zero(load.type) : Expr(&load);
    });
    regular = regular && !expr_uses_var(rest, outer.name) && !expr_uses_var(rest, inner.name);
  };
  nest::for_each_node(inner.body, [&](const Nest& node) {
    if (const auto* compute = as<Compute>(node)) {
      check(nest::load_of(*compute));
      check(nest::computed_value(*compute));
    } else {
      nest::for_each_own_expression(node, check);
    }
  });
  return regular;
}

}  // namespace

Nest merge_loops(const Loop& outer, const Loop& inner) {
  auto length = as_const_int(outer.extent), extent = as_const_int(inner.extent);
  if (!length || !extent || *length * *extent > std::numeric_limits<int32_t>::max() ||
      expr_uses_var(inner.min, outer.name) || !walk_as_one(outer, inner, *extent))
    return nullptr;
  return nest::make_loop(inner.name, inner.min, static_cast<int>(*length * *extent), inner.role,
                         nest::substitute(outer.name, outer.min, inner.body));
}

Nest merge_reductions(const Nest& body) {
  const Nest merged = nest::map_children(body, merge_reductions);
  const auto* outer = as<Loop>(merged);
  const auto* inner = outer ? as<Loop>(outer->body) : nullptr;
  if (!inner || outer->role != Role::Serial || inner->role != Role::Serial) return merged;
  const Nest one = merge_loops(*outer, *inner);
  return one ? one : merged;
}

}  // namespace tc::codegen
