#include "plan/apply.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/notes.h"
#include "base/numbers.h"
#include "ir/loops.h"
#include "plan/members.h"
#include "poly/marks.h"

namespace tc::plan {
namespace {

using isl::schedule_node;
using isl::schedule_node_band;
using poly::Role;

// Of a register tile, beside the vector and along it: twice what the registers of any processor
// hold, so that code stays short.
constexpr int64_t kMostUnrolled = 64, kMostAlongVector = 1024;

schedule_node_band as_band(const schedule_node& node) { return node.as<schedule_node_band>(); }

/// Statements of a cluster, by number, and the iterators of their own loops.
struct Nest {
  std::vector<size_t> statements;
  Alignment loops;  ///< of every statement, outermost first
  bool vector = false;
};

/// What a copy serves.
struct CopiedRead {
  const ScopStatement* statement = nullptr;
  ir::MemoryAccess access;
};

class Builder {
 public:
  Builder(const ClusterPlan& plan, const Cluster& cluster, const Scop& scop)
      : plan_(plan), cluster_(cluster), scop_(scop) {}

  Result<Applied> build() {
    for (auto read :
         {&Builder::read_loops, &Builder::read_nests, &Builder::check_order, &Builder::read_copies})
      if (std::optional<Reason> reason = (this->*read)()) return *reason;
    schedule_node node = make_nests();
    if (members_.empty())
      mark_nests(node, 0);
    else
      add_shared_loops(node);
    applied_.mapped.schedule = node.root().schedule();
    return std::move(applied_);
  }

 private:
  // ---- what the plan says, in positions

  std::optional<Reason> read_loops() {
    std::vector<std::string> names = shared_names(cluster_);
    for (const std::string& index : plan_.order) {
      const auto found = std::find(names.begin(), names.end(), index);
      if (found == names.end())
        return Reason{concat("the plan orders a loop ", index, ", which the statements of ",
                             join(plan_.statements), " do not share, or orders it twice")};
      Member member;
      member.position = static_cast<int>(found - names.begin());
      member.extent = extent_of(iterator_along(cluster_, member, 0));
      members_.push_back(member);
      found->clear();
    }
    for (const std::string& name : names)
      if (!name.empty()) return Reason{concat("the plan does not order the loop ", name)};
    if (auto reason = read_tiles(plan_.tasks, task_sizes_, &task_order_)) return reason;
    for (size_t m = 0; m < members_.size(); ++m)
      if (task_sizes_[m] == 0) task_sizes_[m] = members_[m].extent;
    if (auto reason = read_tiles(plan_.registers, register_sizes_, nullptr)) return reason;
    for (size_t m = 0; m < members_.size(); ++m)
      register_sizes_[m] =
          std::clamp<int64_t>(register_sizes_[m], 1, std::max<int64_t>(1, members_[m].extent));
    if (plan_.vector && members_.empty())
      return Reason{"the plan makes a vector of a shared loop, and there is none"};
    return check_register_tile();
  }

  std::optional<Reason> check_register_tile() const {
    for (size_t m = 0; m < members_.size() && !plan_.registers.empty(); ++m)
      if (task_sizes_[m] < members_[m].extent && task_sizes_[m] % register_sizes_[m] != 0)
        return Reason{concat("the plan has register tiles of ", register_sizes_[m],
                             " points along ", plan_.order[m], " in tasks of ", task_sizes_[m],
                             ", which have whole register tiles")};
    int64_t unrolled = 1, along = 1;
    for (size_t m = 0; m < members_.size() && !plan_.registers.empty(); ++m)
      (plan_.vector && m + 1 == members_.size() ? along : unrolled) *= register_sizes_[m];
    if (unrolled <= kMostUnrolled && along <= kMostAlongVector) return std::nullopt;
    return Reason{concat("the plan has a register tile of ", unrolled, " x ", along,
                         " points, the last along the vector; at most ", kMostUnrolled, " x ",
                         kMostAlongVector, " are unrolled")};
  }

