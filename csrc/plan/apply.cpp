#include "plan/apply.h"

#include <algorithm>
#include <utility>

#include "base/numbers.h"
#include "plan/resolve.h"
#include "poly/marks.h"

namespace tc::plan {
namespace {

using isl::schedule_node;
using isl::schedule_node_band;
using poly::Role;

schedule_node_band as_band(const schedule_node& node) { return node.as<schedule_node_band>(); }

class Builder {
 public:
  Builder(const ClusterPlan& plan, Resolved in, const Cluster& cluster, const Scop& scop)
      : plan_(plan), in_(std::move(in)), cluster_(cluster), scop_(scop) {}

  Applied build() {
    schedule_node node = make_nests();
    if (in_.members.empty()) {
      mark_nests(node);
      for (size_t c = 0; c < plan_.copies.size(); ++c)
        applied_.refused.emplace(c, Reason{"there are no shared loops whose tasks would make it"});
    } else {
      add_shared_loops(node);
    }
    applied_.mapped.schedule = node.root().schedule();
    count_refused();
    return std::move(applied_);
  }

 private:
  /// All nests, one after the other, without the shared loops.
  schedule_node make_nests() const {
    isl::schedule all;
    for (const Nest& nest : in_.nests) {
      isl::schedule own;
      std::vector<const ScopStatement*> statements;
      for (size_t n = 0; n < nest.statements.size(); ++n) {
        statements.push_back(cluster_.statements[nest.statements[n]]);
        isl::schedule next = isl::schedule::from_domain(instances_of(nest, n));
        own = own.is_null() ? next : poly::sequence(own, next);
      }
      const std::vector<size_t> loops = loops_of(nest);
      Alignment iterators;
      for (const std::vector<int>& all : nest.loops) {
        iterators.emplace_back();
        for (size_t k : loops) iterators.back().push_back(all[k]);
      }
      schedule_node node = poly::insert_band(own.root().child(0), statements, iterators, false);
      if (!has_points_apart(plan_))
        node = take_terms(node, nest);
      else if (children_of(nest) > 1 && !in_.members.empty())
        node = keep_together(node);
      own = node.root().schedule();
      all = all.is_null() ? own : poly::sequence(all, own);
    }
    return all.root().child(0);
  }

  /// Those of a nest's loops that are around its register tiles.
  static std::vector<size_t> loops_of(const Nest& nest) {
    std::vector<size_t> loops;
    for (size_t k = 0; k < nest.ranges.size(); ++k)
      if (nest.ranges[k].is_loop()) loops.push_back(k);
    return loops;
  }

  /// Children of the sequence of all nests that are one nest's: where a nest has no band, isl takes
  /// its own sequence for a part of that.
  static int children_of(const Nest& nest) {
    return loops_of(nest).empty() ? static_cast<int>(nest.statements.size()) : 1;
  }

  /// Puts a mark above a nest's sequence, so that it stays a single child until points of its own
  /// are around it.
  static schedule_node keep_together(const schedule_node& sequence) {
    isl_id* id = isl_id_alloc(sequence.ctx().get(), "nest", nullptr);
    return isl::manage(isl_schedule_node_insert_mark(sequence.copy(), id));
  }
  static schedule_node release(const schedule_node& nest) {
    return nest.isa<isl::schedule_node_mark>() ? isl::manage(isl_schedule_node_delete(nest.copy()))
                                               : nest;
  }

  /// Of one of the nest's statements, by its place there.
  isl::union_set instances_of(const Nest& nest, size_t n) const {
    const ScopStatement& statement = *cluster_.statements[nest.statements[n]];
    isl_set* instances = isl_set_from_union_set(statement.domain.copy());
    for (size_t k = 0; k < nest.ranges.size(); ++k) {
      const auto [begin, end, terms] = nest.ranges[k];
      const auto iterator = static_cast<unsigned>(nest.loops[n][k]);
      if (terms == 0 || (begin == 0 && end == extent_of(own_iterator(nest, k, cluster_)))) continue;
      instances = isl_set_lower_bound_si(instances, isl_dim_set, iterator, static_cast<int>(begin));
      instances =
          isl_set_upper_bound_si(instances, isl_dim_set, iterator, static_cast<int>(end - 1));
    }
    return isl::manage(isl_union_set_from_set(instances));
  }

