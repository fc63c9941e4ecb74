#include "plan/forms/computed_copies.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "ir/loops.h"

namespace tc::plan {
namespace {

// Choices, no measurements: how often copies may compute an element: of a temporary that the cache
// keeps, where a pass over it costs little, and of a larger one.
constexpr double kMostTimes = 1.25, kMostTimesOfLarge = 2.25;

/// Whether a value is chosen, somewhere in it, by indices alone.
bool chooses_by_indices(const ir::Expr& value) {
  bool found = false;
  ir::walk(value, [&](const ir::Expr& e) {
    const std::optional<ir::Choice> choice = ir::find_choice(e);
    found = found || (choice && !ir::has_data(choice->condition));
    return !found;
  });
  return found;
}

/// Whether neighbours of what a statement writes are computed from what lies apart: s(n, k / 32).
bool reads_apart(const ir::Statement& source) {
  const auto divided = [&](const ir::Expr& subscript) {
    return !ir::step_along(subscript, source.domain.back().name);
  };
  if (source.domain.empty()) return false;
  for (const auto* read : ir::reads_of(source))
    if (std::any_of(read->args.begin(), read->args.end(), divided)) return true;
  return false;
}

class ComputeInCopies {
 public:
  ComputeInCopies(const std::vector<Cluster>& clusters, std::vector<Proposal>& mapped,
                  const PlanContext& in)
      : clusters_(clusters), mapped_(mapped), in_(in) {}

  /// Of statements that run in copies alone.
  void check(const std::vector<const ScopStatement*>& left) const {
    for (const ScopStatement* statement : left)
      if (!is_only_copied(*statement, true))
        throw CompilationError(concat("the options leave ", statement->id,
                                      " to copies, but these do not compute all that is read of ",
                                      statement->source->tensor, ", or may not"));
  }

  std::vector<const ScopStatement*> run() {
    std::vector<const ScopStatement*> computed;
    for (size_t c = 0; c < clusters_.size(); ++c) {
      // A cluster that is mapped again must not have copies that compute something themselves.
      if (!clusters_[c].outer.empty() || !mapped_[c].mapped.promotions.empty()) continue;
      for (const ScopStatement* statement : clusters_[c].statements)
        if (is_only_copied(*statement)) computed.push_back(statement);
    }
    for (Proposal& each : mapped_) {
      for (poly::Promotion& promotion : each.mapped.promotions) {
        if (promotion.computed) continue;
        auto found = std::find_if(computed.begin(), computed.end(), [&](const auto* statement) {
          return statement->source->tensor == promotion.tensor();
        });
        if (found == computed.end()) continue;
        promotion.computed = *found;
        for (CopyPlan& copy : each.plan.copies)
          for (const poly::StatementRead& read : promotion.reads)
            if (copy.statement == read.statement->id && copy.read == access_text(read.access))
              copy.computes = (*found)->id;
        each.mapped.notes.push_back(
            {"prologue", concat("copies compute ", ir::assignment_text(*(*found)->source))});
      }
    }
    return computed;
  }

 private:
  const poly::Promotion* find_copy(const ScopStatement& reader,
                                   const ir::MemoryAccess& read) const {
    for (const Proposal& each : mapped_)
      for (const poly::Promotion& promotion : each.mapped.promotions)
        for (const poly::StatementRead& served : promotion.reads)
          if (served.statement == &reader && same_element(served.access, read)) return &promotion;
    return nullptr;
  }

  /// What is written in the tasks that run a statement.
  void add_written_beside(const ScopStatement& statement, std::set<std::string>& written) const {
    auto has_it = [&](const Cluster& cluster) {
      return std::count(cluster.statements.begin(), cluster.statements.end(), &statement) > 0;
    };
    const auto own = std::find_if(clusters_.begin(), clusters_.end(), has_it);
    for (const Cluster& cluster : clusters_) {
      const bool joined = own != clusters_.end() && !own->outer.empty() && !cluster.outer.empty();
      if (!joined && !has_it(cluster)) continue;
      for (const ScopStatement* each : cluster.statements) written.insert(each->source->tensor);
    }
  }