  /// Sizes in the order of the members, 0 where the plan does not say any; and the order of the
  /// tiles, by number of the member, those that are not named last.
  std::optional<Reason> read_tiles(const std::vector<Tile>& tiles, std::vector<int64_t>& sizes,
                                   std::vector<int>* order) {
    sizes.assign(members_.size(), 0);
    std::vector<int> named;
    for (const Tile& tile : tiles) {
      const auto found = std::find(plan_.order.begin(), plan_.order.end(), tile.index);
      const auto m = static_cast<size_t>(found - plan_.order.begin());
      if (found == plan_.order.end() || sizes[m] != 0)
        return Reason{concat("the plan tiles a loop ", tile.index, ", which the statements of ",
                             join(plan_.statements), " do not share, or tiles it twice")};
      if (tile.size < 1)
        return Reason{concat("the plan tiles ", tile.index, " by ", tile.size,
                             "; a tile has 1 point at least")};
      sizes[m] = std::min(tile.size, std::max<int64_t>(1, members_[m].extent));
      named.push_back(static_cast<int>(m));
    }
    if (!order) return std::nullopt;
    *order = named;
    for (int m = 0; m < static_cast<int>(members_.size()); ++m)
      if (std::find(named.begin(), named.end(), m) == named.end()) order->push_back(m);
    return std::nullopt;
  }

  std::optional<Reason> read_nests() {
    const size_t count = cluster_.statements.size();
    if (plan_.nests.empty()) {
      for (size_t s = 0; s < count; ++s)
        nests_.push_back({{s}, {poly::rest(*cluster_.statements[s], cluster_, s)}, false});
      return std::nullopt;
    }
    std::vector<bool> seen(count, false);
    for (const NestPlan& nest : plan_.nests) {
      Nest own;
      own.vector = nest.vector;
      std::vector<int> places;  // of the loops, among the statement's own
      if (nest.loops.size() != 1 && nest.loops.size() != nest.statements.size())
        return Reason{concat("the plan has ", nest.loops.size(), " lists of loops for ",
                             join(nest.statements), ": one for all, or one for each")};
      for (size_t k = 0; k < nest.statements.size(); ++k) {
        const std::string& id = nest.statements[k];
        size_t s = 0;
        while (s < count && cluster_.statements[s]->id != id) ++s;
        if (s == count || seen[s])
          return Reason{concat("the plan has loops for ", id, ", which is no statement of ",
                               join(plan_.statements), ", or has them twice")};
        seen[s] = true;
        const std::vector<int> iterators = poly::rest(*cluster_.statements[s], cluster_, s);
        if (k < nest.loops.size())
          if (auto reason = find_places(nest.loops[k], s, iterators, places)) return reason;
        if (iterators.size() != places.size())
          return Reason{concat("the plan lets ", join(nest.statements),
                               " share loops, of which they have unlike numbers")};
        std::vector<int> loops;
        for (int place : places) loops.push_back(iterators[place]);
        if (!own.statements.empty() && !have_same_ranges(own, s, loops))
          return Reason{concat("the plan lets ", join(nest.statements),
                               " share loops, which have unlike ranges")};
        own.statements.push_back(s);
        own.loops.push_back(loops);
      }
      nests_.push_back(own);
    }
    for (size_t s = 0; s < count; ++s)
      if (!seen[s]) return Reason{concat("the plan has no loops for ", cluster_.statements[s]->id)};
    return std::nullopt;
  }

  bool have_same_ranges(const Nest& nest, size_t s, const std::vector<int>& loops) const {
    const auto& domain = cluster_.statements[s]->source->domain;
    for (size_t k = 0; k < loops.size(); ++k)
      if (!have_same_range(own_iterator(nest, k), domain[loops[k]])) return false;
    return true;
  }

