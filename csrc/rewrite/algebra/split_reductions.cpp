#include "rewrite/algebra/split_reductions.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "ir/expressions/reads.h"
#include "machine/gpu.h"
#include "machine/limits.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

/// How to cut one iterator.
struct Cut {
  size_t iterator = 0;
  int64_t parts = 1, length = 0, rest = 0;
};

/// The outermost reduction that has enough iterations, in as many parts as leave the least over.
Cut choose_cut(const Statement& statement, int64_t wanted) {
  Cut cut;
  for (size_t d = 0; d < statement.domain.size() && cut.parts == 1; ++d) {
    int64_t extent = extent_of(statement.domain[d]);
    if (!statement.domain[d].reduction || extent < 2 * wanted) continue;
    for (int64_t parts = wanted; parts > wanted / 2; --parts)
      if (cut.parts == 1 || extent % parts < cut.rest)
        cut = {d, parts, extent / parts, extent % parts};
  }
  return cut;
}

class Splitter : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  /// Without an order in which cores would run through memory: a part takes every so many'th term,
  /// so that threads side by side read neighbours; parts and their results are split again.
  std::vector<Statement> interleave(const Statement& statement) {
    const Cut cut = choose_interleaved(statement);
    if (cut.parts == 1) return {statement};
    auto [parts, combine] = make_parts(statement, cut);
    const Iterator& whole = statement.domain[cut.iterator];
    const Expr place = make_variable(whole.name) * static_cast<int>(cut.parts) +
                       make_variable(parts.domain[0].name);
    restrict_range(parts, whole.name, whole.min + place, cut.length);
    if (cut.rest > 0) {
      const Expr inside = place < whole.extent;
      parts.guard = parts.guard.defined() ? inside && parts.guard : inside;
    }
    std::vector<Statement> all = interleave(parts);
    for (Statement& each : interleave(combine)) all.push_back(std::move(each));
    return all;
  }

  void run() {
    for (const Statement& statement : program_.statements) {
      Cut cut = decide(statement);
      if (cut.parts > 1) {
        split(statement, cut);
      } else {
        result_.push_back(statement);
        parts_end_ = result_.size();
        combined_.clear();
      }
    }
    program_.statements = std::move(result_);
    number_statements(program_);
  }

 private:
  bool may_split(const Statement& statement) const {
    Type type = program_.tensor(statement.tensor).type;
    // Narrow floats that were not widened would be rounded once more for every part.
    return statement.reduction != Reduction::None && !is_scatter(statement) &&
           !(type.is_float() && type.bits() < 32) && !reads(statement, statement.tensor);
  }

  /// Whether the terms walk through consecutive elements along the results: what all terms of a
  /// result share, as the mean in a variance, is none of them.
  bool walks_along_results(const Statement& statement) const {
    for (const MemoryAccess& access : accesses(program_, statement)) {
      auto any = [&](bool reduction, auto holds) {
        return std::any_of(
            statement.domain.begin(), statement.domain.end(), [&](const Iterator& it) {
              return it.reduction == reduction && extent_of(it) > 1 && holds(stride(access, it));
            });
      };
      if (!access.write && any(false, [](auto stride) { return stride == 1; }) &&
          any(true, [](auto stride) { return stride != 0; }))
        return true;
    }
    return false;
  }

  Cut decide(const Statement& statement) const {
    if (!may_split(statement)) return {};
    const int64_t results = count_points(kept_indices(statement));
    const int64_t terms = count_points(reduced_indices(statement));
    int64_t tasks = results;
    if (walks_along_results(statement)) tasks = divide_up(tasks, machine::kResultsTogether);
    int64_t wanted = std::min(machine::kMostParts, terms / machine_.least(machine::kPartTerms));
    if (results == 0 || tasks >= machine::kEnoughTasks || wanted < 2) return {};
    return choose_cut(statement, wanted);
  }

  /// The reduction along which most terms lie side by side in memory, among equals the longest, in
  /// parts that come out even where some number near the wanted one does.
  Cut choose_interleaved(const Statement& statement) const {
    if (!may_split(statement)) return {};
    const int64_t results = count_points(kept_indices(statement));
    const int64_t terms = count_points(reduced_indices(statement));
    if (results == 0 || terms < machine_.least(gpu_.launch_terms)) return {};
    // Two terms in a part, so that what is left to combine is less.
    const int64_t wanted = std::min(terms / std::max<int64_t>(2, machine_.least(gpu_.thread_terms)),
                                    gpu_.busy_threads / results);
    if (wanted < 4) return {};
    const auto reads = accesses(program_, statement);
    Cut cut;
    std::pair<int64_t, int64_t> best;
    for (size_t d = 0; d < statement.domain.size(); ++d) {
      const Iterator& it = statement.domain[d];
      if (!it.reduction || extent_of(it) < 2) continue;
      const auto contiguous = std::count_if(
          reads.begin(), reads.end(),
          [&](const MemoryAccess& access) { return !access.write && stride(access, it) == 1; });
      const std::pair<int64_t, int64_t> merit = {contiguous, extent_of(it)};
      if (cut.parts > 1 && merit <= best) continue;
      best = merit;
      cut = {d, std::min(wanted, extent_of(it)), 0, 0};
    }
    if (cut.parts == 1) return {};
    const int64_t extent = extent_of(statement.domain[cut.iterator]);
    for (int64_t parts = cut.parts; parts > cut.parts / 2; --parts)
      if (extent % parts == 0) {
        cut.parts = parts;
        break;
      }
    cut.length = divide_up(extent, cut.parts);
    cut.rest = extent % cut.parts;
    return cut.parts > 1 ? cut : Cut();
  }

  /// The two statements that a cut makes: that of the parts, whose index comes first and which
  /// still has all values of the one that is cut, and the one that combines them.
  std::pair<Statement, Statement> make_parts(const Statement& statement, const Cut& cut) {
    const Iterator& whole = statement.domain[cut.iterator];
    Iterator part = make_index(statement, whole.name + "_part", static_cast<int>(cut.parts),
                               "parts of " + whole.name);

    // The partial results, over the parts and the results' own iterators.
    Statement parts = statement, combine = statement;
    combine.domain = kept_indices(statement);
    parts.domain = combine.domain;
    parts.domain.insert(parts.domain.begin(), part);
    part.reduction = true;
    combine.domain.push_back(part);
    combine.value = write_temporary(parts, statement.tensor + ".parts",
                                    program_.tensor(statement.tensor).type, parts.domain);
    for (const Iterator& it : reduced_indices(statement)) parts.domain.push_back(it);
    parts.initializes = true;
    combine.guard = Expr();
    combine.meaning.clear();
    return {parts, combine};
  }

  void split(const Statement& statement, const Cut& cut) {
    const Iterator& whole = statement.domain[cut.iterator];
    auto [parts, combine] = make_parts(statement, cut);
    Expr start = whole.min + make_variable(parts.domain[0].name) * static_cast<int>(cut.length);
    restrict_range(parts, whole.name, start + make_variable(whole.name), cut.length);

    if (std::any_of(combined_.begin(), combined_.end(),
                    [&](const std::string& tensor) { return reads(statement, tensor); })) {
      parts_end_ = result_.size();
      combined_.clear();
    }
    result_.insert(result_.begin() + static_cast<long>(parts_end_), parts);
    ++parts_end_;
    result_.push_back(combine);
    combined_.insert(statement.tensor);
    if (cut.rest == 0) return;
    Statement rest = statement;
    rest.initializes = false;
    rest.domain.assign(parts.domain.begin() + 1, parts.domain.end());
    restrict_range(rest, whole.name,
                   whole.min + static_cast<int>(cut.parts * cut.length) + make_variable(whole.name),
                   cut.rest);
    result_.push_back(rest);
  }

  /// Lets an index run from 0 to `length` and stand for `value`.
  static void restrict_range(Statement& statement, const std::string& name, const Expr& value,
                             int64_t length) {
    for (Iterator& it : statement.domain)
      if (it.name == name) {
        it.min = 0;
        it.extent = static_cast<int>(length);
      }
    for_each_expression(statement, [&](Expr& e) { e = substitute(name, value, e); });
  }

  const GpuMachine gpu_;
  std::vector<Statement> result_;
  size_t parts_end_ = 0;            ///< where parts of the next statement may go
  std::set<std::string> combined_;  ///< tensors written since
};

}  // namespace

void split_reductions(Program& program, Layouts& layouts, const CpuMachine& machine) {
  Splitter(program, layouts, machine).run();
}

void split_reductions_for_gpu(Program& program, Layouts& layouts, const CpuMachine& machine) {
  Splitter splitter(program, layouts, machine);
  replace_statements(program,
                     [&](const Statement& statement) { return splitter.interleave(statement); });
}

}  // namespace tc::ir
