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

Dependences find_dependences(const Scop& scop) {
  isl::union_map flow = last_sources(scop.writes, scop.reads, scop.textual);
  isl::union_map false_ones =
      last_sources(scop.writes.unite(scop.reads), scop.writes, scop.textual);
  return {flow, flow.unite(false_ones).coalesce()};
}

}  // namespace tc::poly
