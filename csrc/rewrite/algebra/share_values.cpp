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

/// The parts of a value, and whether they are computed at all points: sides of choices are not.
void for_each_part(const Expr& value, bool always,
                   const std::function<void(const Expr&, bool)>& each) {
  walk(value, [&](const Expr& e) {
    each(e, always);
    const auto choice = find_choice(e);
    if (choice) {
      for_each_part(choice->condition, always, each);
      for_each_part(choice->yes, false, each);
      for_each_part(choice->no, false, each);
    }
    const auto* call = e.as<Call>();
    return !choice && (!call || read_name(call).empty());
  });
}

/// A statement that computes a value as well.
struct User {
  size_t statement;
  std::vector<std::string> indices;  ///< there
  bool always;                       ///< at all points
};

/// A value of a statement that later ones compute as well.
struct Shared {
  Expr value;
  std::vector<std::string> indices;
  std::vector<User> users;
  double points;
};

bool is_part(const Expr& part, const Expr& value) {
  bool found = false;
  walk(value, [&](const Expr& e) {
    found = found || e.same_as(part);
    return !found;
  });
  return found;
}

class ShareValues : public ProgramPass {
 public:
  using ProgramPass::ProgramPass;

  void run() {
    for (size_t s = 0; s < program_.statements.size(); ++s)
      while (share(s)) ++s;  // what was put in front has nothing to share
    number_statements(program_);
  }

 private:
  static bool is_candidate(const Statement& statement) {
    return !is_scatter(statement) && !statement.guard.defined() && !is_scan(statement);
  }

  /// Whether some later statement computes a value of this one; both read it then.
  bool share(size_t s) {
    const Statement& statement = program_.statements[s];
    if (!is_candidate(statement)) return false;
    std::vector<std::pair<Expr, bool>> values;  // the largest first
    for_each_part(statement.value, true, [&](const Expr& e, bool always) {
      if (e.type().is_float() && e.type().bits() >= 32 && cycles_of(e) > 0)
        values.emplace_back(e, always);
    });
    std::optional<Shared> best;
    for (const auto& [value, always] : values) {
      // What calls the same functions at fewer points costs less, and leaves cheap operations.
      if (best && cycles_of(value) < cycles_of(best->value)) continue;
      std::optional<Shared> found = find_users(value, always, s);
      if (found && (!best || (is_part(found->value, best->value) && found->points < best->points)))
        best = std::move(found);
    }
    if (best) write_out(s, best->value, best->indices, best->users);
    return best.has_value();
  }

  /// The later statements that compute a value of this one; nothing where sharing it does not pay.
  std::optional<Shared> find_users(const Expr& value, bool always, size_t s) const {
    const Statement& statement = program_.statements[s];
    Shared shared{value, indices_of(value, statement), {}, 1};
    if (shared.indices.empty()) return std::nullopt;
    for (size_t later = s + 1; later < program_.statements.size(); ++later) {
      // What is written in between, by this statement too, is not what both read.
      if (reads(value, program_.statements[later - 1].tensor)) break;
      if (auto user = find_same(value, shared.indices, statement, later))
        shared.users.push_back(*user);
    }
    // What no statement computes at all points may read outside of tensors at some.
    const bool everywhere = always || std::any_of(shared.users.begin(), shared.users.end(),
                                                  [](const User& each) { return each.always; });
    if (shared.users.empty() || !everywhere ||
        !pays(value, shared.indices, statement, shared.users))
      return std::nullopt;
    for (const std::string& index : shared.indices)
      shared.points *= static_cast<double>(extent_of(*find_index(statement.domain, index)));
    return shared;
  }

  /// The statement with that number as one that computes the value.
  std::optional<User> find_same(const Expr& value, const std::vector<std::string>& indices,
                                const Statement& first, size_t number) const {
    const Statement& second = program_.statements[number];
    if (!is_candidate(second)) return std::nullopt;
    std::optional<User> found;
    for_each_part(second.value, true, [&](const Expr& e, bool always) {
      if ((found && (found->always || !always)) || e.node_type() != value.node_type() ||
          e.type() != value.type())
        return;
      std::vector<std::string> there = indices_of(e, second);
      bool same = there.size() == indices.size();
      for (size_t k = 0; same && k < there.size(); ++k)
        same = have_same_range(*find_index(first.domain, indices[k]),
                               *find_index(second.domain, there[k]));
      if (same && equal(rename(e, there, indices), value)) found = User{number, there, always};
    });
    return found;
  }

  /// Whether the functions take longer than an element is written and read.
  bool pays(const Expr& value, const std::vector<std::string>& indices, const Statement& first,
            const std::vector<User>& users) const {
    double points = 1, between = 1;
    for (size_t k = 0; k < indices.size(); ++k) {
      const Iterator& it = *find_index(first.domain, indices[k]);
      const auto extent = static_cast<double>(extent_of(it));
      points *= extent;
      const bool common =
          !it.reduction && std::all_of(users.begin(), users.end(), [&](const User& user) {
            const Statement& statement = program_.statements[user.statement];
            return !find_index(statement.domain, user.indices[k])->reduction;
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
                 const std::vector<User>& users) {
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
    for (const User& user : users) read_instead(program_.statements[user.statement], user.indices);
    program_.statements.insert(program_.statements.begin() + static_cast<long>(s), made);
  }
};

}  // namespace

void share_values(Program& program, Layouts& layouts, const CpuMachine& machine) {
  ShareValues(program, layouts, machine).run();
}

}  // namespace tc::ir
