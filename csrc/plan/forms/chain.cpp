#include "plan/forms/chain.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/notes.h"
#include "plan/forms/register_blocks.h"
#include "plan/forms/register_tiles.h"
#include "plan/forms/scatters.h"
#include "plan/members.h"
#include "plan/options/constraints.h"

namespace tc::plan {
namespace {

// What a register block may lose, by the model of cycles, where a large tensor stays in the cache.
constexpr double kMostLoss = 1.1;
// Iterations of the outer loops for every core, so that none waits long for the last.
constexpr int64_t kIterationsPerCore = 8;
// Accesses of a cluster in one iteration that make up for the loops around its tiles.
constexpr int64_t kFewestAccesses = 4096;

/// A number of neighbouring clusters and the loops around them.
struct Chain {
  std::vector<Cluster> clusters;
  std::vector<const ScopStatement*> statements;  ///< of all clusters
  Alignment shared;                              ///< members that all statements have in common
};

class Chainer {
 public:
  explicit Chainer(const PlanContext& in) : in_(in), program_(*in.scop.program) {}

  std::vector<Cluster> chain(const std::vector<Cluster>& clusters) const {
    std::vector<Cluster> result;
    for (size_t c = 0; c < clusters.size();) {
      std::vector<Cluster> best = {clusters[c]};
      const ClusterOptions* own = given(clusters[c]);
      if (own && !own->outer->empty()) best = put_inside_as_given(clusters, c);
      Chain chain{{clusters[c]}, clusters[c].statements, loops(clusters[c])};
      for (size_t next = c + 1; !own && next < clusters.size(); ++next) {
        if (given(clusters[next]) || is_scatter(clusters[next - 1]) || is_scatter(clusters[next]) ||
            !passes_on(chain, clusters[next]))
          break;
        extend(chain, clusters[next]);
        auto inside = put_inside(chain);
        if (!inside) break;
        best = *inside;
      }
      c += best.size();
      result.insert(result.end(), best.begin(), best.end());
    }
    return result;
  }

 private:
  /// The options of a cluster where they say which loops are around it.
  const ClusterOptions* given(const Cluster& cluster) const {
    const ClusterOptions* own = options_of(cluster, in_.options);
    return own && own->outer ? own : nullptr;
  }

  void extend(Chain& chain, const Cluster& next) const {
    for (const ScopStatement* statement : next.statements) {
      chain.shared = align(in_.dependences, chain.statements, chain.shared, *statement);
      chain.statements.push_back(statement);
    }
    chain.clusters.push_back(next);
  }

  /// The cluster and those that join its outer loops, by the options.
  std::vector<Cluster> put_inside_as_given(const std::vector<Cluster>& clusters, size_t c) const {
    Chain chain{{clusters[c]}, clusters[c].statements, loops(clusters[c])};
    for (size_t next = c + 1; next < clusters.size(); ++next) {
      const ClusterOptions* own = given(clusters[next]);
      if (!own || !own->joined.value_or(false)) break;
      extend(chain, clusters[next]);
    }
    std::vector<Cluster> inside;
    std::vector<size_t> around;  // members of the cluster before, whose loops the next one joins
    size_t first = 0;
    for (const Cluster& cluster : chain.clusters) {
      const std::vector<std::string>& names = *given(cluster)->outer;
      const auto error = [&](const std::string& why) {
        return CompilationError(
            concat("the options put ", cluster.statements.back()->id, " inside ",
                   names.empty() ? "no loops" : "loops over " + join(names), why));
      };
      if (!inside.empty() && names.empty())
        throw error(" and let it join those of the cluster before");
      const std::vector<size_t> members =
          members_of(chain, first + cluster.statements.size() - 1, names);
      std::optional<Cluster> moved;
      if (members.size() == names.size()) moved = put_inside(cluster, chain, first, members);
      if (!moved) throw error(", which it does not share with those that join them");
      // Loops are joined by position, from outside to inside: they have to be the same members.
      if (!inside.empty() && (members.size() > around.size() ||
                              !std::equal(members.begin(), members.end(), around.begin())))
        throw error(", which are not the outermost loops around the cluster before");
      moved->joined = !inside.empty();
      inside.push_back(*moved);
      around = members;
      first += cluster.statements.size();
    }
    return inside;
  }

  /// The shared members to which a statement, by its number in the chain, gives these names.
  static std::vector<size_t> members_of(const Chain& chain, size_t statement,
                                        const std::vector<std::string>& names) {
    const std::vector<int>& shared = chain.shared[statement];
    std::vector<size_t> members;
    for (const std::string& name : names)
      for (size_t m = 0; m < shared.size(); ++m)
        if (chain.statements[statement]->source->domain[shared[m]].name == name)
          members.push_back(m);
    return members;
  }

  /// The members that have more than one iteration.
  static Alignment loops(const Cluster& cluster) {
    Alignment result(cluster.statements.size());
    for (unsigned m = 0; m < cluster.shared; ++m)
      if (extent_of(cluster.statements[0]->source->domain[cluster.alignment[0][m]]) > 1)
        for (size_t s = 0; s < result.size(); ++s) result[s].push_back(cluster.alignment[s][m]);
    return result;
  }

