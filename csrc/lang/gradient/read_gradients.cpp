#include "lang/gradient/read_gradients.h"

#include <iterator>
#include <map>
#include <tuple>

#include "lang/gradient/function_gradients.h"
#include "lang/gradient/joined_reads.h"
#include "lang/gradient/logistic.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

using Active = std::set<std::string>;

/// Numbers of the values in an expression: one for all parts that are written the same way, larger
/// than those of its operands.
class ValueNumbers {
 public:
  size_t of(const Expression& e) {
    const auto known = numbers_.find(&e);
    if (known != numbers_.end()) return known->second;
    std::vector<size_t> operands;
    for (const ExpressionPtr& operand : e.operands) operands.push_back(of(*operand));
    const Key key(e.kind, e.name, e.op, e.dimension, e.type.code(), e.type.bits(), operands);
    return numbers_[&e] = values_.try_emplace(key, values_.size()).first->second;
  }

 private:
  using Key = std::tuple<ExpressionKind, std::string, Operator, int, int, int, std::vector<size_t>>;
  std::map<Key, size_t> values_;
  std::map<const Expression*, size_t> numbers_;
};

/// What a part of an expression receives where these guards hold.
struct Received {
  std::vector<ExpressionPtr> guards;
  ExpressionPtr gradient;
};

class ReverseMode {
 public:
  ReverseMode(const ExpressionPtr& value, const Active& active) : active_(active) {
    if (is_active(*value)) count_uses(*value);
  }

  std::vector<ReadGradient> run(const ExpressionPtr& value, const ExpressionPtr& gradient,
                                const ExpressionPtr& result) {
    if (is_active(*value)) propagate(value, gradient, result);
    // What it is made of has smaller numbers: all that a part receives has arrived.
    while (!waiting_.empty()) {
      const auto last = std::prev(waiting_.end());
      const Waiting part = std::move(last->second);
      waiting_.erase(last);
      for (const Received& each : part.received) {
        guards_ = each.guards;
        propagate(part.value, each.gradient, nullptr);
      }
    }
    return std::move(gradients_);
  }

 private:
  struct Waiting {
    ExpressionPtr value;
    std::vector<Received> received;
  };

  bool is_active(const Expression& e) {
    const auto [known, is_new] = is_active_.try_emplace(values_.of(e), false);
    if (is_new) known->second = lang::is_active(e, active_);
    return known->second;
  }

  /// Of the values below `e`, by others that receive something.
  void count_uses(const Expression& e) {
    if (is_access(e)) return;
    for (size_t k = 0; k < e.operands.size(); ++k) {
      const Expression& operand = *e.operands[k];
      if ((e.kind == ExpressionKind::Ternary && k == 0) || !is_active(operand)) continue;
      if (++uses_[values_.of(operand)] == 1) count_uses(operand);
    }
  }

  void reach(const ExpressionPtr& e, const ExpressionPtr& gradient, const ExpressionPtr& result) {
    if (!is_active(*e)) return;
    const size_t number = values_.of(*e);
    if (uses_[number] < 2 || is_access(*e)) return propagate(e, gradient, result);
    Waiting& part = waiting_[number];
    part.value = e;
    for (Received& other : part.received)
      if (join(guards_, gradient, e->type, &other.guards, &other.gradient)) return;
    part.received.push_back({guards_, gradient});
  }

  /// Hands on what `e`, which is active, receives.
  void propagate(const ExpressionPtr& e, const ExpressionPtr& gradient,
                 const ExpressionPtr& result) {
    const auto go_on = [&](size_t k, const ExpressionPtr& part, const ExpressionPtr& value) {
      const ExpressionPtr& operand = e->operands[k];
      reach(operand, operand->type == e->type ? part : cast(operand->type, part), value);
    };
    if (is_access(*e)) {
      gradients_.push_back({e, guards_, gradient});
    } else if (e->kind == ExpressionKind::Ternary) {
      for (const size_t k : {1, 2}) {
        guards_.push_back(k == 1 ? e->operands[0] : logical_not(e->operands[0]));
        // Where the branch is taken, its value is that of the whole.
        go_on(k, gradient, e->operands[k]->type == e->type ? result : nullptr);
        guards_.pop_back();
      }
    } else if (e->kind == ExpressionKind::Cast) {
      go_on(0, gradient, nullptr);
    } else {
      const auto logistic = logistic_gradient(*e, gradient, result ? result : e);
      for (size_t k = 0; k < e->operands.size(); ++k) {
        if (!is_active(*e->operands[k])) continue;
        if (logistic && k + 1 == e->operands.size()) {
          reach(logistic->argument, logistic->part, nullptr);
          continue;
        }
        ExpressionPtr part = operand_gradient(*e, k, gradient, result ? result : e);
        if (part) go_on(k, part, nullptr);
      }
    }
  }

  const Active& active_;
  ValueNumbers values_;
  std::map<size_t, bool> is_active_;  ///< by number
  std::map<size_t, int> uses_;
  std::map<size_t, Waiting> waiting_;  ///< parts that others are yet to hand something on to
  std::vector<ExpressionPtr> guards_;
  std::vector<ReadGradient> gradients_;
};

}  // namespace

bool is_active(const Expression& e, const Active& active) {
  if (!e.type.is_float()) return false;
  if (is_access(e)) return active.count(e.name) != 0;
  for (size_t k = 0; k < e.operands.size(); ++k) {
    bool condition = e.kind == ExpressionKind::Ternary && k == 0;
    if (!condition && is_active(*e.operands[k], active)) return true;
  }
  return false;
}

std::vector<ReadGradient> read_gradients(const ExpressionPtr& value, const ExpressionPtr& gradient,
                                         const ExpressionPtr& result, const Active& active) {
  return ReverseMode(value, active).run(value, gradient, result);
}

}  // namespace tc::lang
