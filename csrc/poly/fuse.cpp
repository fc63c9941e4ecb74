#include "poly/fuse.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "base/error.h"
#include "base/notes.h"
#include "ir/accesses.h"
#include "ir/expressions/reads.h"
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

/// Whether every dependence of a statement on those before has distance zero between a member of
/// their band and one of its iterators.
bool has_distance_zero(const Dependences& dependences, const Statements& statements,
                       const Alignment& alignment, size_t member, const ScopStatement& next,
                       int d) {
  bool depends = false;
  for (size_t s = 0; s < statements.size(); ++s) {
    auto found = dependences.find({statements[s]->id, next.id});
    if (found == dependences.end()) continue;
    depends = true;
    if (!is_of_same_iteration(found->second, {alignment[s][member]}, {d})) return false;
  }
  // Statements that share no data may run together; the same position is as good as any.
  return depends || alignment[0][member] == d;
}

int64_t count(const ScopStatement& statement, const std::vector<int>& iterators) {
  int64_t product = 1;
  for (int d : iterators) product *= extent_of(statement.source->domain[d]);
  return product;
}

bool is_update(const ScopStatement& statement) {
  return !statement.initialization && statement.dimensions > parallel_depth(statement);
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

/// Whether two scatters add up in one tensor at the same points, and read some tensor in common.
bool scatter_together(const ir::Program& program, const ir::Statement& a, const ir::Statement& b) {
  if (!ir::add_up_together(a, b) || a.domain.size() != b.domain.size()) return false;
  std::set<std::string> read;
  for (const ir::MemoryAccess& access : accesses(program, a))
    if (!access.write) read.insert(access.tensor);
  const std::vector<ir::MemoryAccess> others = accesses(program, b);
  return std::all_of(b.domain.begin(), b.domain.end(),
                     [&](const ir::Iterator& it) {
                       return std::any_of(
                           a.domain.begin(), a.domain.end(), [&](const ir::Iterator& other) {
                             return other.name == it.name && other.reduction == it.reduction &&
                                    have_same_range(other, it);
                           });
                     }) &&
         std::any_of(others.begin(), others.end(), [&](const ir::MemoryAccess& access) {
           return !access.write && read.count(access.tensor) > 0;
         });
}

/// Which statements gain from loops in common, by what they compute.
class Rules {
 public:
  Rules(const Scop& scop, const Layouts& layouts, int64_t cache_bytes)
      : scop_(scop), program_(*scop.program), layouts_(layouts), cache_bytes_(cache_bytes) {}

  /// Why a unit of statements should not share the loops that it could share with a group; empty
  /// where it should. `joint` are all of them.
  std::string why_apart(const Statements& group, const Statements& unit, const Statements& joint,
                        const Alignment& alignment) const {
    const ScopStatement& last = *unit.back();
    if (loses_block(joint, alignment) || outgrows_block(joint, alignment))
      return "would take a block in registers from its group";
    if (wants_block(last) && has_other_block(group, last))
      return "is a product with a block in registers of its own";
    if (writes_beside_block(group, last)) return "writes beside a block in registers";
    if (reduce_unrelated_data(group, unit))
      return "shares no data with its group, and both read more than the cache keeps";
    return "";
  }

  /// The rule for rows, on statements that would share these members.
  bool suits_rows(const Statements& statements, const Alignment& alignment) const {
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
      if ((count(statement, row) < machine::kFusedRow || !walks(statement, alignment[s], row)) &&
          !is_part_of_row(statement, statements, alignment))
        return false;
    }
    return true;
  }

  bool share_data(const Statements& statements, const ScopStatement& next) const {
    std::set<std::string> tensors;
    for (const ScopStatement* statement : statements)
      for (const ir::MemoryAccess& access : accesses(program_, *statement->source))
        tensors.insert(access.tensor);
    for (const ir::MemoryAccess& access : accesses(program_, *next.source))
      if (tensors.count(access.tensor)) return true;
    return false;
  }

 private:
  /// Whether a sum of products would lose a member along which some operand is used again, one of
  /// the dimensions of a block of results; or have one left inside of the loop over neighbours in
  /// its result, which a block has innermost (measured: a depthwise convolution of 28 x 28 that
  /// shares all but its channels with what interleaves them takes 6 times as long).
  bool loses_block(const Statements& statements, const Alignment& alignment) const {
    for (size_t s = 0; s < statements.size(); ++s) {
      const ScopStatement& statement = *statements[s];
      if (!is_update(statement)) continue;
      if (leaves_row(statement, alignment[s])) return true;
      const std::vector<ir::Iterator>& domain = statement.source->domain;
      for (const ir::MemoryAccess& access : accesses(program_, *statement.source)) {
        auto moves = [&](int d) {
          return stride_along(access, layouts_.at(access.tensor), domain[d].name) != 0;
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

  /// Whether a sum that wants a block would have none: the statements of a block compute one
  /// element for each point of the members, and one of these computes several. A scan has no block
  /// anyway.
  bool outgrows_block(const Statements& statements, const Alignment& alignment) const {
    const auto computes_one = [&](const ScopStatement* statement) {
      return statement->source->subscripts.size() == alignment[0].size();
    };
    return !std::all_of(statements.begin(), statements.end(), computes_one) &&
           std::any_of(statements.begin(), statements.end(), [&](const ScopStatement* statement) {
             return wants_block(*statement) && !ir::is_scan(*statement->source);
           });
  }

  /// Whether a result index runs inside of the members, one of which is that of contiguous results.
  bool leaves_row(const ScopStatement& statement, const std::vector<int>& members) const {
    const ir::MemoryAccess write = accesses(program_, *statement.source).back();
    const std::vector<ir::Iterator>& domain = statement.source->domain;
    const auto is_long = [&](int d) { return !domain[d].reduction && extent_of(domain[d]) > 1; };
    const std::vector<int> inside = rest(statement, members);
    return std::any_of(inside.begin(), inside.end(), is_long) &&
           std::any_of(members.begin(), members.end(), [&](int d) {
             return is_long(d) &&
                    stride_along(write, layouts_.at(write.tensor), domain[d].name) == 1;
           });
  }

  /// Whether a statement is a sum of products whose terms make use of two operands again and again,
  /// each along a result index of the other: what blocks in registers are for.
  bool wants_block(const ScopStatement& statement) const {
    if (!is_update(statement)) return false;
    int reused = 0;
    for (const ir::MemoryAccess& access : accesses(program_, *statement.source)) {
      bool reduced = false, again = false;
      for (const ir::Iterator& it : statement.source->domain) {
        bool moves = stride_along(access, layouts_.at(access.tensor), it.name) != 0;
        (it.reduction ? reduced : again) |= it.reduction ? moves : !moves;
      }
      reused += !access.write && reduced && again;
    }
    return reused > 1;
  }

  /// Whether some statement of a group is such a sum too. Two of them cannot tile their reductions,
  /// and gain from a common loop over blocks only where they add few terms to the
  /// same results.
  bool has_other_block(const Statements& statements, const ScopStatement& next) const {
    const int64_t terms = count_points(reduced_indices(*next.source));
    return std::any_of(statements.begin(), statements.end(), [&](const ScopStatement* statement) {
      return (!write_the_same(*statement->source, *next.source) || terms >= machine::kManyTerms) &&
             statement->source != next.source && wants_block(*statement);
    });
  }

  /// Whether a statement and such a sum write a tensor in different places: what the block holds
  /// would have to be told apart from the rest of the tensor.
  bool writes_beside_block(const Statements& statements, const ScopStatement& next) const {
    return std::any_of(statements.begin(), statements.end(), [&](const ScopStatement* statement) {
      return statement->source->tensor == next.source->tensor &&
             !write_the_same(*statement->source, *next.source) &&
             (wants_block(*statement) || wants_block(next));
    });
  }

  /// Whether some access of a statement has stride 1 along an iterator of its rows, or -1 in a
  /// scan. Asked of accesses that move along the members as well: rows that all iterations of these
  /// reuse stay in the cache, whatever their stride. Where there are only such, any of them counts.
  bool walks(const ScopStatement& statement, const std::vector<int>& members,
             const std::vector<int>& row) const {
    bool common = true, own = false, any = false;
    for (const ir::MemoryAccess& access : accesses(program_, *statement.source)) {
      const auto stride = [&](int d) {
        return stride_along(access, layouts_.at(access.tensor), statement.source->domain[d].name);
      };
      const auto moves = [&](int d) { return stride(d) != 0; };
      const bool consecutive = std::any_of(row.begin(), row.end(), [&](int d) {
        return stride(d) == 1 || (stride(d) == -1 && ir::is_scan(*statement.source));
      });
      any = any || consecutive;
      if (std::none_of(members.begin(), members.end(), moves) ||
          std::none_of(row.begin(), row.end(), moves))
        continue;
      common = false;
      own = own || consecutive;
    }
    return common ? any : own;
  }

  /// Bytes of what a statement reads, each element once.
  double read_bytes(const ScopStatement& statement) const {
    double bytes = 0;
    for (const ir::MemoryAccess& access : accesses(program_, *statement.source)) {
      if (access.write) continue;
      const Layout& layout = layouts_.at(access.tensor);
      double reads = 1, elements = 1;
      for (const ir::Iterator& it : statement.source->domain)
        if (stride_along(access, layout, it.name) != 0) reads *= static_cast<double>(extent_of(it));
      for (int64_t size : layout.sizes) elements *= static_cast<double>(size);
      bytes += std::min(reads, elements) * program_.tensor(access.tensor).type.bytes();
    }
    return bytes;
  }

  /// Whether two groups of statements reduce data that they do not share and a cache does not keep,
  /// to results that no later statement reads together: a common loop only makes each wait for the
  /// other's memory (measured: two lookups of 1.6 MB 1.02 times faster one after the other).
  bool reduce_unrelated_data(const Statements& statements, const Statements& next) const {
    auto reduces_much = [&](const Statements& group) {
      return std::any_of(group.begin(), group.end(), [&](const ScopStatement* s) {
        return is_update(*s) && read_bytes(*s) > static_cast<double>(cache_bytes_);
      });
    };
    if (!reduces_much(statements) || !reduces_much(next) || share_data(statements, *next.back()))
      return false;
    auto later = scop_.statements.begin() + (next.back() - scop_.statements.data() + 1);
    return std::none_of(later, scop_.statements.end(), [&](const ScopStatement& s) {
      return share_data(statements, s) && share_data(next, s);
    });
  }

  /// Whether a statement writes a part of a tensor's rows, of which it or another one writes most.
  bool is_part_of_row(const ScopStatement& part, const Statements& statements,
                      const Alignment& alignment) const {
    bool has_others = false, has_long = false;
    for (size_t s = 0; s < statements.size(); ++s) {
      const ScopStatement& other = *statements[s];
      if (is_update(other) || other.source->tensor != part.source->tensor) continue;
      has_others = has_others || !write_the_same(*other.source, *part.source);
      const std::vector<int> row = rest(other, alignment[s]);
      has_long =
          has_long || (count(other, row) >= machine::kFusedPart && walks(other, alignment[s], row));
    }
    return !is_update(part) && has_others && has_long;
  }

  const Scop& scop_;
  const ir::Program& program_;
  const Layouts& layouts_;
  const int64_t cache_bytes_;
};

}  // namespace

Alignment align(const Dependences& dependences, const Statements& statements,
                const Alignment& alignment, const ScopStatement& next) {
  Alignment result(statements.size() + 1);
  std::vector<int>& chosen = result.back();
  // Members that find no iterator are dropped, and those behind them kept: all of them are
  // coincident and permutable.
  for (size_t m = 0; m < alignment[0].size(); ++m) {
    const ir::Iterator& member = statements[0]->source->domain[alignment[0][m]];
    for (int d = 0; d < static_cast<int>(parallel_depth(next)); ++d) {
      // Fused loops run over the same values; a shorter one would need a guard in every iteration.
      if (std::count(chosen.begin(), chosen.end(), d) > 0 ||
          !have_same_range(member, next.source->domain[d]) ||
          !has_distance_zero(dependences, statements, alignment, m, next, d))
        continue;
      for (size_t s = 0; s < statements.size(); ++s) result[s].push_back(alignment[s][m]);
      chosen.push_back(d);
      break;
    }
  }
  return result;
}

Cluster make_cluster(const Statements& statements, const Alignment& alignment,
                     const Dependences& dependences, const Alignment& outer) {
  Cluster cluster;
  cluster.statements = statements;
  cluster.alignment = alignment;
  cluster.outer = outer;
  cluster.shared = alignment.empty() ? 0 : static_cast<unsigned>(alignment[0].size());
  for (const ScopStatement* first : statements)
    for (const ScopStatement* second : statements)
      if (auto found = dependences.find({first->id, second->id}); found != dependences.end())
        cluster.dependences.insert(*found);
  return cluster;
}

std::vector<int> rest(const ScopStatement& statement, const std::vector<int>& members) {
  std::vector<int> result;
  for (int d = 0; d < static_cast<int>(statement.dimensions); ++d)
    if (std::find(members.begin(), members.end(), d) == members.end()) result.push_back(d);
  return result;
}

std::vector<int> rest(const Cluster& cluster, size_t statement) {
  std::vector<int> members = cluster.alignment[statement];
  if (!cluster.outer.empty())
    members.insert(members.end(), cluster.outer[statement].begin(), cluster.outer[statement].end());
  return rest(*cluster.statements[statement], members);
}

bool is_named(const ScopStatement& statement, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == statement.id || name == statement.source->name;
  });
}

std::vector<Cluster> fuse(const Scop& scop, const Dependences& dependences, FusionStrategy strategy,
                          bool rows, const Layouts& layouts, int64_t cache_bytes,
                          const std::vector<std::vector<std::string>>& given) {
  const Rules rules(scop, layouts, cache_bytes);
  std::vector<Cluster> groups;  // their dependences come last
  /// The list that names a statement; null where none does.
  auto list_of = [&](const ScopStatement& statement) {
    const std::vector<std::string>* found = nullptr;
    for (const auto& names : given)
      if (is_named(statement, names)) found = &names;
    return found;
  };
  auto names_any = [&](const Cluster& group, const std::vector<std::string>* names) {
    return std::any_of(group.statements.begin(), group.statements.end(),
                       [&](const auto* other) { return list_of(*other) == names; });
  };
  for (size_t s = 0; s < scop.statements.size();) {
    // An initialisation and its updates go together, so they are judged together.
    const ScopStatement& statement = scop.statements[s];
    Statements unit;
    for (; s < scop.statements.size() && scop.statements[s].source == statement.source; ++s)
      unit.push_back(&scop.statements[s]);
    auto extend = [&](Cluster group) {
      for (const ScopStatement* next : unit) {
        group.alignment = align(dependences, group.statements, group.alignment, *next);
        group.statements.push_back(next);
      }
      return group;
    };
    const std::vector<std::string>* names = list_of(statement);
    const Cluster* last = groups.empty() ? nullptr : &groups.back();
    const bool together = last && names && names_any(*last, names);
    if (names && !together && std::any_of(groups.begin(), groups.end(), [&](const Cluster& group) {
          return names_any(group, names);
        }))
      throw CompilationError(concat("the options put ", join(*names),
                                    " into one cluster, but others lie between them"));
    const bool scatters =
        last && (ir::is_scatter(*statement.source) || ir::is_scatter(*last->statements[0]->source));
    Cluster joint;
    bool joins = scatters && std::all_of(last->statements.begin(), last->statements.end(),
                                         [&](const ScopStatement* other) {
                                           return scatter_together(*scop.program, *other->source,
                                                                   *statement.source);
                                         });
    if (joins) {
      joint = extend(*last);
      joins = joint.alignment[0].size() == parallel_depth(statement);
    }
    if (scatters && together && !joins)
      throw CompilationError(concat("the options put ", join(*names),
                                    " into one cluster, but a scatter has loops of its own"));
    std::string apart;
    bool fused = together;
    if (together) {
      joint = extend(*last);
    } else if (last && names &&
               std::any_of(last->statements.begin(), last->statements.end(),
                           [&](const auto* other) { return list_of(*other); })) {
      apart = "the options have it in another cluster";
    } else if (last && strategy == FusionStrategy::Min) {
      apart = "the options fuse nothing";
    } else if (scatters) {
      fused = joins && rows;
      apart = "a scatter has loops of its own";
    } else if (last) {
      joint = extend(*last);
      const auto kept = static_cast<unsigned>(joint.alignment[0].size());
      unsigned widest = 0;  // the most coincident members that any statement has alone
      for (const ScopStatement* each : joint.statements)
        widest = std::max(widest, parallel_depth(*each));
      const unsigned needed = strategy == FusionStrategy::Max ? 1 : std::min(3u, widest);
      fused = kept > 0 && kept >= needed;
      apart = concat(statement.source->name, " could share ", kept, " of ", plural(widest, "loop"),
                     "; fusing takes ", needed);
      if (rows && fused) {
        const std::string why =
            rules.why_apart(last->statements, unit, joint.statements, joint.alignment);
        fused = why.empty();
        if (!fused) apart = concat(statement.source->name, " ", why);
      }
      if (rows && kept < needed && rules.share_data(last->statements, statement))
        fused = rules.suits_rows(joint.statements, joint.alignment);
    }
    if (fused) {
      groups.back() = joint;
      continue;
    }
    std::vector<int> own(parallel_depth(*unit[0]));
    std::iota(own.begin(), own.end(), 0);
    Cluster group = make_cluster({unit[0]}, {own}, {});
    group.apart = apart;
    unit.erase(unit.begin());
    groups.push_back(extend(group));
  }
  for (Cluster& group : groups) {
    const std::string apart = group.apart;
    group = make_cluster(group.statements, group.alignment, dependences);
    group.apart = apart;
  }
  return groups;
}

}  // namespace tc::poly
