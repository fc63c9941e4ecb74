#include "lang/sema/suspects.h"

#include <functional>
#include <map>
#include <set>

#include "lang/sema/roles.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

/// Looks at one statement.
class StatementSuspects {
 public:
  StatementSuspects(const TreeStatement& statement, std::vector<std::string>* warnings)
      : statement_(statement), warnings_(warnings) {
    for (const WhereClause& clause : statement.clauses) {
      if (clause.kind == ClauseKind::Let) lets_[clause.name.name] = clause.first.get();
      if (clause.kind == ClauseKind::Range) settled_.insert(clause.name.name);
    }
    if (statement.reduction == ir::Reduction::Sum) check_sum();
    check_guarded(*statement.value, {});
  }

 private:
  /// Calls `visit` for every node, with what lets stand for in their places.
  void walk(const Expression& e, const std::function<void(const Expression&)>& visit) const {
    if (e.binding == Binding::Let) return walk(*lets_.at(e.name), visit);
    visit(e);
    for (const ExpressionPtr& operand : e.operands) walk(*operand, visit);
  }

  void list_factors(const Expression& e, std::vector<const Expression*>* factors) const {
    if (e.binding == Binding::Let) return list_factors(*lets_.at(e.name), factors);
    if (!is_binary(e, Operator::Multiply)) return factors->push_back(&e);
    for (const ExpressionPtr& operand : e.operands) list_factors(*operand, factors);
  }

  /// Whether an index decides where a scatter adds: overlap-add, y(t * hop + k) += x(t, k) * w(k),
  /// sums what meets in a place, not all of t.
  bool is_placed(const std::string& index) const {
    bool found = false;
    for (size_t d = 0; d < statement_.indices.size(); ++d) {
      if (!statement_.scattered(d)) continue;
      walk(*statement_.scattered(d), [&](const Expression& e) {
        found = found || (e.binding == Binding::Index && e.name == index);
      });
    }
    return found;
  }

  void check_sum() {
    std::vector<const Expression*> factors;
    list_factors(*statement_.value, &factors);
    for (const Identifier& index : statement_.reduction_indices) {
      if (settled_.count(index.name) || is_placed(index.name)) continue;
      int count = 0;
      const Expression *own = nullptr, *other = nullptr;
      for (const Expression* factor : factors) {
        bool has_it = false, reads = false;
        walk(*factor, [&](const Expression& e) {
          bool here = e.binding == Binding::Index && e.name == index.name;
          count += here;
          has_it = has_it || here;
          reads = reads || (e.kind == ExpressionKind::Apply && e.binding == Binding::Tensor &&
                            !e.operands.empty());
        });
        if (has_it) own = factor;
        if (!has_it && reads && !other) other = factor;
      }
      if (count != 1 || !other) continue;
      warn(warnings_, index.where, index.name, " is summed over, but of the factors only ",
           own->where.str(), " has it. If ", other->where.str(),
           " should have it too, write it there; if not, sum ", own->where.str(),
           " in a statement of its own, which is less work, or say that it is meant by a range: "
           "where ",
           index.name, " in ...");
    }
  }

  /// Of reads whose subscripts count for the ranges of the indices that a condition around them is
  /// about.
  void check_guarded(const Expression& e, const std::set<std::string>& guarded) {
    if (e.binding == Binding::Let) return check_guarded(*lets_.at(e.name), guarded);
    const bool choice = e.kind == ExpressionKind::Ternary || is_binary(e, Operator::And) ||
                        is_binary(e, Operator::Or);
    std::set<std::string> inside = guarded;
    if (choice) add_compared(*e.operands[0], &inside);
    for (size_t i = 0; i < e.operands.size(); ++i) {
      if (is_access(e)) check_subscript(e, *e.operands[i], guarded);
      check_guarded(*e.operands[i], choice && i > 0 ? inside : guarded);
    }
  }

  /// The indices without ranges that are compared by size, with what is no data.
  void add_compared(const Expression& condition, std::set<std::string>* indices) const {
    walk(condition, [&](const Expression& comparison) {
      if (!is_ordering(comparison)) return;
      std::set<std::string> compared;
      bool data = false;
      walk(comparison, [&](const Expression& e) {
        data = data || is_access(e);
        if (e.binding == Binding::Index && !settled_.count(e.name)) compared.insert(e.name);
      });
      if (!data) indices->insert(compared.begin(), compared.end());
    });
  }

  void check_subscript(const Expression& read, const Expression& subscript,
                       const std::set<std::string>& guarded) {
    // An index by itself says what it takes, whatever the condition is for.
    if (subscript.kind == ExpressionKind::Name) return;
    walk(subscript, [&](const Expression& e) {
      if (e.binding != Binding::Index || !guarded.count(e.name) || !settled_.insert(e.name).second)
        return;
      warn(warnings_, read.where, e.name, " has no range of its own, so that ", read.where.str(),
           " gives it one, as if the condition always held: ", e.name,
           " takes no value at which this would lie outside. Say what it takes: where ", e.name,
           " in ...");
    });
  }

  const TreeStatement& statement_;
  std::vector<std::string>* warnings_;
  std::map<std::string, const Expression*> lets_;
  std::set<std::string> settled_;  ///< indices with a range, or with a warning
};

void check_use(const Function& function, std::vector<std::string>* warnings) {
  std::set<std::string> used, seen;
  for (const Declaration& returned : function.returns) used.insert(returned.name);
  for (const TreeStatement& statement : function.statements)
    walk(statement, [&](const Expression& e) {
      if (e.binding == Binding::Tensor) used.insert(e.name);
    });
  for (const TreeStatement& statement : function.statements) {
    const Identifier& target = statement.target;
    // A call has to name all results, also those that are not needed.
    if (statement.inlined || used.count(target.name) || !seen.insert(target.name).second) continue;
    warn(warnings, target.where, target.name,
         " is computed, but neither read nor returned; return it, or leave the statement out");
  }
}

}  // namespace

void warn_of_suspects(const Function& function, std::vector<std::string>* warnings) {
  for (const TreeStatement& statement : function.statements) {
    if (!statement.inlined) StatementSuspects(statement, warnings);
  }
  check_use(function, warnings);
}

}  // namespace tc::lang
