#include "codegen/vector_reductions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/loops.h"
#include "ir/program.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Additions that are under way at a time: two a cycle, each takes four.
constexpr int kInFlight = 8;
// Bodies with functions like exp are bound by those; copies would only make the code longer.
constexpr int kInFlightFunctions = 2;
// Elements that one iteration loads one by one, since they are no neighbours. They bound the time
// as well, and from 250 addresses in a loop on, those of the rest behind it among them, LLVM gives
// up to tell sets of them apart and compares all pairs (measured: 12 s instead of 0.1 s).
constexpr int kGathered = 96;
constexpr int kMaxLanes = 32;
// Copies of all statements of a body that one iteration of the main loop may have.
constexpr int kMaxCopies = 16;

/// One store of a loop body with the conditions around it.
struct GuardedStore {
  const Store* store = nullptr;
  Expr guard;  ///< undefined: always
  // If it accumulates into an element that is the same in all iterations:
  ir::Reduction reduction = ir::Reduction::None;
  Expr value;             ///< the term, of type `accumulator`
  ir::Type accumulator;   ///< the type of partial results
  bool is_truth = false;  ///< a Bool, which takes a byte in memory
  std::string partial;    ///< the local array of partial results
};

Expr both(const Expr& a, const Expr& b) { return a.defined() ? a && b : b; }

/// The loop body as a list of stores; false when it has something else.
bool collect(const Stmt& stmt, const Expr& guard, std::vector<GuardedStore>& stores) {
  if (const auto* block = stmt.as<Block>())
    return collect(block->first, guard, stores) && collect(block->rest, guard, stores);
  if (const auto* branch = stmt.as<IfThenElse>())
    return !branch->else_case.defined() &&
           collect(branch->then_case, both(guard, branch->condition), stores);
  if (const auto* store = stmt.as<Store>()) {
    GuardedStore found;
    found.store = store;
    found.guard = guard;
    stores.push_back(found);
    return true;
  }
  return false;
}

class CountLoads : public IRVisitor {
 public:
  explicit CountLoads(const std::string& loop) : loop_(loop) {}
  std::map<std::string, int> loads;
  int gathers = 0;  ///< loads of elements that are no neighbours along the loop
  bool functions = false;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    ++loads[op->name];
    Expr step = simplify(substitute(loop_, ir::make_variable(loop_) + 1, op->index) - op->index);
    if (!is_const_zero(step) && !is_const_one(step)) ++gathers;
    IRVisitor::visit(op);
  }
  void visit(const Call* op) override {
    if (!ir::math_name(op).empty()) functions = true;
    IRVisitor::visit(op);
  }
  const std::string loop_;
};

template <class Node>
bool match_operator(const Expr& e, const Store& store, Expr& term) {
  const auto* op = e.as<Node>();
  if (!op || !ir::loads_itself(op->a, store)) return false;
  term = op->b;
  return true;
}

/// Recognises X[f] = X[f] op term as codegen/to_stmt writes it.
bool match_accumulation(GuardedStore& s) {
  const Store& store = *s.store;
  ir::Type type = store.value.type();
  if (const auto* truth = store.value.as<Select>()) {
    const auto* any = truth->condition.as<Or>();
    const auto* all = truth->condition.as<And>();
    if (!is_const_one(truth->true_value) || !is_const_zero(truth->false_value)) return false;
    if (!any && !all) return false;
    const auto* before = (any ? any->a : all->a).as<NE>();
    if (!before || !ir::loads_itself(before->a, store)) return false;
    s.is_truth = true;
    s.reduction = any ? ir::Reduction::Max : ir::Reduction::Min;
    s.accumulator = type;
    s.value = Select::make(any ? any->b : all->b, truth->true_value, truth->false_value);
    return true;
  }
  if (match_operator<Add>(store.value, store, s.value))
    s.reduction = ir::Reduction::Sum;
  else if (match_operator<Mul>(store.value, store, s.value))
    s.reduction = ir::Reduction::Product;
  else if (match_operator<Min>(store.value, store, s.value))
    s.reduction = ir::Reduction::Min;
  else if (match_operator<Max>(store.value, store, s.value))
    s.reduction = ir::Reduction::Max;
  else
    return false;
  bool narrow = type.is_float() && type.bits() < 32;
  s.accumulator = narrow ? Halide::Float(32) : type;
  if (narrow) s.value = Halide::cast(s.accumulator, s.value);
  return true;
}

