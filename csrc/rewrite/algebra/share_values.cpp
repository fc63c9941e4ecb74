#include "rewrite/algebra/share_values.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/walk.h"
#include "ir/operations.h"
#include "ir/scan.h"
#include "machine/operation_costs.h"
#include "rewrite/program_pass.h"

namespace tc::ir {

namespace {

/// The indices of an expression in order of appearance.
std::vector<std::string> indices_of(const Expr& e, const Statement& statement) {
  std::vector<std::string> found;
  walk(e, [&](const Expr& part) {
    const auto* index = part.as<Variable>();
    if (index && find_index(statement.domain, index->name) &&
        std::find(found.begin(), found.end(), index->name) == found.end())
      found.push_back(index->name);
    return true;
  });
  return found;
}

Expr rename(const Expr& e, const std::vector<std::string>& from,
            const std::vector<std::string>& to) {
  std::map<std::string, Expr> names;
  for (size_t k = 0; k < from.size(); ++k) names[from[k]] = make_variable(to[k]);
  return substitute(names, e);
}

/// Cycles, a vector, of functions and of choices by indices in a value; the rest hides behind
/// reads.
double cycles_of(const Expr& value) {
  double cycles = 0;
  for_each_operation(value, [&](const Operation& operation) {
    const bool function = operation.kind == OperationKind::Function && !is_cheap(operation.name);
    const machine::OperationCost& cost = machine::operation_cost(operation.name);
    if ((function && !cost.one_by_one) || operation.name == "choice") cycles += cost.cycles;
  });
  return cycles;
}

/// The parts of a value that are computed at all points: sides of choices are not.
void for_each_part(const Expr& value, const std::function<void(const Expr&)>& each) {
  walk(value, [&](const Expr& e) {
    each(e);
    const auto* call = e.as<Call>();
    return !find_choice(e) && (!call || read_name(call).empty());
  });
}

class ShareValues : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  void run() {
    bool any = false;
    for (size_t s = 0; s < program_.statements.size(); ++s)
      while (share(s)) {
        any = true;
        ++s;  // what was put in front has nothing to share
      }
    if (any) number_statements(program_);
  }

 private:
  static bool is_candidate(const Statement& statement) {
    return !is_scatter(statement) && !statement.guard.defined() && !is_scan(statement);
  }

  /// Whether some later statement computes a value of this one; both read it then.
  bool share(size_t s) {
    const Statement& statement = program_.statements[s];
    if (!is_candidate(statement)) return false;
    std::vector<Expr> values;  // the largest first
    for_each_part(statement.value, [&](const Expr& e) {
      if (e.type().is_float() && e.type().bits() >= 32 && cycles_of(e) > 0) values.push_back(e);
    });
    for (const Expr& value : values) {
      const std::vector<std::string> indices = indices_of(value, statement);
      if (indices.empty()) continue;
      std::vector<std::pair<size_t, std::vector<std::string>>> users;
      for (size_t later = s + 1; later < program_.statements.size(); ++later) {
        // What is written in between, by this statement too, is not what both read.
        if (reads(value, program_.statements[later - 1].tensor)) break;
        if (auto there = find_same(value, indices, statement, program_.statements[later]))
          users.emplace_back(later, *there);
      }
      if (users.empty() || !pays(value, indices, statement, users)) continue;
      write_out(s, value, indices, users);
      return true;
    }
    return false;
  }

  /// The indices of a statement by which it computes that value.
  static std::optional<std::vector<std::string>> find_same(const Expr& value,
                                                           const std::vector<std::string>& indices,
                                                           const Statement& first,
                                                           const Statement& second) {
    if (!is_candidate(second)) return std::nullopt;
    std::optional<std::vector<std::string>> found;
    for_each_part(second.value, [&](const Expr& e) {
      if (found || e.node_type() != value.node_type() || e.type() != value.type()) return;
      std::vector<std::string> there = indices_of(e, second);
      bool same = there.size() == indices.size();
      for (size_t k = 0; same && k < there.size(); ++k)
        same = have_same_range(*find_index(first.domain, indices[k]),
                               *find_index(second.domain, there[k]));
      if (same && equal(rename(e, there, indices), value)) found = there;
    });
    return found;
  }

  /// Whether the functions take longer than an element is written and read.
  bool pays(const Expr& value, const std::vector<std::string>& indices, const Statement& first,
            const std::vector<std::pair<size_t, std::vector<std::string>>>& users) const {
    double points = 1, between = 1;
    for (size_t k = 0; k < indices.size(); ++k) {
      const Iterator& it = *find_index(first.domain, indices[k]);
      const auto extent = static_cast<double>(extent_of(it));
      points *= extent;
      const bool common = !it.reduction && std::all_of(users.begin(), users.end(), [&](auto& user) {
        return !find_index(program_.statements[user.first].domain, user.second[k])->reduction;
      });
      if (!common) between *= extent;
    }
    const double lanes = machine_.vector_bits / 8.0 / value.type().bytes();
    return points / lanes *
               (static_cast<double>(users.size()) * cycles_of(value) -
                cycles_of_temporary(value, points, between)) >=
           machine_.least_part() * (machine_.task_cycles + machine_.loop_cycles);
  }

  /// Of a vector that is written and read again, through the cache that keeps what lies between.
  double cycles_of_temporary(const Expr& value, double points, double between) const {
    const double vector = 2.0 * machine_.vector_bits / machine_.step_bits();
    const double lines = 2 * machine_.vector_bits / 8.0;
    if (between * value.type().bytes() <= static_cast<double>(machine_.cache_bytes)) return vector;
    return vector +
           lines / (points * value.type().bytes() <= static_cast<double>(machine_.last_cache_share)
                        ? machine_.last_cache_rate
                        : machine_.memory_rate);
  }

  void write_out(size_t s, const Expr& value, const std::vector<std::string>& indices,
                 const std::vector<std::pair<size_t, std::vector<std::string>>>& users) {
    const Statement& first = program_.statements[s];
    // Neighbours in the domain of the statement are neighbours in the temporary.
    std::vector<size_t> order;
    std::vector<Iterator> over;
    for (const Iterator& it : first.domain) {
      const auto place = std::find(indices.begin(), indices.end(), it.name);
      if (place == indices.end()) continue;
      order.push_back(static_cast<size_t>(place - indices.begin()));
      over.push_back(it);
    }
    const Statement made = make_temporary(first.tensor + ".values", value, over, first.where, "");
    const Tensor& tensor = program_.tensor(made.tensor);
    auto read_instead = [&](Statement& user, const std::vector<std::string>& there) {
      std::vector<Expr> subscripts;
      for (size_t k = 0; k < order.size(); ++k)
        subscripts.push_back(simplify(make_variable(there[order[k]]) - made.domain[k].min));
      const Expr from = rename(value, indices, there), to = read(tensor, subscripts);
      user.value = substitute(from, to, user.value);
    };
    read_instead(program_.statements[s], indices);
    for (const auto& [user, there] : users) read_instead(program_.statements[user], there);
    program_.statements.insert(program_.statements.begin() + static_cast<long>(s), made);
  }
};

}  // namespace

void share_values(Program& program, std::map<std::string, Layout>& layouts,
                  const CpuMachine& machine) {
  ShareValues(program, layouts, machine).run();
}

}  // namespace tc::ir