  std::optional<Reason> find_places(const std::vector<std::string>& loops, size_t s,
                                    const std::vector<int>& iterators, std::vector<int>& places) {
    const auto& domain = cluster_.statements[s]->source->domain;
    const std::string& id = cluster_.statements[s]->id;
    places.clear();
    for (const std::string& index : loops) {
      size_t place = 0;
      while (place < iterators.size() && domain[iterators[place]].name != index) ++place;
      const bool twice = std::count(places.begin(), places.end(), static_cast<int>(place)) > 0;
      if (place == iterators.size() || twice)
        return Reason{concat("the plan orders a loop ", index, " of ", id,
                             ", which has none of its own of that name, or orders it twice")};
      places.push_back(static_cast<int>(place));
    }
    if (places.size() != iterators.size())
      return Reason{concat("the plan orders ", places.size(), " of the ", iterators.size(),
                           " loops of ", id)};
    return std::nullopt;
  }

  /// Whether nests, and statements in a nest, come behind what they depend on; whether scans go in
  /// order, and lanes of vectors do not meet in one place.
  std::optional<Reason> check_order() {
    std::map<std::string, std::pair<size_t, size_t>> places;  // nest, and place in it
    for (size_t n = 0; n < nests_.size(); ++n)
      for (size_t k = 0; k < nests_[n].statements.size(); ++k)
        places[cluster_.statements[nests_[n].statements[k]]->id] = {n, k};
    for (const auto& [ids, dependence] : cluster_.dependences) {
      const auto [before, after] = ids;
      const auto [nest, place] = places.at(before);
      const auto [next_nest, next_place] = places.at(after);
      if (before == after || nest < next_nest) continue;
      if (nest > next_nest || place > next_place)
        return Reason{
            concat("the plan has ", after, " in front of ", before, ", which it depends on")};
      if (!poly::is_of_same_iteration(dependence, nests_[nest].loops[place],
                                      nests_[nest].loops[next_place]))
        return Reason{concat("the plan lets ", before, " and ", after,
                             " share loops, but the second needs of the first what other "
                             "iterations make")};
    }
    for (const Nest& nest : nests_) {
      const ir::Statement& source = *cluster_.statements[nest.statements[0]]->source;
      const std::vector<int>& loops = nest.loops[0];
      if (source.scans && !keeps_order_of_terms(nest))
        return Reason{
            concat("the plan changes the order of the loops of ", source.name, ", a scan")};
      if (nest.vector && !plan_.vector && !plan_.registers.empty())
        if (auto reason = check_rows(nest)) return reason;
      if (nest.vector && loops.empty())
        return Reason{concat("the plan has a vector along loops of ", source.name,
                             ", which has none of its own")};
      if (nest.vector && ir::is_scatter(source) && !spreads(source, source.domain[loops.back()]))
        return Reason{concat("the plan has a vector along ", source.domain[loops.back()].name,
                             ", whose lanes may meet in one place of ", source.tensor)};
    }
    return std::nullopt;
  }

  /// Whether rows of a register tile may share the vectors of a nest.
  std::optional<Reason> check_rows(const Nest& nest) const {
    if (nest.statements.size() > 1)
      return Reason{concat("the plan has rows in registers around a vector that ",
                           cluster_.statements[nest.statements[0]]->id, " and ",
                           cluster_.statements[nest.statements[1]]->id, " share")};
    if (nest.loops[0].empty()) return std::nullopt;
    const ir::Iterator& last = own_iterator(nest, nest.loops[0].size() - 1);
    for (const Tile& tile : plan_.reductions)
      if (tile.index == last.name && tile.size == 1)
        return Reason{concat("the plan has rows in registers around a vector along ", last.name,
                             ", of which a tile has 1 point")};
    return std::nullopt;
  }

  /// Whether the loops over terms are in the order of the text.
  bool keeps_order_of_terms(const Nest& nest) const {
    const auto& domain = cluster_.statements[nest.statements[0]]->source->domain;
    std::vector<int> reductions;
    for (int d : nest.loops[0])
      if (domain[d].reduction) reductions.push_back(d);
    return std::is_sorted(reductions.begin(), reductions.end());
  }