  /// Makes a nest's band one of register tiles, without the points that these take as terms.
  static schedule_node take_terms(const schedule_node& band, const Nest& nest) {
    std::vector<int64_t> sizes;
    for (size_t k : loops_of(nest)) sizes.push_back(std::max<int64_t>(1, nest.ranges[k].terms));
    if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; }))
      return band;
    const schedule_node points = poly::tile(as_band(band), sizes).child(0);
    return isl::manage(isl_schedule_node_delete(points.copy())).parent();
  }

  /// Puts the terms of register tiles below the points of their results, at the leaves.
  schedule_node add_terms(schedule_node node) const {
    if (!node.isa<isl::schedule_node_leaf>()) {
      const unsigned children = node.n_children(), depth = node.tree_depth();
      for (unsigned c = 0; c < children; ++c)
        node = back_to(add_terms(node.child(static_cast<int>(c))), depth);
      return node;
    }
    const isl::set instances =
        isl::manage(isl_set_from_union_set(isl_schedule_node_get_domain(node.get())));
    const std::string id = isl_set_get_tuple_name(instances.get());
    for (const Nest& nest : in_.nests)
      for (size_t n = 0; n < nest.statements.size(); ++n) {
        const ScopStatement& statement = *cluster_.statements[nest.statements[n]];
        std::vector<int> terms;
        for (size_t k = 0; k < nest.ranges.size(); ++k)
          if (nest.ranges[k].terms > 0) terms.push_back(nest.loops[n][k]);
        if (statement.id == id && !terms.empty()) return add_terms(node, statement, terms);
      }
    return node;
  }

  schedule_node add_terms(const schedule_node& leaf, const ScopStatement& statement,
                          const std::vector<int>& terms) const {
    const schedule_node band = poly::insert_band(leaf, {&statement}, {terms}, false);
    schedule_node mark = insert_mark(as_band(band), Role::Terms);
    if (plan_.instruction.empty()) return mark;
    // Above the vector and its mark.
    return poly::insert_intrinsic(mark.parent().parent(), plan_.instruction)
        .child(0)
        .child(0)
        .child(0);
  }

  void add_shared_loops(schedule_node& node) {
    Alignment ordered(cluster_.statements.size());
    for (size_t s = 0; s < ordered.size(); ++s)
      for (const Member& member : in_.members)
        ordered[s].push_back(cluster_.alignment[s][member.position]);
    node = poly::insert_band(node, cluster_.statements, ordered, true);
    node = poly::insert_outer_loops(node, cluster_);
    const int64_t tasks = count_tiles(in_.members, in_.task_sizes);
    if (tasks > 1 || plan_.run_tasks == Tasks::Blocks) {
      schedule_node_band tiles = poly::tile(as_band(node), in_.task_sizes);
      if (!std::is_sorted(in_.task_order.begin(), in_.task_order.end()))
        tiles = poly::reorder(tiles, in_.task_order);
      node =
          plan_.run_tasks == Tasks::Serial
              ? tiles.child(0)
              : insert_mark(tiles, plan_.run_tasks == Tasks::Blocks ? Role::Block : Role::Parallel)
                    .child(0)
                    .child(0);
    }
    if (plan_.run_tasks == Tasks::Blocks) return mark_threads(node);
    const double times =
        static_cast<double>(outer_iterations(cluster_)) * static_cast<double>(tasks);
    if (has_points_apart(plan_)) return add_points_apart(node, times);
    const unsigned depth = node.tree_depth();
    node = back_to(add_points(node, 0), depth);
    make_copies(node, nullptr, times);
  }

  static void mark_threads(schedule_node& node) {
    schedule_node_band points = as_band(node);
    const int extra = static_cast<int>(points.n_member()) - static_cast<int>(kThreadAxes);
    if (extra > 0) points = as_band(points.split(extra).child(0));
    node = insert_mark(points, Role::Thread);
  }

  static schedule_node back_to(const schedule_node& node, unsigned depth) {
    return node.ancestor(static_cast<int>(node.tree_depth() - depth));
  }

  /// Points of its own for every nest, below the tiles of its reductions.
  void add_points_apart(schedule_node& node, double times) {
    const isl::multi_union_pw_aff band = as_band(node).partial_schedule();
    node = isl::manage(isl_schedule_node_delete(node.release()));
    const unsigned depth = node.tree_depth();
    for (size_t n = 0; n < in_.nests.size(); ++n) {
      schedule_node own =
          release(in_.nests.size() > 1 ? node.child(static_cast<int>(n)).child(0) : node);
      const std::vector<int64_t> sizes = reduction_tiles(in_.nests[n]);
      double own_times = times;
      if (!sizes.empty()) {
        own = poly::tile(as_band(own), sizes).child(0);
        const std::vector<size_t> loops = loops_of(in_.nests[n]);
        for (size_t k = 0; k < sizes.size(); ++k)
          own_times *= static_cast<double>(
              divide_up(extent_of(own_iterator(in_.nests[n], loops[k], cluster_)), sizes[k]));
      }
      own = take_terms(own, in_.nests[n]);
      own = poly::insert_permutable_band(own, band);
      const unsigned at = own.tree_depth();
      own = back_to(add_points(own, n), at);
      make_copies(own, &in_.nests[n], own_times);
      node = back_to(own, depth);
    }
  }

  /// Sizes for the loops of a nest's band; none where it has no loop that the plan cuts.
  std::vector<int64_t> reduction_tiles(const Nest& nest) const {
    std::vector<int64_t> sizes;
    bool cut = false;
    for (size_t k : loops_of(nest)) {
      const ir::Iterator& iterator = own_iterator(nest, k, cluster_);
      sizes.push_back(extent_of(iterator));
      if (const Tile* tile = find_tile(plan_.reductions, iterator.name)) {
        sizes.back() = std::min(sizes.back(), tile->size);
        cut = true;
      }
    }
    return cut ? sizes : std::vector<int64_t>();
  }

  /// Register tiles and points, of which `node` is the band; marks the vector. `nest` is the first
  /// of those below.
  schedule_node add_points(schedule_node node, size_t nest) const {
    if (!plan_.registers.empty()) {
      if (count_tiles(in_.members, in_.register_sizes) > 1)
        node = poly::tile(as_band(node), in_.register_sizes).child(0);
      if (!plan_.vector) {
        node = poly::sink(as_band(node));
        mark_nests_below(node, nest);
        return node;
      }
      std::vector<poly::RegisterPoints> points;
      for (size_t m = 0; m < in_.members.size(); ++m)
        points.push_back({in_.register_sizes[m], in_.members[m].extent % in_.register_sizes[m]});
      node = insert_mark(as_band(node), Role::RegisterTile, points).child(0);
      return add_terms(poly::mark_leaves(poly::sink(as_band(node)), true));
    }
    if (plan_.points == Points::Inside || plan_.points == Points::VectorInside) {
      const bool all = plan_.points == Points::Inside;
      schedule_node_band band = as_band(node);
      const int outer = static_cast<int>(band.n_member()) - 1;
      if (!all && outer > 0) band = as_band(band.split(outer).child(0));
      const bool sinks = all || std::any_of(in_.nests.begin(), in_.nests.end(),
                                            [](const Nest& own) { return !own.loops[0].empty(); });
      node = sinks ? poly::sink(band) : schedule_node(band);
      return plan_.vector ? poly::mark_leaves(node, false) : node;
    }
    if (plan_.vector) return poly::mark_vector(as_band(node));
    node = node.child(0);
    mark_nests_below(node, nest);
    return node;
  }

  /// Marks the vectors of nests below `node`, the first of which has that number: one where points
  /// are apart, or else all.
  void mark_nests_below(schedule_node& node, size_t first) const {
    if (has_points_apart(plan_))
      node = mark_nest(node, in_.nests[first]);
    else
      mark_nests(node);
  }

  /// The same for all nests, below their sequence.
  void mark_nests(schedule_node& node) const {
    if (in_.nests.size() == 1) {
      node = mark_nest(node, in_.nests[0]);
      return;
    }
    int child = 0;
    for (const Nest& nest : in_.nests) {
      node = mark_nest(node.child(child).child(0), nest).parent().parent();
      child += children_of(nest);
    }
  }

  schedule_node mark_nest(const schedule_node& node, const Nest& nest) const {
    if (!nest.vector) return node;
    if (plan_.registers.empty()) return poly::mark_vector(as_band(node));
    const schedule_node_band points = as_band(node.child(0));
    return poly::mark_vector(as_band(insert_mark(points, Role::Unrolled).parent()));
  }

  // ---- copies

  /// Where a copy was refused for one of the nests, those for others stand for no whole read.
  void count_refused() {
    for (const auto& [c, reason] : applied_.refused) {
      const poly::StatementRead& refused = in_.reads[c];
      for (poly::Promotion& made : applied_.mapped.promotions)
        if (std::any_of(made.reads.begin(), made.reads.end(), [&](const poly::StatementRead& read) {
              return read.statement == refused.statement &&
                     same_element(read.access, refused.access);
            }))
          made.times = 0;
    }
  }

  /// Copies in front of the node, which is reached so many times: those for statements of one nest,
  /// or all. Equal ones are one.
  void make_copies(schedule_node& node, const Nest* nest, double times) {
    std::vector<poly::Promotion>& made = applied_.mapped.promotions;
    const auto first = static_cast<std::ptrdiff_t>(made.size());
    for (size_t c = 0; c < plan_.copies.size(); ++c) {
      const CopyPlan& copy = plan_.copies[c];
      const poly::StatementRead& read = in_.reads[c];
      if (nest && std::none_of(nest->statements.begin(), nest->statements.end(),
                               [&](size_t s) { return cluster_.statements[s] == read.statement; }))
        continue;
      const ScopStatement* computed =
          copy.computes.empty() ? nullptr : &scop_.statement(copy.computes);
      if (std::any_of(made.begin() + first, made.end(), [&](poly::Promotion& other) {
            return other.layout == copy.order && other.computed == computed &&
                   other.elements <= copy.most_elements && poly::share(other, node, scop_, read);
          }))
        continue;
      Result<poly::Promotion> promotion = poly::promote(
          node, scop_, read, copy.order, copy.most_elements, concat("P", made.size()));
      if (!promotion) {
        applied_.refused.emplace(c, Reason{promotion.reason()});
        continue;
      }
      made.push_back(promotion.value());
      if (!plan_.registers.empty()) made.back().times = times;
      made.back().computed = computed;
    }
  }

  const ClusterPlan& plan_;
  const Resolved in_;
  const Cluster& cluster_;
  const Scop& scop_;
  Applied applied_;
};

}  // namespace

Result<Applied> apply(const ClusterPlan& plan, const Cluster& cluster, const Scop& scop) {
  Result<Resolved> resolved = resolve(plan, cluster, scop);
  if (!resolved) return Reason{resolved.reason()};
  return Builder(plan, resolved.value(), cluster, scop).build();
}

}  // namespace tc::plan
