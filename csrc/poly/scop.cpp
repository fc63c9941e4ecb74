#include "poly/scop.h"

#include <map>
#include <optional>

#include "base/error.h"
#include "ir/in_place.h"
#include "poly/affine.h"

namespace tc::poly {
namespace {

using Halide::Internal::as_const_int;

/// isl text of the pieces that make a relation from a statement's instances.
struct Instance {
  std::string tuple;       ///< S0[i0, i1]
  std::string conditions;  ///< 0 <= i0 < 10 and ...
  std::map<std::string, std::string> names;
};

Instance make_instance(const ir::Statement& statement, const std::string& id, size_t dimensions) {
  Instance instance;
  instance.tuple = id + "[";
  for (size_t d = 0; d < dimensions; ++d) {
    const ir::Iterator& it = statement.domain[d];
    auto low = as_const_int(it.min), extent = as_const_int(it.extent);
    TC_INTERNAL_CHECK(low && extent, "the range of ", it.name, " in ", statement.name,
                      " is not constant");
    std::string name = iterator_name(d);
    instance.names[it.name] = name;
    instance.tuple += (d ? ", " : "") + name;
    instance.conditions += concat(d ? " and " : "", *low, " <= ", name, " < ", *low + *extent);
  }
  instance.tuple += "]";
  if (instance.conditions.empty()) instance.conditions = "true";
  return instance;
}

/// isl wants identifiers; tensors may be called `1LUT` or `and`.
std::string isl_tensor_name(const ir::Program& program, const std::string& name) {
  return concat("T", std::distance(program.tensors.begin(), program.tensors.find(name)));
}

/// { S0[..] -> A[..] }, with a free index in every dimension that is not affine.
isl::union_map make_access(isl::ctx ctx, const Instance& instance, const ir::Program& program,
                           const ir::MemoryAccess& access,
                           const std::vector<ir::Iterator>& domain) {
  const ir::Tensor& tensor = program.tensor(access.tensor);
  std::string target = isl_tensor_name(program, access.tensor) + "[",
              conditions = instance.conditions;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    auto affine = affine_text(access.subscripts[d], instance.names, domain);
    if (affine) {
      target += (d ? ", " : "") + *affine;
    } else {
      std::string free = "a" + std::to_string(d);
      target += (d ? ", " : "") + free;
      conditions += concat(" and 0 <= ", free, " < ", *as_const_int(tensor.sizes[d]));
    }
  }
  return isl::union_map(ctx, "{ " + instance.tuple + " -> " + target + "] : " + conditions + " }");
}

void check_in_place(const ir::Statement& statement, const isl::union_map& own_reads,
                    const isl::union_map& writes) {
  if (own_reads.is_empty()) return;
  isl::union_map same_element = writes.apply_range(own_reads.reverse());
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
  Instance instance = make_instance(*statement.source, statement.id, statement.dimensions);
  return make_access(context->get(), instance, *program, access, statement.source->domain);
}

Scop make_scop(const ir::Program& program) {
  Scop scop;
  scop.context = std::make_shared<Context>();
  scop.program = &program;
  isl::ctx ctx = scop.context->get();
  scop.domain = isl::union_set(ctx, "{ }");
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
    Instance instance = make_instance(source, statement.id, statement.dimensions);
    statement.domain =
        isl::union_set(ctx, "{ " + instance.tuple + " : " + instance.conditions + " }");
    if (statement.domain.is_empty()) return;

    isl::union_map writes(ctx, "{ }"), reads(ctx, "{ }"), own_reads(ctx, "{ }");
    for (const ir::MemoryAccess& access : accesses(program, source)) {
      if (initialization && !access.write) continue;
      isl::union_map relation = make_access(ctx, instance, program, access, source.domain);
      (access.write ? writes : reads) = (access.write ? writes : reads).unite(relation);
      if (!access.write && access.tensor == source.tensor) own_reads = own_reads.unite(relation);
    }
    if (!initialization) {
      if (!source.scans) check_in_place(source, own_reads, writes);
      if (source.reduction != ir::Reduction::None) reads = reads.unite(writes);
    }
    scop.domain = scop.domain.unite(statement.domain);
    scop.reads = scop.reads.unite(reads);
    scop.writes = scop.writes.unite(writes);

    isl::schedule nest = isl::schedule::from_domain(statement.domain);
    if (statement.dimensions) {
      std::string members;
      for (size_t d = 0; d < statement.dimensions; ++d)
        members += concat(d ? ", " : "", "{ ", instance.tuple, " -> [", iterator_name(d), "] }");
      nest = nest.root()
                 .child(0)
                 .insert_partial_schedule(isl::multi_union_pw_aff(ctx, "[" + members + "]"))
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
