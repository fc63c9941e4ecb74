#include "nest/loops.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tc::nest {

using namespace Halide::Internal;

Nest collapse_loops(const Nest& nest, Role role) {
  const Nest made =
      map_children(nest, [&](const Nest& child) { return collapse_loops(child, role); });
  const auto* outer = as<Loop>(made);
  const auto* inner = outer ? as<Loop>(outer->body) : nullptr;
  if (!inner || outer->role != role || inner->role != role) return made;
  auto outer_extent = as_const_int(outer->extent), inner_extent = as_const_int(inner->extent);
  if (!outer_extent || !inner_extent || expr_uses_var(inner->min, outer->name) ||
      *outer_extent * *inner_extent > std::numeric_limits<int32_t>::max())
    return made;
  const std::string name = outer->name + "." + inner->name;
  const Expr both = ir::make_variable(name);
  const Nest body =
      make(Binding{inner->name, simplify(inner->min + both % inner->extent), inner->body});
  return make_loop(name, 0, static_cast<int>(*outer_extent * *inner_extent), role,
                   make(Binding{outer->name, simplify(outer->min + both / inner->extent), body}));
}

Nest hoist_conditions(const Nest& nest) {
  const Nest made = map_children(nest, hoist_conditions);
  const auto* loop = as<Loop>(made);
  const auto* guard = loop ? as<Guard>(loop->body) : nullptr;
  const bool serial = loop && (loop->role == Role::Serial || loop->role == Role::Vector ||
                               loop->role == Role::Unrolled);
  if (!serial || !guard || guard->otherwise || expr_uses_var(guard->condition, loop->name))
    return made;
  std::set<std::string> read;
  for_each_load(guard->condition, [&](const Load& load) { read.insert(load.name); });
  const std::set<std::string> stored = stored_buffers(guard->then);
  const bool written = std::any_of(read.begin(), read.end(),
                                   [&](const std::string& name) { return stored.count(name) > 0; });
  if (read.empty() || written) return made;
  return make(Guard{guard->condition, with_body(*loop, guard->then), nullptr});
}

Nest join_loops(const Nest& first, const Nest& second, size_t count) {
  if (count == 0) return make_sequence({first, second});
  const auto *a = as<Loop>(first), *b = as<Loop>(second);
  TC_INTERNAL_CHECK(
      a && b && a->role == b->role && equal(a->min, b->min) && equal(a->extent, b->extent),
      "loops to be joined differ");
  const Nest body =
      b->name == a->name ? b->body : substitute(b->name, ir::make_variable(a->name), b->body);
  return with_body(*a, join_loops(a->body, body, count - 1));
}

}  // namespace tc::nest
