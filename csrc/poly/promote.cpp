#include "poly/promote.h"

#include "base/error.h"
#include "base/passes.h"
#include "poly/marks.h"

namespace tc::poly {
namespace {

const Pass kPromote("schedule", "promote");

using Part = CopyDimension::Part;

/// Members of a copy's tuple, [box offsets, element]: names for isl's parser.
std::string offset_name(size_t dimension) { return iterator_name(dimension); }
std::string element_name(size_t dimension, size_t rank) { return iterator_name(rank + dimension); }

/// The loops of a copy over the elements of its tuple, in the order of the layout.
isl::multi_union_pw_aff loops_of(isl::ctx ctx, const CopyLayout& layout, size_t rank,
                                 const std::string& id) {
  std::string members;
  for (const CopyDimension& each : layout) {
    const std::string element = element_name(each.dimension, rank);
    const std::string place = concat("(", element, " - ", offset_name(each.dimension), ")");
    const std::string value = each.part == Part::Whole ? element
                              : each.part == Part::Block
                                  ? concat("floor(", place, "/", each.block, ")")
                                  : concat(place, " mod ", each.block);
    members +=
        concat(members.empty() ? "" : ", ", "{ ", tuple_text(id, 2 * rank), " -> [", value, "] }");
  }
  return isl::multi_union_pw_aff(ctx, "[" + members + "]");
}

/// The loops of a copy below the node, over elements of which there are so many in every dimension.
/// Blocks that are not full have loops of their own, so that all loops are rectangular. Returns the
/// node in the same place.
isl::schedule_node insert_loops(const isl::schedule_node& node, const isl::union_set& elements,
                                std::vector<int64_t> sizes, const CopyLayout& layout,
                                const std::string& id) {
  const size_t rank = sizes.size();
  for (const CopyDimension& each : layout) {
    int64_t& size = sizes[each.dimension];
    const int64_t full = size - size % each.block;
    if (each.part != Part::Block || size == full || full == 0) continue;
    const isl::union_set blocks(node.ctx(), concat("{ ", tuple_text(id, 2 * rank), " : ",
                                                   element_name(each.dimension, rank), " - ",
                                                   offset_name(each.dimension), " < ", full, " }"));
    const isl::union_set parts[] = {elements.intersect(blocks), elements.subtract(blocks)};
    const int64_t sizes_of_parts[] = {full, size - full};
    isl::union_set_list list(node.ctx(), 2);
    for (const isl::union_set& part : parts) list = list.add(part);
    isl::schedule_node made =
        isl::manage(isl_schedule_node_insert_sequence(node.copy(), list.release()));
    for (int p = 0; p < 2; ++p) {
      size = sizes_of_parts[p];
      made = insert_loops(made.child(p).child(0), parts[p], sizes, layout, id).parent().parent();
    }
    return made;
  }
  const isl::schedule_node band =
      node.insert_partial_schedule(loops_of(node.ctx(), layout, rank, id));
  return insert_mark(band.as<isl::schedule_node_band>(), Role::Copy);
}

/// { [loops above] -> tensor[element] }
isl::union_map find_touched(const isl::schedule_node& node, const Scop& scop,
                            const StatementRead& read) {
  return isl::manage(isl_schedule_node_get_prefix_schedule_relation(node.get()))
      .intersect_domain(isl::manage(isl_schedule_node_get_domain(node.get())))
      .reverse()
      .apply_range(scop.access(*read.statement, read.access));
}

Result<Promotion> copy_footprint(isl::schedule_node& node, const Scop& scop,
                                 const StatementRead& of, const CopyLayout& layout,
                                 int64_t most_elements, const std::string& id) {
  const ir::MemoryAccess& read = of.access;
  isl::union_map all = find_touched(node, scop, of);
  // Of statements without iterations nothing is left, not even the spaces of a map.
  if (all.is_empty()) return Reason{concat("nothing is read of ", read.tensor)};
  isl::map touched = isl::manage(isl_map_from_union_map(all.copy())).coalesce();
  isl::fixed_box box = touched.range_simple_fixed_box_hull();
  if (!box.is_valid())
    return Reason{concat("what a tile reads of ", read.tensor, " has no box of constant size")};

  Promotion promotion;
  promotion.id = id;
  promotion.reads = {of};
  promotion.touched = all;
  promotion.buffer = concat(read.tensor, ".", id);
  promotion.layout = layout;
  const size_t rank = read.subscripts.size();
  for (size_t d = 0; d < rank; ++d)
    promotion.sizes.push_back(to_integer(box.size().at(static_cast<int>(d))));
  promotion.strides.resize(layout.size());
  promotion.elements = 1;
  for (size_t k = layout.size(); k-- > 0;) {
    promotion.strides[k] = promotion.elements;
    promotion.elements *= layout[k].size(promotion.sizes[layout[k].dimension]);
    if (promotion.elements > most_elements)
      return Reason{concat("a copy of what a tile reads of ", read.tensor, " needs more than ",
                           most_elements, " elements")};
  }

  // [loops above] -> id[box offsets, element]
  isl::map instances = isl::manage(isl_map_flat_range_product(
      isl_map_from_multi_aff(box.offset().release()), touched.release()));
  instances = isl::manage(isl_map_set_tuple_name(instances.release(), isl_dim_out, id.c_str()));
  const isl::schedule_node copy =
      isl::schedule_node::from_extension(isl::union_map(instances)).child(0);
  node = node.graft_before(
      insert_loops(copy, isl::union_set(instances.range()), promotion.sizes, layout, id).root());
  return promotion;
}

}  // namespace

Result<Promotion> promote(isl::schedule_node& node, const Scop& scop, const StatementRead& read,
                          const CopyLayout& layout, int64_t most_elements, const std::string& id) {
  return run_pass(kPromote,
                  [&] { return copy_footprint(node, scop, read, layout, most_elements, id); });
}

bool share(Promotion& promotion, const isl::schedule_node& node, const Scop& scop,
           const StatementRead& read) {
  if (promotion.tensor() != read.access.tensor ||
      !promotion.touched.is_equal(find_touched(node, scop, read)))
    return false;
  promotion.reads.push_back(read);
  return true;
}

}  // namespace tc::poly
