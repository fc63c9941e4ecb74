#include "plan/model/statement_loops.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/numbers.h"

namespace tc::plan {
namespace {

class Builder {
 public:
  Builder(const ClusterPlan& plan, size_t s, const ClusterContext& in)
      : plan_(plan),
        cluster_(in.cluster),
        s_(s),
        domain_(cluster_.statements[s]->source->domain),
        names_(shared_names(cluster_)) {
    result_.lanes = count_lanes(cluster_, in.program, in.machine.vector_bits);
    result_.block.assign(domain_.size(), 1);
    for (const ir::Iterator& iterator : domain_) covered_.push_back(extent_of(iterator));
  }

  StatementLoops build() {
    if (!cluster_.outer.empty())
      for (int d : cluster_.outer[s_]) add(d, 1);
    for (const Tile& tile : plan_.tasks) add(iterator_of(tile.index), tile.size);
    result_.tasks = result_.loops.size();
    find_own();
    for (const Tile& tile : plan_.reductions)
      for (int d : own_)
        if (domain_[d].name == tile.index) add(d, tile.size);
    result_.copies = result_.loops.size();
    if (plan_.vector && !plan_.order.empty()) result_.vector = iterator_of(plan_.order.back());
    if (own_vector_ && !own_.empty()) result_.vector = own_.back();
    result_.register_tile = !plan_.registers.empty() && plan_.vector;
    for (int d : own_)
      if (!plan_.instruction.empty() && points_of(domain_[d].name) > 1) result_.terms = d;
    add_points();
    return std::move(result_);
  }

 private:
  void add_points() {
    const Points points = plan_.registers.empty() ? plan_.points : Points::Around;
    const size_t count = plan_.order.size();
    const size_t around = points == Points::Inside         ? 0
                          : points == Points::VectorInside ? std::max<size_t>(count, 1) - 1
                                                           : count;
    for (size_t m = 0; m < around; ++m) add_point(plan_.order[m]);
    result_.around = has_points_apart(plan_) ? result_.tasks : result_.loops.size();
    for (int d : own_)
      add(d, own_vector_ && d == own_.back() ? result_.lanes : points_of(domain_[d].name), true);
    for (size_t m = around; m < count; ++m) add_point(plan_.order[m]);
  }

  /// Of a register tile.
  int64_t points_of(const std::string& name) const {
    const Tile* tile = find_tile(plan_.registers, name);
    return tile ? tile->size : 1;
  }

  void add_point(const std::string& name) {
    int64_t size = points_of(name);
    if (plan_.registers.empty() && plan_.vector && name == plan_.order.back()) size = result_.lanes;
    add(iterator_of(name), size, true);
  }

  /// A loop whose iterations take so many points; the innermost along its iterator, or not.
  void add(int iterator, int64_t size, bool innermost = false) {
    int64_t& covered = covered_[iterator];
    size = std::clamp<int64_t>(size, 1, std::max<int64_t>(1, covered));
    result_.loops.push_back({iterator, size, covered});
    covered = size;
    if (innermost) result_.block[iterator] = size;
  }

  int iterator_of(const std::string& name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    TC_INTERNAL_CHECK(found != names_.end(), "a Plan of other loops is estimated: ", name);
    return cluster_.alignment[s_][static_cast<size_t>(found - names_.begin())];
  }

  /// The statement's own loops, outermost first. Where a nest names those of its first statement,
  /// others have theirs in the same places.
  void find_own() {
    const ScopStatement& statement = *cluster_.statements[s_];
    own_ = poly::rest(cluster_, s_);
    for (const NestPlan& nest : plan_.nests) {
      const auto found = std::find(nest.statements.begin(), nest.statements.end(), statement.id);
      if (found == nest.statements.end()) continue;
      own_vector_ = nest.vector;
      const auto number = static_cast<size_t>(found - nest.statements.begin());
      const size_t list = nest.loops.size() > 1 ? number : 0;
      size_t named = s_;
      for (size_t s = 0; s < cluster_.statements.size(); ++s)
        if (cluster_.statements[s]->id == nest.statements[list]) named = s;
      const std::vector<int> rest = poly::rest(cluster_, named);
      std::vector<int> ordered;
      for (const std::string& name : nest.loops[list])
        for (size_t place = 0; place < std::min(rest.size(), own_.size()); ++place)
          if (cluster_.statements[named]->source->domain[rest[place]].name == name)
            ordered.push_back(own_[place]);
      if (ordered.size() == own_.size()) own_ = ordered;
    }
  }

  const ClusterPlan& plan_;
  const Cluster& cluster_;
  const size_t s_;
  const std::vector<ir::Iterator>& domain_;
  const std::vector<std::string> names_;
  std::vector<int64_t> covered_;  ///< by the loops so far, along every iterator
  std::vector<int> own_;
  bool own_vector_ = false;
  StatementLoops result_;
};

}  // namespace

int64_t StatementLoops::vectors(size_t iterator, int64_t points) const {
  if (static_cast<int>(iterator) == terms) return 1;
  if (static_cast<int>(iterator) != vector) return points;
  return divide_up(points, register_tile ? lanes_of_block(points, lanes) : lanes);
}

StatementLoops find_loops(const ClusterPlan& plan, size_t statement, const ClusterContext& in) {
  return Builder(plan, statement, in).build();
}

}  // namespace tc::plan
