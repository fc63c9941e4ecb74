#include "codegen/cpu/checked_indices.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/program.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

constexpr char kLaunch[] = "tc.launch";

/// The largest indices that a task saw of one check, a lane each.
struct Largest {
  std::string buffer;
  Expr size, check;
  int lanes = 1;
};

/// An index that a statement waits for, and where it is kept when it is not below the size.
struct Guard {
  std::string buffer;
  Expr index, size;
};

template <class Node>
bool has_checked(const Node& node) {
  auto is_checked = [](const Call* op) { return ir::find_checked_index(op).has_value(); };
  return node.defined() && ir::any<Call>(node, is_checked);
}

/// Whether it has lanes that are looked at one by one, but for where it reads.
bool has_checked_lanes(const Expr& e) {
  bool found = false;
  ir::visit(
      e, [](const Load*, ir::Visitor&) {},
      [&](const Call* op, ir::Visitor& self) {
        found = found || (op->type.is_vector() && ir::find_checked_index(op));
        self.inside(op);
      });
  return found;
}

Expr lane(const Expr& e) {
  const auto* broadcast = e.as<Broadcast>();
  return broadcast ? lane(broadcast->value) : e;
}

/// Without sign and of 32 or 64 bits, so that what is negative is larger than every size.
Expr without_sign(const Expr& index) {
  const Type type = index.type();
  Expr wide = type.bits() < 32 ? Halide::cast(type.is_uint() ? Halide::UInt(32, type.lanes())
                                                             : Halide::Int(32, type.lanes()),
                                              index)
                               : index;
  return Halide::cast(wide.type().with_code(Type::UInt), wide);
}

/// What is larger than every size stays so.
Expr in_32_bits(const Expr& index) {
  return Halide::cast(index.type().with_bits(32), min(index, make_const(index.type(), UINT32_MAX)));
}

Expr constant_like(const Expr& e, const Expr& value) {
  Expr one = Halide::cast(e.type().element_of(), value);
  return e.type().is_vector() ? Broadcast::make(one, e.type().lanes()) : one;
}

Expr all_lanes(int lanes) { return lanes > 1 ? Ramp::make(0, 1, lanes) : Expr(0); }

class Expand : public IRMutator {
 public:
  Stmt run(const Stmt& stmt) { return task(stmt); }

 private:
  using IRMutator::visit;

  /// The statement with its own vectors around it.
  Stmt task(const Stmt& stmt) {
    std::vector<Largest> outer = std::exchange(largest_, {});
    Stmt body = mutate(stmt);
    std::vector<Stmt> begin, end;
    for (const Largest& each : largest_) {
      const Type type = Halide::UInt(32, each.lanes);
      begin.push_back(ir::make_store(each.buffer, all_lanes(each.lanes), make_zero(type)));
      Expr seen = ir::make_load(type, each.buffer, all_lanes(each.lanes));
      if (each.lanes > 1) seen = VectorReduce::make(VectorReduce::Max, seen, 1);
      Expr launch = ir::make_variable(kLaunch, Halide::type_of<void*>());
      Expr call = Call::make(Halide::Int(32), kBadIndex, {launch, each.check}, Call::Extern);
      end.push_back(
          IfThenElse::make(seen >= Halide::cast<uint32_t>(each.size), Evaluate::make(call)));
    }
    if (!largest_.empty()) {
      begin.push_back(body);
      begin.insert(begin.end(), end.begin(), end.end());
      body = Block::make(begin);
      for (const Largest& each : largest_)
        body = Allocate::make(each.buffer, Halide::UInt(32), Halide::MemoryType::Stack,
                              {each.lanes}, const_true(), body);
    }
    largest_ = std::move(outer);
    return body;
  }

  Stmt visit(const For* op) override {
    const bool checked_bounds = has_checked(op->min) || has_checked(op->extent);
    TC_INTERNAL_CHECK(!checked_bounds, "a loop's range is data: ", op->min, ", ", op->extent);
    if (op->for_type != ForType::Parallel) return IRMutator::visit(op);
    return ir::make_for(op->name, op->min, op->extent, op->for_type, task(op->body));
  }

