#include "poly/fuse.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "base/error.h"
#include "base/notes.h"
#include "ir/accesses.h"
#include "ir/scan.h"
#include "machine/limits.h"

namespace tc::poly {

using namespace Halide::Internal;

namespace {

/// The leading plain left-hand side iterators of a statement: coincident because every instance
/// writes one element and reads, of its own tensor, no other. Those of an atomic scatter all are.
unsigned parallel_depth(const ScopStatement& statement) {
  if (statement.source->atomic) return static_cast<unsigned>(statement.dimensions);
  unsigned depth = 0;
  while (depth < statement.dimensions && !statement.source->domain[depth].reduction) ++depth;
  return depth;
}

std::string tuple(const ScopStatement& statement) {
  std::string text = statement.id + "[";
  for (size_t d = 0; d < statement.dimensions; ++d) text += (d ? ", " : "") + iterator_name(d);
  return text + "]";
}

/// Tries to extend a cluster's shared band over one more statement. Member by member, the new
/// statement's iterator is the one for which every dependence with the statements before has
/// distance zero; the members that find none are dropped (and those behind them kept, since all of
/// them are coincident and permutable).
class Aligner {
 public:
  Aligner(const Dependences& dependences) : dependences_(dependences) {}

  /// The alignment for statements + {next}, with as many members as can be kept.
  Alignment extend(const std::vector<const ScopStatement*>& statements, const Alignment& alignment,
                   const ScopStatement& next) const {
    size_t members = alignment[0].size();
    unsigned depth = parallel_depth(next);
    std::vector<int> chosen;  // per kept member, the iterator of `next`
    std::vector<size_t> kept;
    std::vector<bool> used(depth, false);
    for (size_t m = 0; m < members; ++m) {
      for (unsigned d = 0; d < depth; ++d) {
        if (used[d] || !same_range(statements, alignment, m, next, d) ||
            !distance_zero(statements, alignment, m, next, d))
          continue;
        used[d] = true;
        chosen.push_back(static_cast<int>(d));
        kept.push_back(m);
        break;
      }
    }
    Alignment result(statements.size() + 1);
    for (size_t s = 0; s < statements.size(); ++s)
      for (size_t m : kept) result[s].push_back(alignment[s][m]);
    result.back() = chosen;
    return result;
  }

 private:
  /// Fused loops run over the same values; a shorter one would need a guard in every iteration.
  static bool same_range(const std::vector<const ScopStatement*>& statements,
                         const Alignment& alignment, size_t member, const ScopStatement& next,
                         unsigned d) {
    return have_same_range(statements[0]->source->domain[alignment[0][member]],
                           next.source->domain[d]);
  }

  bool distance_zero(const std::vector<const ScopStatement*>& statements,
                     const Alignment& alignment, size_t member, const ScopStatement& next,
                     unsigned d) const {
    bool depends = false;
    for (size_t s = 0; s < statements.size(); ++s) {
      auto found = dependences_.pairs.find({statements[s]->id, next.id});
      if (found == dependences_.pairs.end()) continue;
      depends = true;
      isl::map zero = isl::manage(
          isl_map_equate(isl_map_universe(isl_map_get_space(found->second.get())), isl_dim_in,
                         alignment[s][member], isl_dim_out, static_cast<int>(d)));
      if (!found->second.is_subset(zero)) return false;
    }
    // Statements that share no data may run together; the same position is as good as any.
    return depends || alignment[0][member] == static_cast<int>(d);
  }