/// The partial result that changes nothing.
Expr neutral(const GuardedStore& s) {
  if (s.is_truth) return make_const(s.accumulator, s.reduction == ir::Reduction::Max ? 0 : 1);
  return ir::identity(s.reduction, s.accumulator);
}

/// X[f] op the sum of all partial results.
Expr final_value(const GuardedStore& s, const Expr& sum) {
  const Store& store = *s.store;
  Expr before = Load::make(store.value.type(), store.name, store.index, Halide::Buffer<>(),
                           store.param, const_true(), ModulusRemainder());
  if (!s.is_truth) return ir::combine(s.reduction, before, Halide::cast(store.value.type(), sum));
  Expr zero = make_zero(s.accumulator);
  Expr truth = s.reduction == ir::Reduction::Max ? before != zero || sum != zero
                                                 : before != zero && sum != zero;
  return Select::make(truth, make_one(s.accumulator), zero);
}

/// Redirects a nest's innermost accumulation to partial results.
class PartialResults {
 public:
  PartialResults(const For* vector, std::vector<GuardedStore> stores, int vector_bits)
      : vector_(vector), stores_(std::move(stores)) {
    int bits = std::max(8, ir::widest_element(vector->body));
    int accumulating = 0;
    CountLoads count(vector->name);
    vector->body.accept(&count);
    for (const GuardedStore& s : stores_) {
      if (s.reduction == ir::Reduction::None) {
        if (count.loads.count(s.store->name)) repeatable_ = false;
        continue;
      }
      ++accumulating;
      bits = std::max(bits, s.accumulator.bits());
    }
    lanes_ = std::clamp(vector_bits / bits, 1, kMaxLanes);
    extent_ = as_const_int(simplify(vector->extent));
    if (extent_)
      while (lanes_ > *extent_ && lanes_ > 1) lanes_ /= 2;
    while (lanes_ > 8 && lanes_ * count.gathers > kGathered / 2) lanes_ /= 2;
    int wanted = (count.functions ? kInFlightFunctions : kInFlight) / std::max(1, accumulating);
    if (count.gathers) wanted = std::min(wanted, kGathered / (lanes_ * count.gathers));
    // Two at least: LLVM adds up the halves of a single vector separately, inside the loop, when it
    // sees them used separately after it.
    int most = std::max(2, kMaxCopies / static_cast<int>(stores_.size()));
    copies_ = std::clamp(wanted, 2, most);
    if (extent_) copies_ = static_cast<int>(std::clamp<int64_t>(*extent_ / lanes_, 1, copies_));
  }

  int lanes() const { return lanes_; }

  /// The innermost loop. The last vector of a constant extent begins early enough to end with it;
  /// its lanes that repeat elements add nothing.
  Stmt loop() const {
    Expr lane = ir::make_variable(vector_->name + ".l");
    std::string round = vector_->name + ".r";
    Expr full = simplify(vector_->extent / lanes_);
    Expr rounds = simplify(full / copies_), rest = simplify(full % copies_);
    std::vector<Stmt> parts;
    std::vector<Stmt> copies;
    for (int u = 0; u < copies_; ++u)
      copies.push_back(
          vector((ir::make_variable(round) * copies_ + u) * lanes_ + lane, u, Expr(), Expr()));
    if (!is_const_zero(rounds))
      parts.push_back(ir::make_for(round, 0, rounds, ForType::Serial, Block::make(copies)));
    Expr done = rounds * copies_;
    int next = 0;
    if (auto vectors = as_const_int(rest)) {
      for (; next < *vectors; ++next)
        parts.push_back(vector((done + next) * lanes_ + lane, next, Expr(), Expr()));
    } else {
      std::string single = vector_->name + ".s";
      Expr position = (done + ir::make_variable(single)) * lanes_ + lane;
      parts.push_back(
          ir::make_for(single, 0, rest, ForType::Serial, vector(position, 0, Expr(), Expr())));
    }
    next %= copies_;
    if (!extent_) {
      Expr tail = vector_->extent % lanes_;
      parts.push_back(
          IfThenElse::make(tail > 0, vector(full * lanes_ + lane, next, lane < tail, lane < tail)));
    } else if (*extent_ % lanes_) {
      int tail = static_cast<int>(*extent_ % lanes_);
      parts.push_back(repeatable_ ? vector(static_cast<int>(*extent_) - lanes_ + lane, next,
                                           lane >= lanes_ - tail, Expr())
                                  : vector(full * lanes_ + lane, next, lane < tail, lane < tail));
    }
    return Block::make(parts);
  }

