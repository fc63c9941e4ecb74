#include "codegen/vectors/guarded_loads.h"

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "codegen/math/named.h"
#include "codegen/names.h"
#include "ir/expressions/choices.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

/// a && b && ...: what all lanes share as a scalar, and the rest as a vector; undefined when
/// absent.
struct Condition {
  Expr uniform, varying;
};

Expr join(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return a && b;
}

Condition split(const Expr& condition) {
  if (const auto* broadcast = condition.as<Broadcast>())
    if (broadcast->value.type().is_scalar()) return {broadcast->value, Expr()};
  if (const auto* both = condition.as<And>()) {
    Condition a = split(both->a), b = split(both->b);
    return {join(a.uniform, b.uniform), join(a.varying, b.varying)};
  }
  return {Expr(), condition};
}

/// Adds a condition to every load. Elements that are loaded once for all lanes are only safe where
/// some lane is on: they become vectors, or inside of other arithmetic are loaded in a branch.
Expr predicate_loads(const Expr& e, const Expr& condition) {
  const int lanes = condition.type().lanes();
  return ir::mutate(
      e,
      [&](const Broadcast* op, ir::Mutator& self) {
        const auto* load = op->value.as<Load>();
        if (!load || op->lanes != lanes) return self.inside(op);
        return Load::make(load->type.with_lanes(lanes), load->name,
                          Broadcast::make(load->index, lanes), load->image, load->param, condition,
                          ModulusRemainder());
      },
      [&](const Load* op, ir::Mutator& self) {
        if (op->type.is_scalar()) {
          Expr some = VectorReduce::make(VectorReduce::Or, condition, 1);
          return ir::choose_lazily(some, self.inside(op), make_zero(op->type));
        }
        if (op->type.lanes() != lanes) return self.inside(op);
        return Load::make(
            op->type, op->name, self.mutate(op->index), op->image, op->param,
            is_const_one(op->predicate) ? condition : self.mutate(op->predicate) && condition,
            op->alignment);
      });
}

/// Conditions of choices inside of choices that read memory get names. Written out they would
/// double with every level: each is in the predicate of every load of its branches, those of the
/// next condition among them.
class LowerChoices : public IRMutator {
 public:
  using IRMutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    NamedValues outer = std::exchange(names_, {});
    Stmt result = IRMutator::mutate(stmt);
    result = with_names<LetStmt>(names_, result);
    names_ = std::move(outer);
    return result;
  }

 private:
  using IRMutator::visit;

  /// With names of its own.
  struct Branch {
    Expr value;
    NamedValues names;

    Expr whole() const { return with_names<Let>(names, value); }
    Branch where(const Expr& on) const {
      Branch result{predicate_loads(value, on), names};
      for (auto& [name, e] : result.names) e = predicate_loads(e, on);
      return result;
    }
  };

  Branch select(Expr on, const Branch& yes, const Branch& no) const {
    Branch chosen;
    if (inside_ && ir::has_load(on)) {
      chosen.names.emplace_back(unique_name("on"), on);
      on = Variable::make(on.type(), chosen.names[0].first);
    }
    const Branch first = yes.where(on), other = no.where(!on);
    chosen.value = Select::make(on, first.value, other.value);
    for (const Branch* each : {&first, &other})
      chosen.names.insert(chosen.names.end(), each->names.begin(), each->names.end());
    return chosen;
  }

  Branch branch(const Expr& e, bool inside) {
    Branch result;
    NamedValues outer = std::exchange(names_, {});
    ScopedValue<bool> is_inside(inside_, inside);
    result.value = mutate(e);
    result.names = std::exchange(names_, std::move(outer));
    return result;
  }

  Expr visit(const Let* op) override {
    Expr value = mutate(op->value);
    return Let::make(op->name, value, branch(op->body, inside_).whole());
  }

  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else) || op->args.size() != 3) return IRMutator::visit(op);
    Expr whole = mutate(op->args[0]);
    if (op->args[0].type().is_scalar()) {
      return Call::make(
          op->type, op->name,
          {whole, branch(op->args[1], inside_).whole(), branch(op->args[2], inside_).whole()},
          op->call_type);
    }
    Condition condition = split(whole);
    Branch yes = branch(op->args[1], true), no = branch(op->args[2], true);
    Branch chosen = condition.varying.defined() ? select(condition.varying, yes, no) : yes;
    if (condition.uniform.defined()) {
      return Call::make(op->type, Call::if_then_else,
                        {condition.uniform, chosen.whole(), no.whole()}, Call::PureIntrinsic);
    }
    names_.insert(names_.end(), chosen.names.begin(), chosen.names.end());
    return chosen.value;
  }

  NamedValues names_;
  bool inside_ = false;
};