  const Dependences& dependences_;
};

int64_t extent_of(const ScopStatement& statement, int d) {
  return *as_const_int(statement.source->domain[d].extent);
}

int64_t count(const ScopStatement& statement, const std::vector<int>& iterators) {
  int64_t product = 1;
  for (int d : iterators) product *= extent_of(statement, d);
  return product;
}

bool is_update(const ScopStatement& statement) {
  return !statement.initialization && statement.dimensions > parallel_depth(statement);
}

/// Whether a sum of products would lose a member along which some operand is used again: one of the
/// dimensions of a block of results.
bool loses_block(const std::vector<const ScopStatement*>& statements, const Alignment& alignment,
                 const ir::Program& program, const std::map<std::string, Layout>& layouts) {
  for (size_t s = 0; s < statements.size(); ++s) {
    const ScopStatement& statement = *statements[s];
    if (!is_update(statement)) continue;
    const std::vector<ir::Iterator>& domain = statement.source->domain;
    for (const ir::MemoryAccess& access : accesses(program, *statement.source)) {
      auto moves = [&](int d) {
        return stride_along(access, layouts.at(access.tensor), domain[d].name) != 0;
      };
      bool reduced = false;
      for (int d = static_cast<int>(parallel_depth(statement));
           d < static_cast<int>(statement.dimensions); ++d)
        reduced = reduced || moves(d);
      for (int d : rest(statement, alignment[s]))
        if (reduced && !domain[d].reduction && !moves(d)) return true;
    }
  }
  return false;
}

/// Whether a statement is a sum of products whose terms make use of two operands again and again,
/// each along a result index of the other: what blocks in registers are for.
bool wants_block(const ScopStatement& statement, const ir::Program& program,
                 const std::map<std::string, Layout>& layouts) {
  if (!is_update(statement)) return false;
  int reused = 0;
  for (const ir::MemoryAccess& access : accesses(program, *statement.source)) {
    bool reduced = false, again = false;
    for (const ir::Iterator& it : statement.source->domain) {
      bool moves = stride_along(access, layouts.at(access.tensor), it.name) != 0;
      (it.reduction ? reduced : again) |= it.reduction ? moves : !moves;
    }
    reused += !access.write && reduced && again;
  }
  return reused > 1;
}

/// Whether two statements write the same tensor, beginning at the same element.
bool write_the_same(const ir::Statement& a, const ir::Statement& b) {
  if (a.tensor != b.tensor) return false;
  auto first = [](const ir::Statement& statement, size_t dimension) {
    std::map<std::string, ir::Expr> origin;
    for (const ir::Iterator& it : statement.domain) origin[it.name] = it.min;
    return simplify(substitute(origin, statement.subscripts[dimension]));
  };
  for (size_t d = 0; d < a.subscripts.size(); ++d)
    if (!equal(first(a, d), first(b, d))) return false;
  return true;
}

/// Whether some statement of a group is such a sum too. Two of them cannot tile their reductions,
/// and gain from a common loop over blocks only where they add few terms to the
/// same results.
bool has_other_block(const std::vector<const ScopStatement*>& statements, const ScopStatement& next,
                     const ir::Program& program, const std::map<std::string, Layout>& layouts) {
  int64_t terms = 1;
  for (const ir::Iterator& it : next.source->domain)
    if (it.reduction) terms *= *as_const_int(it.extent);
  return std::any_of(statements.begin(), statements.end(), [&](const ScopStatement* statement) {
    return (!write_the_same(*statement->source, *next.source) || terms >= machine::kManyTerms) &&
           statement->source != next.source && wants_block(*statement, program, layouts);
  });
}

/// Whether a statement and such a sum write a tensor in different places: what the block holds
/// would have to be told apart from the rest of the tensor.
bool writes_beside_block(const std::vector<const ScopStatement*>& statements,
                         const ScopStatement& next, const ir::Program& program,
                         const std::map<std::string, Layout>& layouts) {
  return std::any_of(statements.begin(), statements.end(), [&](const ScopStatement* statement) {
    return statement->source->tensor == next.source->tensor &&
           !write_the_same(*statement->source, *next.source) &&
           (wants_block(*statement, program, layouts) || wants_block(next, program, layouts));
  });
}

/// Whether a statement walks through consecutive elements in one of these iterators; scans do so
/// backwards, too.
bool walks(const ScopStatement& statement, const std::vector<int>& iterators,
           const ir::Program& program, const std::map<std::string, Layout>& layouts) {
  for (const ir::MemoryAccess& access : accesses(program, *statement.source))
    for (int d : iterators) {
      const auto stride =
          stride_along(access, layouts.at(access.tensor), statement.source->domain[d].name);
      if (stride == 1 || (stride == -1 && ir::is_scan(*statement.source))) return true;
    }
  return false;
}

bool share_data(const std::vector<const ScopStatement*>& statements, const ScopStatement& next,
                const ir::Program& program) {
  std::set<std::string> tensors;
  for (const ScopStatement* statement : statements)
    for (const ir::MemoryAccess& access : accesses(program, *statement->source))
      tensors.insert(access.tensor);
  for (const ir::MemoryAccess& access : accesses(program, *next.source))
    if (tensors.count(access.tensor)) return true;
  return false;
}

/// Bytes of what a statement reads, each element once.
double read_bytes(const ScopStatement& statement, const ir::Program& program,
                  const std::map<std::string, Layout>& layouts) {
  double bytes = 0;
  for (const ir::MemoryAccess& access : accesses(program, *statement.source)) {
    if (access.write) continue;
    const Layout& layout = layouts.at(access.tensor);
    double reads = 1, elements = 1;
    for (const ir::Iterator& it : statement.source->domain)
      if (stride_along(access, layout, it.name) != 0)
        reads *= static_cast<double>(*as_const_int(it.extent));
    for (int64_t size : layout.sizes) elements *= static_cast<double>(size);
    bytes += std::min(reads, elements) * program.tensor(access.tensor).type.bytes();
  }
  return bytes;
}

/// Whether two groups of statements reduce data that they do not share and a cache does not keep,
/// to results that no later statement reads together: a common loop only makes each wait for the
/// other's memory (measured: two lookups of 1.6 MB 1.02 times faster one after the other).
bool reduce_unrelated_data(const std::vector<const ScopStatement*>& statements,
                           const std::vector<const ScopStatement*>& next, const Scop& scop,
                           const std::map<std::string, Layout>& layouts, int64_t cache_bytes) {
  const ir::Program& program = *scop.program;
  auto reduces_much = [&](const std::vector<const ScopStatement*>& group) {
    return std::any_of(group.begin(), group.end(), [&](const ScopStatement* s) {
      return is_update(*s) && read_bytes(*s, program, layouts) > static_cast<double>(cache_bytes);
    });
  };
  if (!reduces_much(statements) || !reduces_much(next) ||
      share_data(statements, *next.back(), program))
    return false;
  auto later = scop.statements.begin() + (next.back() - scop.statements.data() + 1);
  return std::none_of(later, scop.statements.end(), [&](const ScopStatement& s) {
    return share_data(statements, s, program) && share_data(next, s, program);
  });
}

/// Why a unit of statements should not share the loops that it could share with a group; empty
/// where it should. `joint` are all of them.
std::string why_apart(const std::vector<const ScopStatement*>& group,
                      const std::vector<const ScopStatement*>& unit,
                      const std::vector<const ScopStatement*>& joint, const Alignment& alignment,
                      const Scop& scop, const std::map<std::string, Layout>& layouts,
                      int64_t cache_bytes) {
  const ir::Program& program = *scop.program;
  const ScopStatement& last = *unit.back();
  if (loses_block(joint, alignment, program, layouts))
    return "would take a block in registers from its group";
  if (wants_block(last, program, layouts) && has_other_block(group, last, program, layouts))
    return "is a product with a block in registers of its own";
  if (writes_beside_block(group, last, program, layouts))
    return "writes beside a block in registers";
  if (reduce_unrelated_data(group, unit, scop, layouts, cache_bytes))
    return "shares no data with its group, and both read more than the cache keeps";
  return "";
}

/// Whether a statement writes a part of a tensor's rows, of which it or another one writes most.
bool is_part_of_row(const ScopStatement& part, const std::vector<const ScopStatement*>& statements,
                    const Alignment& alignment, const ir::Program& program,
                    const std::map<std::string, Layout>& layouts) {
  bool has_others = false, has_long = false;
  for (size_t s = 0; s < statements.size(); ++s) {
    const ScopStatement& other = *statements[s];
    if (is_update(other) || other.source->tensor != part.source->tensor) continue;
    has_others = has_others || !write_the_same(*other.source, *part.source);
    const std::vector<int> row = rest(other, alignment[s]);
    has_long = has_long ||
               (count(other, row) >= machine::kFusedPart && walks(other, row, program, layouts));
  }
  return !is_update(part) && has_others && has_long;
}

/// The rule for rows, on statements that would share these members.
bool suits_rows(const std::vector<const ScopStatement*>& statements, const Alignment& alignment,
                const ir::Program& program, const std::map<std::string, Layout>& layouts) {
  int64_t rows = count(*statements[0], alignment[0]);
  bool single = alignment[0].empty();
  if (!single && rows < machine::kFusedRows) return false;
  for (size_t s = 0; s < statements.size(); ++s) {
    const ScopStatement& statement = *statements[s];
    bool demoted = parallel_depth(statement) > alignment[s].size();
    // An initialisation goes where its updates go.
    bool reduces = statement.source->reduction != ir::Reduction::None;
    if (demoted && (single || reduces)) return false;
    if (!demoted && !is_update(statement)) continue;
    std::vector<int> row = rest(statement, alignment[s]);
    if ((count(statement, row) < machine::kFusedRow || !walks(statement, row, program, layouts)) &&
        !is_part_of_row(statement, statements, alignment, program, layouts))
      return false;
  }
  return true;
}

}  // namespace

Alignment align(const Dependences& dependences, const std::vector<const ScopStatement*>& statements,
                const Alignment& alignment, const ScopStatement& next) {
  return Aligner(dependences).extend(statements, alignment, next);
}

Cluster make_cluster(const std::vector<const ScopStatement*>& statements,
                     const Alignment& alignment, const Dependences& dependences,
                     const Alignment& outer) {
  Cluster cluster;
  cluster.statements = statements;
  cluster.alignment = alignment;
  cluster.outer = outer;
  cluster.shared = alignment.empty() ? 0 : static_cast<unsigned>(alignment[0].size());
  for (size_t s = 0; s < statements.size(); ++s) {
    const ScopStatement& statement = *statements[s];
    std::vector<int> below = rest(statement, cluster, s);
    std::vector<bool> coincident;
    for (int d : below) coincident.push_back(!statement.source->domain[d].reduction);
    isl::schedule own = isl::schedule::from_domain(statement.domain);
    own =
        insert_band(own.root().child(0), {&statement}, {below}, true, coincident).root().schedule();
    cluster.schedule = cluster.schedule.is_null() ? own : sequence(cluster.schedule, own);
    cluster.domain =
        cluster.domain.is_null() ? statement.domain : cluster.domain.unite(statement.domain);
  }
  cluster.schedule = insert_band(cluster.schedule.root().child(0), statements, alignment, true,
                                 std::vector<bool>(cluster.shared, true))
                         .root()
                         .schedule();
  for (const ScopStatement* first : statements)
    for (const ScopStatement* second : statements)
      if (auto found = dependences.pairs.find({first->id, second->id});
          found != dependences.pairs.end())
        cluster.dependences.insert(*found);
  return cluster;
}

std::vector<int> rest(const ScopStatement& statement, const std::vector<int>& members) {
  std::vector<int> result;
  for (int d = 0; d < static_cast<int>(statement.dimensions); ++d)
    if (std::find(members.begin(), members.end(), d) == members.end()) result.push_back(d);
  return result;
}

std::vector<int> rest(const ScopStatement& statement, const Cluster& cluster, size_t s) {
  std::vector<int> members = cluster.alignment[s];
  if (!cluster.outer.empty())
    members.insert(members.end(), cluster.outer[s].begin(), cluster.outer[s].end());
  return rest(statement, members);
}

isl::schedule_node insert_band(const isl::schedule_node& node,
                               const std::vector<const ScopStatement*>& statements,
                               const Alignment& positions, bool permutable,
                               const std::vector<bool>& coincident) {
  if (coincident.empty()) return node;
  std::string members;
  for (size_t m = 0; m < coincident.size(); ++m) {
    std::string pieces;
    for (size_t s = 0; s < statements.size(); ++s)
      pieces += concat(s ? "; " : "", tuple(*statements[s]), " -> [",
                       iterator_name(positions[s][m]), "]");
    members += concat(m ? ", " : "", "{ ", pieces, " }");
  }
  isl::multi_union_pw_aff schedule(node.ctx(), "[" + members + "]");
  auto band = node.insert_partial_schedule(schedule).as<isl::schedule_node_band>();
  band = band.set_permutable(permutable);
  for (size_t m = 0; m < coincident.size(); ++m)
    band = band.member_set_coincident(static_cast<int>(m), coincident[m]);
  return band;
}

bool is_named(const ScopStatement& statement, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == statement.id || name == statement.source->name;
  });
}