  /// Whether copies stand for all reads of a temporary, and may be made where they are of what this
  /// statement reads. Whether that is worth it; of one that was `given`, whether they compute it.
  bool is_only_copied(const ScopStatement& writer, bool given = false) const {
    const ir::Program& program = *in_.scop.program;
    const std::string& tensor = writer.source->tensor;
    if (program.tensor(tensor).role != ir::TensorRole::Temporary || !suits_copies(*writer.source))
      return false;
    std::set<std::string> overwritten, needed;
    for (const auto* read : ir::reads_of(*writer.source)) needed.insert(ir::read_name(read));
    std::set<const poly::Promotion*> copies;
    bool before = true;
    for (const ScopStatement& statement : in_.scop.statements) {
      if (&statement == &writer) {
        before = false;
        continue;
      }
      if (statement.source->tensor == tensor) return false;
      if (!before) overwritten.insert(statement.source->tensor);
      if (statement.initialization) continue;
      for (const ir::MemoryAccess& access : accesses(program, *statement.source)) {
        if (access.tensor != tensor) continue;
        const poly::Promotion* copy = find_copy(statement, access);
        if (before || !copy || copy->times == 0 || (given && copy->computed != &writer))
          return false;
        copies.insert(copy);
        // A task's copies are made beside all that its cluster, and those joined with it, write.
        add_written_beside(statement, overwritten);
        if (std::any_of(needed.begin(), needed.end(),
                        [&](const std::string& name) { return overwritten.count(name) != 0; }))
          return false;
      }
    }
    if (copies.empty()) return false;
    if (given) return true;
    double copied = 0;
    for (const poly::Promotion* copy : copies)
      copied += copy->times * static_cast<double>(copy->elements);
    const ir::Tensor& temporary = program.tensor(tensor);
    const int64_t bytes = dense_bytes(temporary, in_.layouts.at(tensor));
    const double most = bytes > 2 * in_.machine.cache_bytes ? kMostTimesOfLarge : kMostTimes;
    return copied * temporary.type.bytes() <= most * static_cast<double>(bytes);
  }

  const std::vector<Cluster>& clusters_;
  std::vector<Proposal>& mapped_;
  const PlanContext in_;
};

/// The cluster without these statements; nothing where it has no others.
std::optional<Cluster> leave_out(const Cluster& cluster,
                                 const std::vector<const ScopStatement*>& statements,
                                 const Dependences& dependences) {
  std::vector<const ScopStatement*> left;
  Alignment alignment;
  for (size_t s = 0; s < cluster.statements.size(); ++s) {
    if (std::count(statements.begin(), statements.end(), cluster.statements[s]) > 0) continue;
    left.push_back(cluster.statements[s]);
    alignment.push_back(cluster.alignment[s]);
  }
  if (left.empty()) return std::nullopt;
  Cluster result = make_cluster(left, alignment, dependences);
  result.apart = cluster.apart;
  return result;
}

}  // namespace

std::vector<const ScopStatement*> leave_to_copies(std::vector<Cluster>& clusters,
                                                  const PlanContext& in) {
  std::vector<const ScopStatement*> left;
  std::set<std::string> names;
  for (const ClusterOptions& cluster : in.options.clusters)
    if (cluster.copies)
      for (const CopyPlan& copy : *cluster.copies) names.insert(copy.computes);
  for (size_t c = clusters.size(); c-- > 0;) {
    std::vector<const ScopStatement*> computed;
    for (const ScopStatement* statement : clusters[c].statements)
      if (names.count(statement->id)) computed.push_back(statement);
    if (computed.empty()) continue;
    left.insert(left.end(), computed.begin(), computed.end());
    if (!clusters[c].outer.empty())
      throw CompilationError(concat("the options leave ", computed[0]->id,
                                    " to copies, but it runs inside the loops of a chain"));
    if (const auto others = leave_out(clusters[c], computed, in.dependences))
      clusters[c] = *others;
    else
      clusters.erase(clusters.begin() + static_cast<long>(c));
  }
  return left;
}

bool suits_copies(const ir::Statement& source) {
  for (const auto* read : ir::reads_of(source))
    if (std::any_of(read->args.begin(), read->args.end(), ir::has_data)) return false;
  return ir::is_definition(source) && !chooses_by_indices(source.value) && !reads_apart(source) &&
         !ir::reads(source, source.tensor);
}

bool lacks_copies(const Cluster& cluster, const Proposal& proposal, const Scop& scop) {
  const auto& own = cluster.statements;
  const auto& copies = proposal.mapped.promotions;
  for (const ScopStatement& writer : scop.statements) {
    const std::string& tensor = writer.source->tensor;
    const auto reads = [&](const ScopStatement* each) {
      return !each->initialization && ir::reads(*each->source, tensor);
    };
    const auto copied = [&](const poly::Promotion& copy) { return copy.tensor() == tensor; };
    if (scop.program->tensor(tensor).role == ir::TensorRole::Temporary &&
        std::count(own.begin(), own.end(), &writer) == 0 && suits_copies(*writer.source) &&
        std::any_of(own.begin(), own.end(), reads) &&
        std::none_of(copies.begin(), copies.end(), copied))
      return true;
  }
  return false;
}

bool compute_in_copies(std::vector<Cluster>& clusters, std::vector<Proposal>& mapped,
                       const PlanContext& in, const std::vector<const ScopStatement*>& left,
                       const std::function<Proposal(const Cluster&)>& map) {
  ComputeInCopies pass(clusters, mapped, in);
  pass.check(left);
  const auto computed = pass.run();
  for (size_t c = clusters.size(); c-- > 0 && !computed.empty();) {
    const auto others = leave_out(clusters[c], computed, in.dependences);
    if (!others) {
      clusters.erase(clusters.begin() + static_cast<long>(c));
      mapped.erase(mapped.begin() + static_cast<long>(c));
    } else if (others->statements.size() < clusters[c].statements.size()) {
      clusters[c] = *others;
      mapped[c] = map(clusters[c]);
    }
  }
  return !computed.empty();
}

}  // namespace tc::plan
