#include "plan/resolve.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/notes.h"
#include "ir/expressions/reads.h"
#include "ir/loops.h"
#include "ir/scan.h"
#include "isa/instructions.h"

namespace tc::plan {
namespace {

// Of a register tile, beside the vector and along it: twice what the registers of any processor
// hold, so that code stays short.
constexpr int64_t kMostUnrolled = 64, kMostAlongVector = 1024;

class Resolver {
 public:
  Resolver(const ClusterPlan& plan, const Cluster& cluster, const Scop& scop)
      : plan_(plan), cluster_(cluster), scop_(scop) {}

  Result<Resolved> resolve() {
    for (auto read : {&Resolver::read_loops, &Resolver::read_nests, &Resolver::check_order,
                      &Resolver::read_terms, &Resolver::read_copies})
      if (std::optional<Reason> reason = (this->*read)()) return *reason;
    split_rests();
    return std::move(resolved_);
  }

 private:
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
      resolved_.members.push_back(member);
      found->clear();
    }
    for (const std::string& name : names)
      if (!name.empty()) return Reason{concat("the plan does not order the loop ", name)};
    if (auto reason = read_tiles(plan_.tasks, resolved_.task_sizes, resolved_.task_order))
      return reason;
    for (size_t m = 0; m < resolved_.members.size(); ++m)
      if (resolved_.task_sizes[m] == 0) resolved_.task_sizes[m] = resolved_.members[m].extent;
    for (const Tile& tile : plan_.reductions)
      if (!names_own_loop(tile.index))
        return Reason{concat("the plan cuts a reduction over ", tile.index,
                             ", which no statement of ", join(plan_.statements),
                             " has as a loop of its own")};
    std::vector<Tile> results;
    for (const Tile& tile : plan_.registers) {
      const bool shared = std::count(plan_.order.begin(), plan_.order.end(), tile.index) > 0;
      (shared || !names_own_loop(tile.index) ? results : terms_).push_back(tile);
    }
    std::vector<int> unused_order;
    if (auto reason = read_tiles(results, resolved_.register_sizes, unused_order)) return reason;
    for (size_t m = 0; m < resolved_.members.size(); ++m)
      resolved_.register_sizes[m] = std::clamp<int64_t>(
          resolved_.register_sizes[m], 1, std::max<int64_t>(1, resolved_.members[m].extent));
    if (plan_.vector && resolved_.members.empty())
      return Reason{"the plan makes a vector of a shared loop, and there is none"};
    return check_register_tile();
  }

  bool names_own_loop(const std::string& index) const {
    for (size_t s = 0; s < cluster_.statements.size(); ++s)
      for (int d : poly::rest(cluster_, s))
        if (cluster_.statements[s]->source->domain[d].name == index) return true;
    return false;
  }

  std::optional<Reason> check_register_tile() const {
    if (plan_.registers.empty()) return std::nullopt;
    int64_t unrolled = 1, along = 1;
    for (size_t m = 0; m < resolved_.members.size(); ++m) {
      const int64_t task = resolved_.task_sizes[m], size = resolved_.register_sizes[m];
      if (task < resolved_.members[m].extent && task % size != 0)
        return Reason{concat("the plan has register tiles of ", size, " points along ",
                             plan_.order[m], " in tasks of ", task,
                             ", which have whole register tiles")};
      (plan_.vector && m + 1 == resolved_.members.size() ? along : unrolled) *= size;
    }
    if (unrolled <= kMostUnrolled && along <= kMostAlongVector) return std::nullopt;
    return Reason{concat("the plan has a register tile of ", unrolled, " x ", along,
                         " points, the last along the vector; at most ", kMostUnrolled, " x ",
                         kMostAlongVector, " are unrolled")};
  }

