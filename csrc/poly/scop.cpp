#include "poly/scop.h"

#include <optional>

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/in_place.h"
#include "ir/scan.h"
#include "poly/index_sets.h"

namespace tc::poly {
namespace {

using Halide::Internal::as_const_int;

/// The instances of a statement over its leading indices. What its guard says of indices is in the
/// domain of its updates; `data` gets the rest.
IndexSets make_instances(isl::ctx ctx, const ScopStatement& statement, ir::Expr* data = nullptr) {
  const ir::Statement& source = *statement.source;
  const auto first = source.domain.begin();
  IndexSets instances(ctx, {first, first + static_cast<long>(statement.dimensions)}, true,
                      statement.id);
  // Where they say a place piece by piece, it is taken for one that data says.
  instances.most_pieces = 1;
  if (statement.initialization || !source.guard.defined()) return instances;
  for (const ir::Expr& condition : ir::list_conditions(source.guard)) {
    if (const std::optional<isl::set> points = instances.where(condition))
      instances.restrict_to(*points);
    else if (data)
      *data = data->defined() ? *data && condition : condition;
  }
  return instances;
}

/// { S0[..] -> A[..] }, with a free index in every dimension that is not affine.
isl::union_map make_access(const IndexSets& instances, const ir::Program& program,
                           const ir::MemoryAccess& access) {
  const ir::Tensor& tensor = program.tensor(access.tensor);
  isl_ctx* ctx = instances.points().ctx().get();
  isl::set element = isl::set::universe(isl::manage(isl_space_set_alloc(ctx, 0, 0)));
  isl_map* relation = isl_map_from_domain_and_range(instances.points().copy(), element.release());
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    const std::optional<isl::pw_aff> place = instances.value(access.subscripts[d]);
    isl_map* along;
    if (place) {
      along = isl_map_from_pw_aff(place->copy());
    } else {
      isl_set* free = isl_set_universe(isl_space_set_alloc(ctx, 0, 1));
      free = isl_set_lower_bound_si(free, isl_dim_set, 0, 0);
      free = isl_set_upper_bound_si(free, isl_dim_set, 0,
                                    static_cast<int>(*as_const_int(tensor.sizes[d])) - 1);
      along = isl_map_from_domain_and_range(instances.points().copy(), free);
    }
    relation = isl_map_flat_range_product(relation, along);
  }
  // isl wants identifiers; tensors may be called `1LUT` or `and`.
  const auto number = std::distance(program.tensors.begin(), program.tensors.find(access.tensor));
  relation = isl_map_set_tuple_name(relation, isl_dim_out, concat("T", number).c_str());
  return isl::map(isl::manage(relation));
}

void check_in_place(const ir::Statement& statement, const isl::union_map& own_reads,
                    const isl::union_map& writes) {
  if (own_reads.is_empty()) return;
  isl::union_map same_element = writes.apply_range(own_reads.reverse());
  // What a reduction begins with is written before anything is read.
  if (statement.initializes && statement.reduction != ir::Reduction::None &&
      !same_element.is_empty())
    throw LanguageError(statement.where, ir::in_place_message(statement));
  isl::union_map conflicts =
      same_element.subtract(isl::manage(isl_union_set_identity(same_element.domain().release())));
  if (conflicts.is_empty()) return;
  throw LanguageError(statement.where, ir::in_place_message(statement));
}

}  // namespace

const ScopStatement& Scop::statement(const std::string& id) const {
  for (const ScopStatement& candidate : statements)
    if (candidate.id == id) return candidate;
  throw InternalError(__FILE__, __LINE__, "no statement is called " + id);
}

isl::union_map Scop::access(const ScopStatement& statement, const ir::MemoryAccess& access) const {
  return make_access(make_instances(context->get(), statement), *program, access);
}

Scop make_scop(const ir::Program& program) {
  Scop scop;
  scop.context = std::make_shared<Context>();
  scop.program = &program;
  isl::ctx ctx = scop.context->get();
  scop.reads = scop.writes = isl::union_map(ctx, "{ }");

  auto add = [&](const ir::Statement& source, bool initialization) {
    ScopStatement statement;
    statement.id = source.name + (initialization ? "_init" : "");
    statement.source = &source;
    statement.initialization = initialization;
    statement.dimensions = source.domain.size();
    if (initialization)
      while (statement.dimensions && source.domain[statement.dimensions - 1].reduction)
        --statement.dimensions;
    const IndexSets instances = make_instances(ctx, statement, &statement.guard);
    statement.domain = instances.points();
    if (statement.domain.is_empty()) return;

    isl::union_map writes(ctx, "{ }"), reads(ctx, "{ }"), own_reads(ctx, "{ }");
    for (const ir::MemoryAccess& access : accesses(program, source)) {
      if (initialization && !access.write) continue;
      isl::union_map relation = make_access(instances, program, access);
      (access.write ? writes : reads) = (access.write ? writes : reads).unite(relation);
      if (!access.write && access.tensor == source.tensor) own_reads = own_reads.unite(relation);
    }
    if (!initialization) {
      if (!ir::is_scan(source)) check_in_place(source, own_reads, writes);
      if (source.reduction != ir::Reduction::None) reads = reads.unite(writes);
    }
    scop.reads = scop.reads.unite(reads);
    scop.writes = scop.writes.unite(writes);

    isl::schedule nest = isl::schedule::from_domain(statement.domain);
    if (statement.dimensions) {
      const isl::multi_aff all =
          isl::multi_aff::identity_on_domain(instances.points().space()).reset_range_tuple_id();
      nest = nest.root()
                 .child(0)
                 .insert_partial_schedule(all.to_multi_union_pw_aff())
                 .root()
                 .schedule();
    }
    scop.textual = scop.textual.is_null() ? nest : sequence(scop.textual, nest);
    scop.statements.push_back(std::move(statement));
  };
  for (const ir::Statement& statement : program.statements) {
    if (statement.initializes && statement.reduction != ir::Reduction::None) add(statement, true);
    add(statement, false);
  }
  scop.reads = scop.reads.coalesce();
  return scop;
}

}  // namespace tc::poly