  Stmt visit(const Store* op) override {
    store_ = op;
    Stmt result = IRMutator::visit(op);
    store_ = nullptr;
    std::vector<Stmt> notes = std::exchange(notes_, {});
    notes.push_back(result);
    result = Block::make(notes);
    // One index for all lanes decides whether there is anything to do. Where another index is read
    // at it, which may be one of the notes', its guard was found first and stands around that.
    const std::vector<Guard> guards = std::exchange(guards_, {});
    for (auto guard = guards.rbegin(); guard != guards.rend(); ++guard)
      result = IfThenElse::make(ir::likely_branch(guard->index < guard->size), result,
                                ir::make_store(guard->buffer, 0, in_32_bits(guard->index)));
    return result;
  }
  Stmt visit(const LetStmt* op) override {
    Expr value = mutate(op->value);
    std::vector<Stmt> notes = std::exchange(notes_, {});
    notes.push_back(LetStmt::make(op->name, value, mutate(op->body)));
    return Block::make(notes);
  }
  Stmt visit(const IfThenElse* op) override {
    Expr condition = mutate(op->condition);
    std::vector<Stmt> notes = std::exchange(notes_, {});
    Stmt then = mutate(op->then_case);
    Stmt otherwise = op->else_case.defined() ? mutate(op->else_case) : Stmt();
    notes.push_back(IfThenElse::make(condition, then, otherwise));
    return Block::make(notes);
  }
  /// Calls for their effect alone prefetch memory ahead of its use, where a bad address does no
  /// harm.
  Stmt visit(const Evaluate* op) override {
    ScopedValue<bool> unchecked(unchecked_, true);
    return IRMutator::visit(op);
  }

  /// Sides of a choice are taken where its condition says so, whatever a vector evaluates.
  Expr visit(const Select* op) override {
    auto [condition, yes, no] = sides(op->condition, op->true_value, op->false_value);
    return Select::make(condition, yes, no);
  }
  Expr visit(const Load* op) override {
    Expr predicate = mutate(op->predicate);
    conditions_.push_back(predicate);
    Expr index = mutate(op->index);
    // Known not to be negative, its lanes become addresses without a sign extension each. Lanes
    // that a condition leaves out may be negative, so only where there is none. Neighbours that one
    // index leads to stay a ramp.
    if (index.type().bits() == 32 && !unchecked_ && always() && has_checked_lanes(op->index))
      index = index & make_const(index.type(), INT32_MAX);
    conditions_.pop_back();
    return Load::make(op->type, op->name, index, op->image, op->param, predicate, op->alignment);
  }
  std::tuple<Expr, Expr, Expr> sides(const Expr& condition, const Expr& yes, const Expr& no) {
    Expr first = mutate(condition);
    conditions_.push_back(first);
    Expr second = mutate(yes);
    conditions_.back() = !first;
    Expr third = mutate(no);
    conditions_.pop_back();
    return {first, second, third};
  }

  Expr visit(const Let* op) override {
    Expr value = mutate(op->value);
    lets_.emplace_back(op->name, value);
    Expr body = mutate(op->body);
    lets_.pop_back();
    return Let::make(op->name, value, body);
  }