  /// Whether the cluster reads a tensor that the chain writes and that does not stay in the cache.
  bool passes_on(const Chain& chain, const Cluster& next) const {
    for (const ScopStatement* reader : next.statements)
      for (const ir::MemoryAccess& access : accesses(program_, *reader->source))
        for (const ScopStatement* writer : chain.statements)
          if (!access.write && writer->source->tensor == access.tensor &&
              bytes(access.tensor) > in_.machine.cache_bytes)
            return true;
    return false;
  }

  int64_t bytes(const std::string& tensor) const {
    return dense_bytes(program_.tensor(tensor), in_.layouts.at(tensor));
  }

  /// The clusters inside as few of the shared members as make a slice fit in the cache.
  std::optional<std::vector<Cluster>> put_inside(const Chain& chain) const {
    for (size_t count = 1; count <= chain.shared[0].size(); ++count) {
      if (slice_bytes(chain, count) > in_.machine.cache_bytes) continue;
      std::vector<Cluster> inside;
      size_t first = 0;
      std::vector<size_t> members(count);
      std::iota(members.begin(), members.end(), size_t{0});
      for (const Cluster& cluster : chain.clusters) {
        auto moved = put_inside(cluster, chain, first, members);
        if (!moved || !pays(cluster, *moved)) return std::nullopt;
        moved->joined = !inside.empty();
        inside.push_back(*moved);
        first += cluster.statements.size();
      }
      if (outer_iterations(inside[0]) < kIterationsPerCore * in_.machine.cores) return std::nullopt;
      return inside;
    }
    return std::nullopt;
  }

  /// What an iteration of the first `count` shared members touches of all tensors.
  int64_t slice_bytes(const Chain& chain, size_t count) const {
    std::map<std::string, int64_t> slices;
    for (size_t s = 0; s < chain.statements.size(); ++s) {
      const ir::Statement& statement = *chain.statements[s]->source;
      for (const ir::MemoryAccess& access : accesses(program_, statement)) {
        int64_t slice = bytes(access.tensor);
        for (size_t m = 0; m < count; ++m) {
          const ir::Iterator& iterator = statement.domain[chain.shared[s][m]];
          if (stride_along(access, in_.layouts.at(access.tensor), iterator.name) != 0)
            slice /= extent_of(iterator);
        }
        slices[access.tensor] = std::max(slices[access.tensor], slice);
      }
    }
    int64_t total = 0;
    for (const auto& [tensor, slice] : slices) total += slice;
    return total;
  }

  /// One cluster, whose statements begin at `first` in the chain, with some of the shared members
  /// moved from its band to loops around it. Nothing where they are no members of its band, are
  /// all that it has, or have neighbours in memory.
  std::optional<Cluster> put_inside(const Cluster& cluster, const Chain& chain, size_t first,
                                    const std::vector<size_t>& members) const {
    Alignment inner = cluster.alignment, outer(cluster.statements.size());
    for (size_t m : members) {
      size_t place = inner[0].size();
      for (size_t p = 0; p < inner[0].size() && place == inner[0].size(); ++p) {
        bool same = true;
        for (size_t s = 0; s < outer.size(); ++s)
          same = same && inner[s][p] == chain.shared[first + s][m];
        if (same) place = p;
      }
      if (place == inner[0].size()) return std::nullopt;
      for (size_t s = 0; s < outer.size(); ++s) {
        outer[s].push_back(inner[s][place]);
        inner[s].erase(inner[s].begin() + static_cast<int>(place));
      }
    }
    if (inner[0].empty()) return std::nullopt;
    for (size_t s = 0; s < outer.size(); ++s) {
      const ir::Statement& statement = *cluster.statements[s]->source;
      for (const ir::MemoryAccess& access : accesses(program_, statement))
        for (int d : outer[s])
          if (stride_along(access, in_.layouts.at(access.tensor), statement.domain[d].name) == 1)
            return std::nullopt;
    }
    Cluster moved = make_cluster(cluster.statements, inner, in_.dependences, outer);
    moved.outer_parallel = in_.options.parallel;
    return moved;
  }

  /// Whether an iteration of the outer loops has enough work, and the cluster does not need them
  /// for its register block.
  bool pays(const Cluster& cluster, const Cluster& moved) const {
    if (count_accesses(moved, program_) <
        in_.machine.least(kFewestAccesses) * outer_iterations(moved))
      return false;
    return !suits_register_tiles(cluster) || !has_inner_loops(cluster) ||
           block_cycles(moved) <= kMostLoss * block_cycles(cluster);
  }

  double block_cycles(const Cluster& cluster) const {
    std::vector<Member> members = analyze_members(
        cluster, program_, in_.layouts, count_lanes(cluster, program_, in_.machine.step_bits()));
    move_vector_last(members);
    const auto blocks = choose_blocks({cluster, program_, in_.layouts, in_.machine}, members);
    return blocks.empty() ? std::numeric_limits<double>::infinity() : blocks.front().cycles;
  }

  const PlanContext in_;
  const ir::Program& program_;
};

}  // namespace

std::vector<Cluster> chain(const std::vector<Cluster>& clusters, const PlanContext& in) {
  return Chainer(in).chain(clusters);
}

}  // namespace tc::plan