std::vector<Cluster> fuse(const Scop& scop, const Dependences& dependences, FusionStrategy strategy,
                          bool rows, const std::map<std::string, Layout>& layouts,
                          int64_t cache_bytes, const std::vector<std::vector<std::string>>& given) {
  struct Group {
    std::vector<const ScopStatement*> statements;
    Alignment alignment;
    unsigned widest = 0;  ///< the most coincident members that any statement has alone
    std::string apart;
  };
  Aligner aligner(dependences);
  std::vector<Group> groups;
  /// The list that names a statement; null where none does.
  auto list_of = [&](const ScopStatement& statement) {
    const std::vector<std::string>* found = nullptr;
    for (const auto& names : given)
      if (is_named(statement, names)) found = &names;
    return found;
  };
  auto names_any = [&](const Group& group, const std::vector<std::string>* names) {
    return std::any_of(group.statements.begin(), group.statements.end(),
                       [&](const auto* other) { return list_of(*other) == names; });
  };
  for (size_t s = 0; s < scop.statements.size();) {
    // An initialisation and its updates go together, so they are judged together.
    const ScopStatement& statement = scop.statements[s];
    std::vector<const ScopStatement*> unit;
    unsigned depth = 0;
    for (; s < scop.statements.size() && scop.statements[s].source == statement.source; ++s) {
      unit.push_back(&scop.statements[s]);
      depth = std::max(depth, parallel_depth(scop.statements[s]));
    }
    auto extend = [&](Group group) {
      for (const ScopStatement* next : unit) {
        group.alignment = aligner.extend(group.statements, group.alignment, *next);
        group.statements.push_back(next);
      }
      group.widest = std::max(group.widest, depth);
      return group;
    };
    std::string apart;
    const std::vector<std::string>* names = list_of(statement);
    const bool together = names && !groups.empty() && names_any(groups.back(), names);
    if (names && !together && std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
          return names_any(group, names);
        }))
      throw CompilationError(concat("the options put ", join(*names),
                                    " into one cluster, but others lie between them"));
    const bool separate =
        names && !together && !groups.empty() &&
        std::any_of(groups.back().statements.begin(), groups.back().statements.end(),
                    [&](const auto* other) { return list_of(*other); });
    if (!groups.empty() && strategy == FusionStrategy::Min) apart = "the options fuse nothing";
    bool scatters = !groups.empty() && (ir::is_scatter(*statement.source) ||
                                        ir::is_scatter(*groups.back().statements[0]->source));
    if (scatters && together)
      throw CompilationError(concat("the options put ", join(*names),
                                    " into one cluster, but a scatter has loops of its own"));
    if (together) {
      groups.back() = extend(groups.back());
      continue;
    }
    if (separate)
      apart = "the options have it in another cluster";
    else if (scatters && strategy != FusionStrategy::Min)
      apart = "a scatter has loops of its own";
    else if (!groups.empty() && strategy != FusionStrategy::Min) {
      Group joint = extend(groups.back());
      unsigned kept = static_cast<unsigned>(joint.alignment[0].size());
      unsigned needed = strategy == FusionStrategy::Max ? 1 : std::min(3u, joint.widest);
      bool fused = kept > 0 && kept >= needed;
      apart = concat(statement.source->name, " could share ", kept, " of ",
                     plural(joint.widest, "loop"), "; fusing takes ", needed);
      if (rows && fused) {
        const std::string why = why_apart(groups.back().statements, unit, joint.statements,
                                          joint.alignment, scop, layouts, cache_bytes);
        if (!why.empty()) {
          fused = false;
          apart = concat(statement.source->name, " ", why);
        }
      }
      if (rows && kept < needed && share_data(groups.back().statements, statement, *scop.program))
        fused = suits_rows(joint.statements, joint.alignment, *scop.program, layouts);
      if (fused) {
        groups.back() = joint;
        continue;
      }
    }
    std::vector<int> own(parallel_depth(*unit[0]));
    std::iota(own.begin(), own.end(), 0);
    Group group{{unit[0]}, {own}, depth, apart};
    unit.erase(unit.begin());
    groups.push_back(extend(group));
  }
  std::vector<Cluster> clusters;
  for (const Group& group : groups) {
    clusters.push_back(make_cluster(group.statements, group.alignment, dependences));
    clusters.back().apart = group.apart;
  }
  return clusters;
}

}  // namespace tc::poly
