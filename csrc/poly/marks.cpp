#include "poly/marks.h"

#include <memory>
#include <utility>

#include "base/error.h"

namespace tc::poly {
namespace {

const char* name_of(Role role) {
  switch (role) {
    case Role::Parallel: return "parallel";
    case Role::Vector: return "vector";
    case Role::Unrolled: return "unroll";
    case Role::Block: return "block";
    case Role::Thread: return "thread";
    case Role::RegisterTile: return "register tile";
    case Role::Terms: return "terms";
    case Role::Intrinsic: return "intrinsic";
    case Role::Copy: return "copy";
  }
  throw InternalError(__FILE__, __LINE__, "a mark without a role");
}

isl::schedule_node insert(const isl::schedule_node& node, Mark says) {
  auto mark = std::make_unique<Mark>(std::move(says));
  // The name is for whoever reads the tree; isl keeps what it stands for.
  isl_id* id = isl_id_alloc(node.ctx().get(), name_of(mark->role), mark.get());
  id = isl_id_set_free_user(id, [](void* user) { delete static_cast<Mark*>(user); });
  if (id) mark.release();
  return isl::manage(isl_schedule_node_insert_mark(node.copy(), id));
}

}  // namespace

isl::schedule_node insert_mark(const isl::schedule_node_band& band, Role role,
                               const std::vector<RegisterPoints>& points) {
  const auto depth = static_cast<unsigned>(isl_schedule_node_get_schedule_depth(band.get()));
  return insert(band, {role, depth, band.n_member(), points, {}});
}

isl::schedule_node insert_intrinsic(const isl::schedule_node& node,
                                    const std::string& instruction) {
  return insert(node, {Role::Intrinsic, 0, 0, {}, instruction});
}

const Mark& mark_of(const isl::id& id) { return *static_cast<Mark*>(isl_id_get_user(id.get())); }

isl::schedule_node mark_vector(const isl::schedule_node_band& band, bool unroll) {
  const int members = static_cast<int>(band.n_member());
  if (members == 1) return insert_mark(band, Role::Vector);
  auto inner = band.split(members - 1).child(0).as<isl::schedule_node_band>();
  auto outer = insert_mark(inner, Role::Vector).parent().as<isl::schedule_node_band>();
  return unroll ? insert_mark(outer, Role::Unrolled) : isl::schedule_node(outer);
}

isl::schedule_node mark_leaves(const isl::schedule_node& node, bool unroll) {
  return node.map_descendant_bottom_up([&](const isl::schedule_node& each) {
    const bool last =
        each.isa<isl::schedule_node_band>() && each.child(0).isa<isl::schedule_node_leaf>();
    return last ? mark_vector(each.as<isl::schedule_node_band>(), unroll) : each;
  });
}

isl::schedule_node insert_band(const isl::schedule_node& node, const Statements& statements,
                               const Alignment& positions, bool coincident) {
  if (positions[0].empty()) return node;
  std::string members;
  for (size_t m = 0; m < positions[0].size(); ++m) {
    std::string pieces;
    for (size_t s = 0; s < statements.size(); ++s)
      pieces += concat(s ? "; " : "", tuple_text(statements[s]->id, statements[s]->dimensions),
                       " -> [", iterator_name(positions[s][m]), "]");
    members += concat(m ? ", " : "", "{ ", pieces, " }");
  }
  const isl::multi_union_pw_aff schedule(node.ctx(), "[" + members + "]");
  return insert_permutable_band(node, schedule, coincident);
}

isl::schedule_node insert_outer_loops(const isl::schedule_node& node, const Cluster& cluster) {
  if (cluster.outer.empty()) return node;
  isl::schedule_node band = insert_band(node, cluster.statements, cluster.outer, true);
  if (!cluster.outer_parallel) return band.child(0);
  return insert_mark(band.as<isl::schedule_node_band>(), Role::Parallel).child(0).child(0);
}

isl::schedule_node_band insert_permutable_band(const isl::schedule_node& node,
                                               const isl::multi_union_pw_aff& schedule,
                                               bool coincident) {
  auto band = node.insert_partial_schedule(schedule).as<isl::schedule_node_band>();
  band = band.set_permutable(1);
  for (int m = 0; m < static_cast<int>(band.n_member()); ++m)
    band = band.member_set_coincident(m, coincident);
  return band;
}

isl::schedule_node_band reorder(const isl::schedule_node_band& band,
                                const std::vector<int>& order) {
  const isl::multi_union_pw_aff members = band.partial_schedule();
  isl::union_pw_aff_list list(band.ctx(), 0);
  for (int member : order) list = list.add(members.at(member));
  isl::space space = isl::manage(isl_space_set_alloc(band.ctx().get(), 0, order.size()));
  return insert_permutable_band(isl::manage(isl_schedule_node_delete(band.copy())),
                                isl::multi_union_pw_aff(space, list));
}

}  // namespace tc::poly