  /// Everything around the loops that add into the partial results.
  Stmt wrap(const Stmt& loops) const {
    std::vector<Stmt> before, after;
    for (const GuardedStore& s : stores_) {
      if (s.reduction == ir::Reduction::None) continue;
      for (int u = 0; u < copies_; ++u)
        before.push_back(
            lane_loop(lanes_, ir::make_store(s.partial, place(u, lane_variable()), neutral(s))));
      for (int width = copies_ * lanes_; width > 1;) {
        // Whole vectors first, then halves of the last one.
        int half = width > lanes_ ? (width / lanes_ + 1) / 2 * lanes_ : width / 2;
        for (int at = half; at < width; at += lanes_) {
          Expr x = lane_variable() + (at - half), y = lane_variable() + at;
          Expr sum = ir::combine(s.reduction, ir::make_load(s.accumulator, s.partial, x),
                                 ir::make_load(s.accumulator, s.partial, y));
          after.push_back(lane_loop(std::min(lanes_, half), ir::make_store(s.partial, x, sum)));
        }
        width = half;
      }
      const Store& store = *s.store;
      after.push_back(Store::make(store.name,
                                  final_value(s, ir::make_load(s.accumulator, s.partial, 0)),
                                  store.index, store.param, const_true(), ModulusRemainder()));
    }
    before.push_back(loops);
    before.insert(before.end(), after.begin(), after.end());
    Stmt result = Block::make(before);
    for (const GuardedStore& s : stores_)
      if (s.reduction != ir::Reduction::None)
        result = Allocate::make(s.partial, s.accumulator, Halide::MemoryType::Stack,
                                {copies_ * lanes_}, const_true(), result);
    return result;
  }

 private:
  Expr lane_variable() const { return ir::make_variable(vector_->name + ".l"); }
  Expr place(int copy, const Expr& lane) const { return lane + copy * lanes_; }
  Stmt lane_loop(int lanes, const Stmt& body) const {
    std::string name = vector_->name + ".l";
    if (lanes == 1) return substitute(name, Expr(0), body);
    return ir::make_for(name, 0, lanes, ForType::Vectorized, body);
  }

  /// The body at `position` (relative to the loop's first), into partial results `copy`. Only terms
  /// of lanes where `counts` holds are added; only lanes where `runs` holds touch memory.
  Stmt vector(const Expr& position, int copy, const Expr& counts, const Expr& runs) const {
    std::vector<Stmt> body;
    for (const GuardedStore& s : stores_) {
      if (s.reduction == ir::Reduction::None) {
        Stmt store = Stmt(s.store);
        Expr guard = runs.defined() ? (s.guard.defined() ? runs && s.guard : runs) : s.guard;
        body.push_back(guard.defined() ? IfThenElse::make(guard, store) : store);
        continue;
      }
      Expr term = s.value;
      auto choose = [&](const Expr& condition) {
        term = Call::make(term.type(), Call::if_then_else, {condition, term, neutral(s)},
                          Call::PureIntrinsic);
      };
      if (s.guard.defined()) choose(s.guard);
      if (runs.defined())
        choose(runs);
      else if (counts.defined())
        term = Select::make(counts, term, neutral(s));
      Expr at = place(copy, lane_variable());
      Expr partial = ir::make_load(s.accumulator, s.partial, at);
      body.push_back(ir::make_store(s.partial, at, ir::combine(s.reduction, partial, term)));
    }
    return lane_loop(lanes_, substitute(vector_->name, vector_->min + position, Block::make(body)));
  }