  /// Whether a scatter's places differ along a loop whatever the data.
  static bool spreads(const ir::Statement& source, const ir::Iterator& iterator) {
    return std::any_of(source.subscripts.begin(), source.subscripts.end(),
                       [&](const ir::Expr& subscript) {
                         return ir::step_along(subscript, iterator.name).value_or(0) != 0;
                       });
  }

  std::optional<Reason> read_copies() {
    for (const CopyPlan& copy : plan_.copies) {
      const auto statement =
          std::find_if(cluster_.statements.begin(), cluster_.statements.end(),
                       [&](const auto* other) { return other->id == copy.statement; });
      if (statement == cluster_.statements.end())
        return Reason{concat("the plan copies what ", copy.statement,
                             " reads, which is no statement of ", join(plan_.statements))};
      if (auto reason = read_copy(copy, **statement)) return reason;
    }
    return std::nullopt;
  }

  std::optional<Reason> read_copy(const CopyPlan& copy, const ScopStatement& statement) {
    const std::vector<ir::MemoryAccess> all = accesses(*scop_.program, *statement.source);
    const ir::MemoryAccess* found = nullptr;
    std::vector<std::string> texts;
    for (const ir::MemoryAccess& access : all) {
      if (access.write) continue;
      texts.push_back(access_text(access));
      if (texts.back() == copy.read && (!found || !access.conditional)) found = &access;
    }
    auto refuse = [&](const std::string& why) {
      return Reason{concat("the plan copies ", copy.read, " of ", copy.statement, ", ", why)};
    };
    if (!found) return refuse("which reads " + (texts.empty() ? "nothing" : join(texts)));
    if (found->conditional) return refuse("which not every iteration reads");
    for (const ScopStatement* writer : cluster_.statements)
      if (writer->source->tensor == found->tensor)
        return refuse(concat("which ", writer->id, " writes meanwhile"));
    for (const ir::Expr& subscript : found->subscripts)
      for (const ir::Iterator& iterator : statement.source->domain)
        if (!ir::step_along(subscript, iterator.name))
          return refuse("whose places are not affine in the indices");
    std::vector<size_t> sorted = copy.order, all_dimensions(found->subscripts.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(all_dimensions.begin(), all_dimensions.end(), size_t{0});
    if (sorted != all_dimensions)
      return refuse(concat("in an order that does not name each of its ",
                           plural(static_cast<int64_t>(all_dimensions.size()), "dimension"),
                           " once"));
    if (!copy.computes.empty()) {
      const auto writer = std::find_if(scop_.statements.begin(), scop_.statements.end(),
                                       [&](const auto& each) { return each.id == copy.computes; });
      if (writer == scop_.statements.end() || writer->source->tensor != found->tensor)
        return refuse(concat("which ", copy.computes, " does not compute"));
    }
    reads_.push_back({&statement, *found});
    return std::nullopt;
  }

  // ---- the tree

  /// All nests, one after the other, without the shared loops.
  schedule_node make_nests() const {
    isl::schedule all;
    for (const Nest& nest : nests_) {
      isl::schedule own;
      std::vector<const ScopStatement*> statements;
      for (size_t s : nest.statements) {
        statements.push_back(cluster_.statements[s]);
        isl::schedule next = isl::schedule::from_domain(statements.back()->domain);
        own = own.is_null() ? next : poly::sequence(own, next);
      }
      own = poly::insert_band(own.root().child(0), statements, nest.loops, true,
                              std::vector<bool>(nest.loops[0].size(), false))
                .root()
                .schedule();
      all = all.is_null() ? own : poly::sequence(all, own);
    }
    return all.root().child(0);
  }

  void add_shared_loops(schedule_node& node) {
    Alignment ordered(cluster_.statements.size());
    for (size_t s = 0; s < ordered.size(); ++s)
      for (const Member& member : members_)
        ordered[s].push_back(cluster_.alignment[s][member.position]);
    node = poly::insert_band(node, cluster_.statements, ordered, true,
                             std::vector<bool>(members_.size(), true));
    node = poly::insert_outer_loops(node, cluster_);
    double times = static_cast<double>(outer_iterations(cluster_));
    if (count_tiles(members_, task_sizes_) > 1 || plan_.run_tasks == Tasks::Blocks) {
      schedule_node_band tiles = poly::tile(as_band(node), task_sizes_);
      if (!std::is_sorted(task_order_.begin(), task_order_.end()))
        tiles = poly::reorder(tiles, task_order_);
      node =
          plan_.run_tasks == Tasks::Serial
              ? tiles.child(0)
              : insert_mark(tiles, plan_.run_tasks == Tasks::Blocks ? Role::Block : Role::Parallel)
                    .child(0)
                    .child(0);
      times *= static_cast<double>(count_tiles(members_, task_sizes_));
    }
    if (plan_.run_tasks == Tasks::Blocks) return mark_threads(node);
    if (has_points_apart()) return add_points_apart(node, times);
    const int depth = isl_schedule_node_get_tree_depth(node.get());
    node = add_points(node, 0);
    node = back_to(node, depth);
    make_copies(node, nullptr, times);
  }

  static void mark_threads(schedule_node& node) {
    schedule_node_band points = as_band(node);
    const int extra = static_cast<int>(points.n_member()) - static_cast<int>(kThreadAxes);
    if (extra > 0) points = as_band(points.split(extra).child(0));
    node = insert_mark(points, Role::Thread);
  }

  static schedule_node back_to(schedule_node node, int depth) {
    const int above = isl_schedule_node_get_tree_depth(node.get()) - depth;
    return isl::manage(isl_schedule_node_ancestor(node.release(), above));
  }

  /// Points of its own for every nest, below the tiles of its reductions.
  void add_points_apart(schedule_node& node, double times) {
    const isl::multi_union_pw_aff band = as_band(node).partial_schedule();
    node = isl::manage(isl_schedule_node_delete(node.release()));
    const int depth = isl_schedule_node_get_tree_depth(node.get());
    for (size_t n = 0; n < nests_.size(); ++n) {
      schedule_node own =
          nests_.size() > 1 ? node.child(static_cast<int>(n)).child(0) : schedule_node(node);
      const std::vector<int64_t> sizes = reduction_tiles(nests_[n]);
      const bool cut = !sizes.empty();
      double own_times = times;
      if (cut) {
        own = poly::tile(as_band(own), sizes).child(0);
        for (size_t k = 0; k < sizes.size(); ++k)
          own_times *=
              static_cast<double>(divide_up(extent_of(own_iterator(nests_[n], k)), sizes[k]));
      }
      own = poly::insert_permutable_band(own, band);
      const int at = isl_schedule_node_get_tree_depth(own.get());
      own = back_to(add_points(own, n), at);
      make_copies(own, &nests_[n], own_times);
      node = back_to(own, depth);
    }
  }

  /// Sizes for all loops of a nest; none where it has no loop that the plan cuts.
  std::vector<int64_t> reduction_tiles(const Nest& nest) const {
    std::vector<int64_t> sizes;
    bool cut = false;
    for (size_t k = 0; k < nest.loops[0].size(); ++k) {
      const ir::Iterator& iterator = own_iterator(nest, k);
      sizes.push_back(extent_of(iterator));
      for (const Tile& tile : plan_.reductions) {
        if (tile.index != iterator.name) continue;
        sizes.back() = std::min(sizes.back(), tile.size);
        cut = true;
      }
    }
    return cut ? sizes : std::vector<int64_t>();
  }

  const ir::Iterator& own_iterator(const Nest& nest, size_t loop) const {
    return cluster_.statements[nest.statements[0]]->source->domain[nest.loops[0][loop]];
  }

  /// Register tiles and points, of which `node` is the band; marks the vector. `nest` is the first
  /// of those below.
  schedule_node add_points(schedule_node node, size_t nest) const {
    if (!plan_.registers.empty()) {
      if (count_tiles(members_, register_sizes_) > 1)
        node = poly::tile(as_band(node), register_sizes_).child(0);
      if (!plan_.vector) {
        node = poly::sink(as_band(node));
        mark_nests(node, nest);
        return node;
      }
      std::vector<poly::RegisterPoints> points;
      for (size_t m = 0; m < members_.size(); ++m)
        points.push_back({register_sizes_[m], members_[m].extent % register_sizes_[m]});
      node = insert_mark(as_band(node), Role::RegisterTile, points).child(0);
      return poly::mark_leaves(poly::sink(as_band(node)), true);
    }
    if (plan_.points == Points::Inside) {
      node = poly::sink(as_band(node));
      return plan_.vector ? poly::mark_leaves(node, false) : node;
    }
    if (plan_.points == Points::VectorInside) {
      schedule_node_band band = as_band(node);
      const int outer = static_cast<int>(band.n_member()) - 1;
      if (outer > 0) band = as_band(band.split(outer).child(0));
      node = has_own_loops() ? poly::sink(band) : schedule_node(band);
      return plan_.vector ? poly::mark_leaves(node, false) : node;
    }
    if (plan_.vector) return poly::mark_vector(as_band(node));
    node = node.child(0);
    mark_nests(node, nest);
    return node;
  }

  bool has_points_apart() const {
    return plan_.points == Points::Apart || !plan_.reductions.empty();
  }

  bool has_own_loops() const {
    return std::any_of(nests_.begin(), nests_.end(),
                       [](const Nest& nest) { return !nest.loops[0].empty(); });
  }

  /// Marks the vectors of nests below `node`, the first of which has that number: one where points
  /// are apart, or else all.
  void mark_nests(schedule_node& node, size_t first) const {
    if (has_points_apart() || nests_.size() == 1) {
      node = mark_nest(node, nests_[first]);
      return;
    }
    for (size_t n = 0; n < nests_.size(); ++n)
      node = mark_nest(node.child(static_cast<int>(n)).child(0), nests_[n]).parent().parent();
  }

  schedule_node mark_nest(const schedule_node& node, const Nest& nest) const {
    if (!nest.vector) return node;
    if (plan_.registers.empty()) return poly::mark_vector(as_band(node));
    const schedule_node_band points = as_band(node.child(0));
    return poly::mark_vector(as_band(insert_mark(points, Role::Unrolled).parent()));
  }

  // ---- copies

  /// Copies in front of the node, which is reached so many times: those for statements of one nest,
  /// or all.
  void make_copies(schedule_node& node, const Nest* nest, double times) {
    for (size_t c = 0; c < plan_.copies.size(); ++c) {
      const CopyPlan& copy = plan_.copies[c];
      const CopiedRead& read = reads_[c];
      if (nest && std::none_of(nest->statements.begin(), nest->statements.end(),
                               [&](size_t s) { return cluster_.statements[s] == read.statement; }))
        continue;
      std::vector<poly::Promotion>& made = applied_.mapped.promotions;
      Result<poly::Promotion> promotion =
          poly::promote(node, scop_, *read.statement, read.access, copy.order, 1,
                        copy.most_elements, concat("P", made.size()));
      if (!promotion) {
        applied_.refused.emplace(c, Reason{promotion.reason()});
        continue;
      }
      made.push_back(promotion.value());
      if (!plan_.registers.empty()) made.back().times = times;
      if (!copy.computes.empty()) made.back().computed = &scop_.statement(copy.computes);
    }
  }

  const ClusterPlan& plan_;
  const Cluster& cluster_;
  const Scop& scop_;
  std::vector<Member> members_;                       ///< in the order of the points' loops
  std::vector<int64_t> task_sizes_, register_sizes_;  ///< by number in members_
  std::vector<int> task_order_;
  std::vector<Nest> nests_;
  std::vector<CopiedRead> reads_;  ///< one a copy
  Applied applied_;
};

}  // namespace

Result<Applied> apply(const ClusterPlan& plan, const Cluster& cluster, const Scop& scop) {
  return Builder(plan, cluster, scop).build();
}

}  // namespace tc::plan