/// Runs a pass with all lazy choices hidden from it.
template <class Root, class Pass>
Root run_around_choices(const Root& root, const Pass& pass, const ExprPass& part_pass);

/// Puts calls of unknown functions of its variables in the place of every lazy choice, of which the
/// pass gets the condition and the branches each for itself.
class HideChoices : public IRGraphMutator {
 public:
  explicit HideChoices(const ExprPass& pass) : pass_(pass) {}
  std::map<std::string, std::pair<std::vector<std::string>, Expr>> choices;

  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    ScopedValue<bool> inside(inside_, true);
    return IRGraphMutator::mutate(inside.old_value ? e : substitute_in_all_lets(e));
  }

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    if (!op->is_intrinsic(Call::if_then_else)) return IRMutator::visit(op);
    std::string name = unique_name("choice");
    auto& [parameters, choice] = choices[name];
    std::vector<Expr> parts = op->args, arguments;
    // Choices in the condition are evaluated whatever the branches do, so that they are hoisted:
    // branches that use them as well would hold copies, three times as many for every level.
    for (const Expr& inner : outermost_choices(op->args[0])) {
      const std::string chosen = unique_name('t');
      for (Expr& part : parts)
        part = graph_substitute(inner, Variable::make(inner.type(), chosen), part);
      parameters.push_back(chosen);
      arguments.push_back(mutate(inner));
    }
    std::map<std::string, Expr> variables;
    for (const Expr& part : parts)
      ir::visit_graph(part,
                      [&](const Variable* v, ir::Visitor&) { variables.emplace(v->name, v); });
    for (const std::string& chosen : parameters) variables.erase(chosen);
    for (const auto& [variable, value] : variables) {
      parameters.push_back(variable);
      arguments.push_back(value);
    }
    for (Expr& part : parts) part = run_around_choices(part, pass_, pass_);
    choice = Call::make(op->type, op->name, parts, op->call_type);
    return Call::make(op->type, name, arguments, Call::Extern);
  }

  /// Those that are in no other one.
  static std::vector<Expr> outermost_choices(const Expr& e) {
    std::vector<Expr> found;
    ir::visit_graph(e, [&](const Call* op, ir::Visitor& self) {
      if (!op->is_intrinsic(Call::if_then_else)) return self.inside(op);
      found.emplace_back(op);
    });
    return found;
  }

  const ExprPass& pass_;
  bool inside_ = false;
};

template <class Root, class Pass>
Root run_around_choices(const Root& root, const Pass& pass, const ExprPass& part_pass) {
  HideChoices hide(part_pass);
  const Root hidden = pass(hide.mutate(root));
  return ir::mutate_graph(hidden, [&](const Call* op, ir::Mutator& self) {
    auto found = hide.choices.find(op->name);
    if (found == hide.choices.end()) return self.inside(op);
    const auto& [parameters, choice] = found->second;
    std::map<std::string, Expr> arguments;
    std::vector<std::pair<std::string, Expr>> names;
    for (size_t p = 0; p < parameters.size(); ++p) {
      const Expr argument = self.mutate(op->args[p]);
      if (argument.as<Variable>() || is_const(argument))
        arguments[parameters[p]] = argument;
      else
        names.emplace_back(parameters[p], argument);
    }
    Expr result = ir::graph_substitute(arguments, choice);
    for (const auto& [parameter, argument] : names) result = Let::make(parameter, argument, result);
    return result;
  });
}