  /// Sizes in the order of the members, 0 where the plan does not say any; and the order of the
  /// tiles, by number of the member, those that are not named last.
  std::optional<Reason> read_tiles(const std::vector<Tile>& tiles, std::vector<int64_t>& sizes,
                                   std::vector<int>& order) {
    sizes.assign(resolved_.members.size(), 0);
    for (const Tile& tile : tiles) {
      const auto found = std::find(plan_.order.begin(), plan_.order.end(), tile.index);
      const auto m = static_cast<size_t>(found - plan_.order.begin());
      if (found == plan_.order.end() || sizes[m] != 0)
        return Reason{concat("the plan tiles a loop ", tile.index, ", which the statements of ",
                             join(plan_.statements), " do not share, or tiles it twice")};
      if (tile.size < 1)
        return Reason{concat("the plan tiles ", tile.index, " by ", tile.size,
                             "; a tile has 1 point at least")};
      sizes[m] = std::min(tile.size, std::max<int64_t>(1, resolved_.members[m].extent));
      order.push_back(static_cast<int>(m));
    }
    for (int m = 0; m < static_cast<int>(resolved_.members.size()); ++m)
      if (sizes[m] == 0) order.push_back(m);
    return std::nullopt;
  }

  std::optional<Reason> read_nests() {
    const size_t count = cluster_.statements.size();
    if (plan_.nests.empty()) {
      for (size_t s = 0; s < count; ++s)
        resolved_.nests.push_back({{s}, {poly::rest(cluster_, s)}, false, {}});
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
        const std::vector<int> iterators = poly::rest(cluster_, s);
        if (k < nest.loops.size())
          if (auto reason = find_places(nest.loops[k], s, iterators, places)) return reason;
        if (iterators.size() != places.size() ||
            (!own.loops.empty() && iterators.size() != own.loops[0].size()))
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
      resolved_.nests.push_back(own);
    }
    for (size_t s = 0; s < count; ++s)
      if (!seen[s]) return Reason{concat("the plan has no loops for ", cluster_.statements[s]->id)};
    return std::nullopt;
  }

  bool have_same_ranges(const Nest& nest, size_t s, const std::vector<int>& loops) const {
    const auto& domain = cluster_.statements[s]->source->domain;
    for (size_t k = 0; k < loops.size(); ++k)
      if (!have_same_range(own_iterator(nest, k, cluster_), domain[loops[k]])) return false;
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
    for (size_t n = 0; n < resolved_.nests.size(); ++n)
      for (size_t k = 0; k < resolved_.nests[n].statements.size(); ++k)
        places[cluster_.statements[resolved_.nests[n].statements[k]]->id] = {n, k};
    for (const auto& [ids, dependence] : cluster_.dependences) {
      const auto [before, after] = ids;
      const auto [nest, place] = places.at(before);
      const auto [next_nest, next_place] = places.at(after);
      if (before == after || nest < next_nest) continue;
      if (nest > next_nest || place > next_place)
        return Reason{
            concat("the plan has ", after, " in front of ", before, ", which it depends on")};
      if (!add_up_together(resolved_.nests[nest], place, next_place) &&
          !poly::is_of_same_iteration(dependence, resolved_.nests[nest].loops[place],
                                      resolved_.nests[nest].loops[next_place]))
        return Reason{concat("the plan lets ", before, " and ", after,
                             " share loops, but the second needs of the first what other "
                             "iterations make")};
    }
    for (const Nest& nest : resolved_.nests) {
      const ir::Statement& source = *cluster_.statements[nest.statements[0]]->source;
      const std::vector<int>& loops = nest.loops[0];
      if (ir::is_scan(source) && !keeps_order_of_terms(nest))
        return Reason{
            concat("the plan changes the order of the loops of ", source.name, ", a scan")};
      if (nest.vector && !plan_.vector && !plan_.registers.empty())
        if (auto reason = check_rows(nest)) return reason;
      if (nest.vector && loops.empty())
        return Reason{concat("the plan has a vector along loops of ", source.name,
                             ", which has none of its own")};
      for (size_t n = 0; nest.vector && n < nest.statements.size(); ++n) {
        const ir::Statement& each = *cluster_.statements[nest.statements[n]]->source;
        const ir::Iterator& lanes = each.domain[nest.loops[n].back()];
        if (ir::is_scatter(each) && !spreads(each, lanes))
          return Reason{concat("the plan has a vector along ", lanes.name,
                               ", whose lanes may meet in one place of ", each.tensor)};
      }
    }
    return std::nullopt;
  }

