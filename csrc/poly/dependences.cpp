#include "poly/dependences.h"

namespace tc::poly {
namespace {

isl::union_map last_sources(const isl::union_map& sources, const isl::union_map& sinks,
                            const isl::schedule& order) {
  return isl::union_access_info(sinks)
      .set_may_source(sources)
      .set_schedule(order)
      .compute_flow()
      .may_dependence();
}

}  // namespace

bool is_of_same_iteration(const isl::map& dependence, const std::vector<int>& first,
                          const std::vector<int>& second) {
  isl_map* same = isl_map_universe(isl_map_get_space(dependence.get()));
  for (size_t k = 0; k < first.size(); ++k)
    same = isl_map_equate(same, isl_dim_in, first[k], isl_dim_out, second[k]);
  return dependence.is_subset(isl::manage(same));
}

Dependences find_dependences(const Scop& scop) {
  isl::union_map flow = last_sources(scop.writes, scop.reads, scop.textual);
  isl::union_map false_ones =
      last_sources(scop.writes.unite(scop.reads), scop.writes, scop.textual);
  Dependences result;
  flow.unite(false_ones).coalesce().foreach_map([&](const isl::map& pair) {
    if (pair.is_empty()) return;
    result.emplace(std::make_pair(isl_map_get_tuple_name(pair.get(), isl_dim_in),
                                  isl_map_get_tuple_name(pair.get(), isl_dim_out)),
                   pair);
  });
  return result;
}

}  // namespace tc::poly