  const For* vector_;
  std::vector<GuardedStore> stores_;
  int lanes_ = 1, copies_ = 1;
  std::optional<int64_t> extent_;
  bool repeatable_ = true;
};

/// Whether every address in a body is the same function of outer * inner_extent + inner, and
/// nothing but addresses uses the two: then one loop can run through both.
class WalksOn : public IRVisitor {
 public:
  WalksOn(const For* outer, const For* inner) : outer_(outer), inner_(inner) {
    auto extent = as_const_int(inner->extent);
    result = extent && as_const_int(outer->extent) && is_const_zero(inner->min) &&
             is_const_zero(outer->min) && *extent * *as_const_int(outer->extent) <= (1 << 30);
    if (!result) return;
    joint_ =
        ir::make_variable(outer->name) * static_cast<int>(*extent) + ir::make_variable(inner->name);
    inner->body.accept(this);
  }
  bool result = true;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override { check(op->index); }
  void visit(const Store* op) override {
    check(op->index);
    op->value.accept(this);
  }
  void visit(const Variable* op) override {
    if (op->name == outer_->name || op->name == inner_->name) result = false;
  }
  void check(const Expr& index) {
    Expr walk = substitute(inner_->name, joint_, substitute(outer_->name, Expr(0), index));
    if (!is_const_zero(simplify(walk - index))) result = false;
  }
  const For* outer_;
  const For* inner_;
  Expr joint_;
};

class VectorizeReductions : public IRMutator {
 public:
  explicit VectorizeReductions(int vector_bits) : vector_bits_(vector_bits) {}

 private:
  using IRMutator::visit;

  Stmt visit(const For* op) override {
    Stmt joined = join(op);
    op = joined.as<For>();
    // The loops from here to the vector, if there is nothing else.
    std::vector<const For*> nest = {op};
    while (nest.back()->for_type == ForType::Serial && nest.back()->body.as<For>())
      nest.push_back(nest.back()->body.as<For>());
    const For* vector = nest.back();
    if (vector->for_type != ForType::Vectorized) return IRMutator::visit(op);
    if (rows_change(nest)) return IRMutator::visit(op);  // further in
    Stmt unrolled = unroll_rows(nest);
    if (unrolled.defined()) return mutate(unrolled);

    std::vector<GuardedStore> stores;
    bool plain = collect(vector->body, Expr(), stores);
    bool accumulates = false, legal = plain;
    CountLoads count(vector->name);
    vector->body.accept(&count);
    std::vector<GuardedStore> matched = stores;
    for (GuardedStore& s : matched) {
      int same = 0;
      for (const GuardedStore& other : stores) {
        if (other.store->name != s.store->name) continue;
        ++same;
        // Two statements that write one tensor may meet in an element.
        if (other.store != s.store && !apart(*other.store, *s.store)) legal = false;
      }
      if (expr_uses_var(s.store->index, vector->name)) continue;
      accumulates = true;
      if (count.loads[s.store->name] != same || !match_accumulation(s)) legal = false;
    }
    if (!plain) accumulates = stores_in_place(vector);
    if (!accumulates) return IRMutator::visit(op);
    if (!legal) return IRMutator::visit(serial(op).as<For>());

    // Further in where some result changes in this loop.
    for (size_t k = 0; k + 1 < nest.size(); ++k)
      for (const GuardedStore& s : matched)
        if (s.reduction != ir::Reduction::None && expr_uses_var(s.store->index, nest[k]->name))
          return IRMutator::visit(op);
    for (GuardedStore& s : matched)
      if (s.reduction != ir::Reduction::None)
        s.partial = concat(s.store->name, ".partial", partials_++);
    PartialResults partial(vector, matched, vector_bits_);
    if (partial.lanes() == 1) return serial(op);
    Stmt loops = partial.loop();
    for (size_t k = nest.size() - 1; k-- > 0;)
      loops = ir::make_for(nest[k]->name, nest[k]->min, nest[k]->extent, nest[k]->for_type, loops);
    return partial.wrap(loops);
  }

  static bool apart(const Store& a, const Store& b) {
    auto distance = as_const_int(simplify(a.index - b.index));
    return distance && *distance != 0;
  }