  /// Of two of a nest's statements.
  bool add_up_together(const Nest& nest, size_t a, size_t b) const {
    return ir::add_up_together(*cluster_.statements[nest.statements[a]]->source,
                               *cluster_.statements[nest.statements[b]]->source);
  }

  /// Whether rows of a register tile may share the vectors of a nest.
  std::optional<Reason> check_rows(const Nest& nest) const {
    if (nest.statements.size() > 1)
      return Reason{concat("the plan has rows in registers around a vector that ",
                           cluster_.statements[nest.statements[0]]->id, " and ",
                           cluster_.statements[nest.statements[1]]->id, " share")};
    if (nest.loops[0].empty()) return std::nullopt;
    const ir::Iterator& last = own_iterator(nest, nest.loops[0].size() - 1, cluster_);
    const Tile* tile = find_tile(plan_.reductions, last.name);
    if (!tile || tile->size != 1) return std::nullopt;
    return Reason{concat("the plan has rows in registers around a vector along ", last.name,
                         ", of which a tile has 1 point")};
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

  // ---- terms of register tiles

  std::optional<Reason> read_terms() {
    for (Nest& nest : resolved_.nests)
      for (size_t k = 0; k < nest.loops[0].size(); ++k)
        nest.ranges.push_back({0, extent_of(own_iterator(nest, k, cluster_)), 0});
    for (const Tile& tile : terms_) {
      auto refuse = [&](const std::string& why) {
        return Reason{concat("the plan adds up ", tile.size, " terms of ", tile.index,
                             " at a time in registers, ", why)};
      };
      if (tile.size < 1) return refuse("which is none");
      if (!plan_.vector) return refuse("and makes no vector of a shared loop");
      for (Nest& nest : resolved_.nests) {
        const ir::Statement& source = *cluster_.statements[nest.statements[0]]->source;
        for (size_t k = 0; k < nest.loops[0].size(); ++k) {
          const ir::Iterator& iterator = own_iterator(nest, k, cluster_);
          Nest::Range& range = nest.ranges[k];
          if (iterator.name != tile.index) continue;
          if (range.terms != 0) return refuse("and says so twice");
          if (!iterator.reduction || ir::is_scan(source) || ir::is_scatter(source))
            return refuse(concat("which is no reduction of ", source.name,
                                 " whose terms may be in any order"));
          if (!Halide::Internal::is_const_zero(iterator.min))
            return refuse(concat("which does not begin at 0 in ", source.name));
          range.terms = std::min(tile.size, std::max<int64_t>(1, range.end));
          const Tile* cut = find_tile(plan_.reductions, tile.index);
          if (cut && cut->size < range.end && cut->size % range.terms != 0)
            return refuse(concat("of which tiles of the reduction have ", cut->size));
        }
      }
    }
    return plan_.instruction.empty() ? check_unrolled_terms() : check_instruction();
  }

  std::optional<Reason> check_unrolled_terms() const {
    int64_t results = 1;
    for (size_t m = 0; m + 1 < resolved_.members.size(); ++m)
      results *= resolved_.register_sizes[m];
    for (const Nest& nest : resolved_.nests) {
      int64_t terms = 1;
      for (const Nest::Range& range : nest.ranges) terms *= std::max<int64_t>(1, range.terms);
      if (terms > 1 && results * terms > kMostUnrolled)
        return Reason{concat("the plan adds up ", terms, " terms at a time for ", results,
                             " rows of results in registers; at most ", kMostUnrolled,
                             " of them are unrolled")};
    }
    return std::nullopt;
  }

  std::optional<Reason> check_instruction() const {
    auto refuse = [&](const std::string& why) {
      return Reason{concat("the plan has the instruction ", plan_.instruction, ", ", why)};
    };
    const isa::Instruction* instruction = isa::find_instruction(plan_.instruction);
    if (!instruction) return refuse("and there are " + isa::known_instructions());
    const std::string computes = ir::assignment_text(instruction->statement);
    bool used = false;
    for (const Nest& nest : resolved_.nests) {
      std::optional<size_t> loop;
      for (size_t k = 0; k < nest.ranges.size(); ++k) {
        if (nest.ranges[k].terms == 0) continue;
        if (loop) return refuse("which adds up terms of one loop");
        loop = k;
      }
      if (!loop) continue;
      used = true;
      const auto [begin, end, terms] = nest.ranges[*loop];
      // A loop that has fewer terms is one of its own.
      if (terms != instruction->terms && (terms != end || terms > instruction->terms))
        return refuse(concat("which adds up ", instruction->terms, " terms, not ", terms, " of ",
                             own_iterator(nest, *loop, cluster_).name));
      for (size_t n = 0; n < nest.statements.size(); ++n) {
        const size_t s = nest.statements[n];
        const ir::Statement& source = *cluster_.statements[s]->source;
        const auto operands = isa::match_value(*instruction, source.value);
        if (source.reduction != ir::Reduction::Sum || source.guard.defined() || !operands)
          return refuse(concat("which computes ", computes, ", not ", ir::assignment_text(source),
                               source.guard.defined() ? " under a condition" : ""));
        for (const ir::Expr& operand : *operands)
          for (const ir::Expr& subscript : operand.as<Halide::Internal::Call>()->args)
            for (const ir::Iterator* along :
                 {&iterator_along(cluster_, resolved_.members.back(), s),
                  &source.domain[nest.loops[n][*loop]]})
              if (!ir::step_along(subscript, along->name))
                return refuse(
                    concat("and ", ir::plain_text(operand), " is in no order along ", along->name));
      }
    }
    if (!used) return refuse("and no register tile adds up terms of a reduction");
    return std::nullopt;
  }

  /// Of loops that a register tile takes terms of, the last ones, fewer than in all others, become
  /// nests of their own behind the others: all loops inside a register tile have constant extents.
  void split_rests() {
    std::vector<Nest> split;
    for (const Nest& nest : resolved_.nests) split_rests(nest, 0, split);
    resolved_.nests = std::move(split);
  }
  static void split_rests(const Nest& nest, size_t from, std::vector<Nest>& parts) {
    for (size_t k = from; k < nest.ranges.size(); ++k) {
      const Nest::Range range = nest.ranges[k];
      if (!range.is_loop() || range.terms == 0 || range.end % range.terms == 0) continue;
      Nest full = nest, rest = nest;
      full.ranges[k].end -= range.end % range.terms;
      rest.ranges[k].begin = full.ranges[k].end;
      rest.ranges[k].terms = range.end % range.terms;
      split_rests(full, k + 1, parts);
      split_rests(rest, k + 1, parts);
      return;
    }
    parts.push_back(nest);
  }

  // ---- copies

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
    if (!poly::holds_all(copy.order, found->subscripts.size()))
      return refuse(concat("in an order that does not name each of its ",
                           plural(static_cast<int64_t>(found->subscripts.size()), "dimension"),
                           " once, whole or as blocks and places in them"));
    if (!copy.computes.empty()) {
      const auto writer = std::find_if(scop_.statements.begin(), scop_.statements.end(),
                                       [&](const auto& each) { return each.id == copy.computes; });
      if (writer == scop_.statements.end() || writer->source->tensor != found->tensor)
        return refuse(concat("which ", copy.computes, " does not compute"));
    }
    resolved_.reads.push_back({&statement, *found});
    return std::nullopt;
  }

  const ClusterPlan& plan_;
  const Cluster& cluster_;
  const Scop& scop_;
  std::vector<Tile> terms_;  ///< of register tiles, loops that are not shared
  Resolved resolved_;
};

}  // namespace

Result<Resolved> resolve(const ClusterPlan& plan, const Cluster& cluster, const Scop& scop) {
  return Resolver(plan, cluster, scop).resolve();
}

const ir::Iterator& own_iterator(const Nest& nest, size_t loop, const Cluster& cluster) {
  return cluster.statements[nest.statements[0]]->source->domain[nest.loops[0][loop]];
}

}  // namespace tc::plan
