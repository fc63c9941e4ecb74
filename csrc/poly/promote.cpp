#include "poly/promote.h"

#include "base/error.h"
#include "base/numbers.h"
#include "base/passes.h"
#include "poly/marks.h"

namespace tc::poly {
namespace {

const Pass kPromote("schedule", "promote");

Result<Promotion> copy_footprint(isl::schedule_node& node, const Scop& scop,
                                 const ScopStatement& statement, const ir::MemoryAccess& read,
                                 const std::vector<size_t>& order, int64_t padding,
                                 int64_t most_elements, const std::string& id) {
  isl::union_map prefix =
      isl::manage(isl_schedule_node_get_prefix_schedule_relation(node.get()))
          .intersect_domain(isl::manage(isl_schedule_node_get_domain(node.get())));
  // { [loops above] -> tensor[element] }
  isl::map touched =
      isl::manage(isl_map_from_union_map(
                      prefix.reverse().apply_range(scop.access(statement, read)).release()))
          .coalesce();
  isl::fixed_box box = touched.range_simple_fixed_box_hull();
  if (!box.is_valid())
    return Reason{concat("what a tile reads of ", read.tensor, " has no box of constant size")};

  Promotion promotion;
  promotion.id = id;
  promotion.statement = &statement;
  promotion.read = read;
  promotion.buffer = concat(read.tensor, ".", id);
  size_t rank = order.size();
  for (size_t d = 0; d < rank; ++d)
    promotion.sizes.push_back(to_integer(box.size().at(static_cast<int>(d))));
  promotion.strides.resize(rank);
  promotion.elements = 1;
  for (size_t k = rank; k-- > 0;) {
    int64_t size = promotion.sizes[order[k]];
    promotion.strides[order[k]] = promotion.elements;
    if (k == rank - 1) size = round_up(size, padding);
    promotion.elements *= size;
    if (promotion.elements > most_elements)
      return Reason{concat("a copy of what a tile reads of ", read.tensor, " needs more than ",
                           most_elements, " elements")};
  }

  // [loops above] -> id[box offsets, element]
  isl::map instances = isl::manage(isl_map_flat_range_product(
      isl_map_from_multi_aff(box.offset().release()), touched.release()));
  instances = isl::manage(isl_map_set_tuple_name(instances.release(), isl_dim_out, id.c_str()));
  std::string tuple = id + "[", members;
  for (size_t d = 0; d < 2 * rank; ++d) tuple += (d ? ", " : "") + iterator_name(d);
  tuple += "]";
  for (size_t k = 0; k < rank; ++k)
    members += concat(k ? ", " : "", "{ ", tuple, " -> [", iterator_name(rank + order[k]), "] }");
  isl::schedule_node copy =
      isl::schedule_node::from_extension(isl::union_map(instances))
          .child(0)
          .insert_partial_schedule(isl::multi_union_pw_aff(node.ctx(), "[" + members + "]"));
  copy = insert_mark(copy.as<isl::schedule_node_band>(), Role::Copy);
  node = node.graft_before(copy.root());
  return promotion;
}

}  // namespace

Result<Promotion> promote(isl::schedule_node& node, const Scop& scop,
                          const ScopStatement& statement, const ir::MemoryAccess& read,
                          const std::vector<size_t>& order, int64_t padding, int64_t most_elements,
                          const std::string& id) {
  return run_pass(kPromote, [&] {
    return copy_footprint(node, scop, statement, read, order, padding, most_elements, id);
  });
}

}  // namespace tc::poly