  Expr visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3) {
      auto [condition, yes, no] = sides(op->args[0], op->args[1], op->args[2]);
      return Call::make(op->type, Call::if_then_else, {condition, yes, no}, op->call_type);
    }
    auto checked = ir::find_checked_index(op);
    if (!checked) return IRMutator::visit(op);
    Expr index = mutate(checked->index);
    if (unchecked_) return Halide::cast(op->type, index);
    index = without_sign(index);
    const Expr size = lane(checked->size);
    const auto constant = as_const_int(size);
    TC_INTERNAL_CHECK(constant, "a size that is no constant: ", checked->size);
    if (store_ && index.type().is_scalar() && always()) {
      guard(index, size, lane(checked->check));
      return Halide::cast(op->type, index);
    }
    // With the largest of 32 bits it is one instruction of AVX-512, that narrows and saturates.
    if (index.type().bits() == 64) index = in_32_bits(index);
    note(index, size, lane(checked->check));
    const Expr last = static_cast<int32_t>(std::max<int64_t>(0, *constant - 1));
    return Halide::cast(index.type().with_code(Type::Int), min(index, constant_like(index, last)));
  }

  /// The largest indices of this check, a vector of them for each number of lanes.
  const std::string& buffer_of(const Expr& size, const Expr& check, int lanes) {
    for (const Largest& each : largest_)
      if (each.lanes == lanes && equal(each.check, check)) return each.buffer;
    largest_.push_back({unique_name("largest_index"), size, check, lanes});
    return largest_.back().buffer;
  }

  /// With names that the visited expression defines.
  Expr outside_lets(Expr e) const {
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
      if (expr_uses_var(e, let->first)) e = Let::make(let->first, let->second, e);
    return e;
  }

  /// The visited store is only made where the index is inside.
  void guard(const Expr& index, const Expr& size, const Expr& check) {
    Guard guard{buffer_of(size, check, 1), outside_lets(index), constant_like(index, size)};
    auto same = [&](const Guard& other) {
      return other.buffer == guard.buffer && equal(other.index, guard.index);
    };
    if (std::none_of(guards_.begin(), guards_.end(), same)) guards_.push_back(guard);
  }

  /// Whether the visited expression is evaluated in every lane of its statement.
  bool always() const {
    return std::all_of(conditions_.begin(), conditions_.end(),
                       [](const Expr& condition) { return is_const_one(condition); });
  }

  /// Takes the indices among the largest before the statement that is visited, in lanes that use
  /// them: what others would read is not known.
  void note(Expr index, const Expr& size, const Expr& check) {
    const int lanes = index.type().lanes();
    const std::string& buffer = buffer_of(size, check, lanes);
    std::vector<Expr> conditions = conditions_;
    if (store_) conditions.insert(conditions.begin(), store_->predicate);
    const Expr none = make_zero(index.type());
    for (size_t c = conditions.size(); c-- > 0;) {
      Expr condition = conditions[c];
      if (is_const_one(condition)) continue;
      // One index for several lanes is used where any of them is.
      if (lanes == 1 && condition.type().is_vector())
        condition = VectorReduce::make(VectorReduce::Or, condition, 1);
      else if (lanes > 1 && condition.type().is_scalar())
        condition = Broadcast::make(condition, lanes);
      if (condition.type().lanes() != lanes) continue;
      index = Call::make(index.type(), Call::if_then_else, {condition, index, none},
                         Call::PureIntrinsic);
    }
    Expr before = ir::make_load(index.type(), buffer, all_lanes(lanes));
    Stmt noted = ir::make_store(buffer, all_lanes(lanes), outside_lets(max(before, index)));
    if (std::none_of(notes_.begin(), notes_.end(),
                     [&](const Stmt& other) { return equal(other, noted); }))
      notes_.push_back(noted);
  }

  std::vector<Largest> largest_;                    ///< of the task that is visited
  std::vector<Stmt> notes_;                         ///< to stand in front of the visited statement
  std::vector<std::pair<std::string, Expr>> lets_;  ///< around the visited expression
  std::vector<Expr> conditions_;                    ///< under which the visited expression is used
  std::vector<Guard> guards_;                       ///< of the visited store
  const Store* store_ = nullptr;                    ///< that is visited
  bool unchecked_ = false;                          ///< inside of a statement that needs no check
};

}  // namespace

Stmt expand_checked_indices(const Stmt& stmt) {
  return has_checked(stmt) ? Expand().run(stmt) : stmt;
}

Stmt define_launch(const Stmt& stmt) {
  if (!stmt_uses_var(stmt, kLaunch)) return stmt;
  return LetStmt::make(kLaunch, ir::make_variable("__user_context", Halide::type_of<void*>()),
                       stmt);
}

}  // namespace tc::codegen