  static std::vector<const For*> rows_below(const For* vector) {
    std::vector<const For*> rows;
    Stmt body = vector->body;
    while (body.as<For>() && body.as<For>()->for_type == ForType::Unrolled) {
      rows.push_back(body.as<For>());
      body = rows.back()->body;
    }
    return rows;
  }

  /// Whether it depends on a loop above the vector which or how many rows there are below it.
  static bool rows_change(const std::vector<const For*>& nest) {
    for (const For* row : rows_below(nest.back()))
      for (size_t k = 0; k + 1 < nest.size(); ++k)
        if (expr_uses_var(row->extent, nest[k]->name) || expr_uses_var(row->min, nest[k]->name))
          return true;
    return false;
  }

  /// Rows below the vector, in Unrolled loops: unrolled where there are as many as the loops allow,
  /// and one after the other, each with a vector loop of its own, where there are fewer. Undefined
  /// without such loops.
  static Stmt unroll_rows(const std::vector<const For*>& nest) {
    std::vector<const For*> rows = rows_below(nest.back());
    if (rows.empty()) return Stmt();
    auto rebuild = [&](Stmt inner) {
      for (size_t k = nest.size(); k-- > 0;)
        inner =
            ir::make_for(nest[k]->name, nest[k]->min, nest[k]->extent, nest[k]->for_type, inner);
      return inner;
    };
    Expr full = const_true();
    bool bounded = true;
    Stmt block = rows.back()->body, singles = rebuild(block);
    for (size_t k = rows.size(); k-- > 0;) {
      Expr most = find_constant_bound(rows[k]->extent, Direction::Upper);
      auto extent = most.defined() ? as_const_int(most) : std::nullopt;
      bounded = bounded && extent;
      std::vector<Stmt> copies;
      for (int64_t r = 0; extent && r < *extent; ++r)
        copies.push_back(
            substitute(rows[k]->name, simplify(rows[k]->min + static_cast<int>(r)), block));
      if (!copies.empty()) block = Block::make(copies);
      if (extent && !is_const(rows[k]->extent))
        full = full && rows[k]->extent == static_cast<int>(*extent);
      singles =
          ir::make_for(rows[k]->name, rows[k]->min, rows[k]->extent, ForType::Serial, singles);
    }
    if (!bounded) return singles;
    full = simplify(full);
    return is_const_one(full) ? rebuild(block) : IfThenElse::make(full, rebuild(block), singles);
  }

  /// Joins the loops above a vector with it, as far as addresses walk on.
  static Stmt join(const For* op) {
    Stmt inner_stmt = op->body.as<For>() ? join(op->body.as<For>()) : op->body;
    const For* inner = inner_stmt.as<For>();
    if (inner && op->for_type == ForType::Serial && inner->for_type == ForType::Vectorized &&
        WalksOn(op, inner).result)
      return ir::make_for(inner->name, 0, simplify(op->extent * inner->extent), ForType::Vectorized,
                          substitute(op->name, Expr(0), inner->body));
    if (inner_stmt.same_as(op->body)) return Stmt(op);
    return ir::make_for(op->name, op->min, op->extent, op->for_type, inner_stmt);
  }

  /// Whether some store below the loop goes to one element in all its iterations.
  static bool stores_in_place(const For* vector) {
    class Find : public IRVisitor {
     public:
      explicit Find(const std::string& loop) : loop_(loop) {}
      bool found = false;

     private:
      using IRVisitor::visit;
      void visit(const Store* op) override {
        if (!expr_uses_var(op->index, loop_)) found = true;
      }
      const std::string& loop_;
    };
    Find find(vector->name);
    vector->body.accept(&find);
    return find.found;
  }

  /// The nest without its vector.
  static Stmt serial(const For* op) {
    if (op->for_type == ForType::Vectorized)
      return ir::make_for(op->name, op->min, op->extent, ForType::Serial, op->body);
    return ir::make_for(op->name, op->min, op->extent, op->for_type, serial(op->body.as<For>()));
  }

  const int vector_bits_;
  int partials_ = 0;
};

}  // namespace

Stmt vectorize_reductions(const Stmt& stmt, int vector_bits) {
  return VectorizeReductions(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