std::vector<int> last_to_first(int lanes) {
  std::vector<int> order(static_cast<size_t>(lanes));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

/// The lanes of a condition from the last to the first: comparisons of indices are made so, since
/// permutations of masks cost more than comparisons.
Expr reverse_lanes(const Expr& e) {
  if (e.as<Broadcast>()) return e;
  if (const auto* op = e.as<Ramp>(); op && op->base.type().is_scalar())
    return Ramp::make(simplify(op->base + (op->lanes - 1) * op->stride), simplify(-op->stride),
                      op->lanes);
  if (const auto* op = e.as<Not>()) return !reverse_lanes(op->a);
  const auto both = [](const auto* op) {
    return std::remove_pointer_t<decltype(op)>::make(reverse_lanes(op->a), reverse_lanes(op->b));
  };
  if (const auto* op = e.as<And>()) return both(op);
  if (const auto* op = e.as<Or>()) return both(op);
  if (const auto* op = e.as<LT>()) return both(op);
  if (const auto* op = e.as<LE>()) return both(op);
  if (const auto* op = e.as<GT>()) return both(op);
  if (const auto* op = e.as<GE>()) return both(op);
  if (const auto* op = e.as<EQ>()) return both(op);
  if (const auto* op = e.as<NE>()) return both(op);
  return Shuffle::make({e}, last_to_first(e.type().lanes()));
}

/// Neighbours that lie in falling order, as those in rising order and a permutation; 0 where the
/// condition is off.
Expr load_backwards(const Load* op, const Ramp* index) {
  const int lanes = index->lanes;
  const Expr first = simplify(index->base - (lanes - 1));
  const Expr on = reverse_lanes(op->predicate);
  const Expr load = Load::make(op->type, op->name, Ramp::make(first, make_one(first.type()), lanes),
                               op->image, op->param, on, ModulusRemainder());
  return Shuffle::make({Select::make(on, load, make_zero(load.type()))}, last_to_first(lanes));
}

/// From the first element where the condition is off.
Expr load_somewhere(const Load* op, const Expr& on, const Expr& index) {
  int lanes = index.type().lanes();
  return Load::make(op->type.with_lanes(lanes), op->name,
                    Select::make(on, index, make_zero(index.type())), op->image, op->param,
                    const_true(lanes), ModulusRemainder());
}

}  // namespace

Stmt define_switched_off_lanes(const Stmt& stmt, const std::set<std::string>& empty_buffers) {
  std::set<std::string> empty = empty_buffers;
  return ir::mutate(
      stmt,
      [&](const Allocate* op, ir::Mutator& self) {
        if (op->constant_allocation_size() == 0) empty.insert(op->name);
        return self.inside(op);
      },
      [&](const Load* whole, ir::Mutator& self) {
        const Expr load = self.inside(whole);
        const auto* op = load.as<Load>();
        if (is_const_one(op->predicate)) return load;
        const auto* ramp = op->index.as<Ramp>();
        if ((ramp && is_const_one(ramp->stride)) || empty.count(op->name))
          return Select::make(op->predicate, load, make_zero(load.type()));
        if (ramp && is_const(ramp->stride, -1) && ramp->base.type().is_scalar())
          return load_backwards(op, ramp);
        const auto* same = op->index.as<Broadcast>();
        if (!same || op->type.is_scalar()) return load_somewhere(op, op->predicate, op->index);
        Expr some = VectorReduce::make(VectorReduce::Or, op->predicate, 1);
        return Broadcast::make(load_somewhere(op, some, same->value), same->lanes);
      });
}

Stmt hide_negative_offsets(const Stmt& stmt) {
  std::map<std::pair<int, int64_t>, std::string> names;  // by bits and value
  auto hide = [&](const Expr& index) {
    const auto* ramp = index.as<Ramp>();
    auto base = ramp ? as_const_int(ramp->base) : std::nullopt;
    auto stride = ramp ? as_const_int(ramp->stride) : std::nullopt;
    if (!base || !stride || (*base >= 0 && *stride >= 0)) return index;
    std::string& name = names[{ramp->base.type().bits(), *base}];
    if (name.empty()) name = unique_name("offset");
    return Ramp::make(Variable::make(ramp->base.type(), name), ramp->stride, ramp->lanes);
  };
  Stmt result = ir::mutate(
      stmt,
      [&](const Load* op, ir::Mutator& self) {
        Expr index = hide(self.mutate(op->index)), predicate = self.mutate(op->predicate);
        return Load::make(op->type, op->name, index, op->image, op->param, predicate,
                          op->alignment);
      },
      [&](const Store* op, ir::Mutator& self) {
        Expr value = self.mutate(op->value), index = hide(self.mutate(op->index));
        return Store::make(op->name, value, index, op->param, self.mutate(op->predicate),
                           op->alignment);
      });
  for (const auto& [constant, name] : names)
    result = LetStmt::make(name, make_const(Halide::Int(constant.first), constant.second), result);
  return result;
}

Stmt around_choices(const Stmt& stmt, const StmtPass& pass, const ExprPass& part_pass) {
  return ir::has_lazy_choice(stmt) ? run_around_choices(stmt, pass, part_pass) : pass(stmt);
}

Stmt predicate_guarded_loads(const Stmt& stmt) { return LowerChoices().mutate(stmt); }

}  // namespace tc::codegen
