#include "codegen/vector_scans.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ir/choices.h"
#include "ir/loops.h"
#include "ir/program.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

constexpr int kMaxLanes = 32;

// Calls inside of a Vectorized loop that move values between lanes, until its lanes are vectors.
// The loop's variable is their last argument, so that they become vectors though the value may be
// one for all lanes.
const char* const kMoveLanes = "tc.move_lanes";
const char* const kSpreadLane = "tc.spread_lane";

/// Of every lane the value `distance` lanes further on; `neutral` where there is none.
Expr move_lanes(const Expr& value, const Expr& neutral, int distance, const Expr& lane) {
  return Call::make(value.type(), kMoveLanes, {value, neutral, distance, lane}, Call::PureExtern);
}

/// The value of lane `from`, for all of them.
Expr spread_lane(const Expr& value, int from, const Expr& lane) {
  return Call::make(value.type(), kSpreadLane, {value, from, lane}, Call::PureExtern);
}

class ShuffleLanes : public IRMutator {
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    const bool moves = op->name == kMoveLanes;
    if (!moves && op->name != kSpreadLane) return IRMutator::visit(op);
    const int lanes = op->type.lanes();
    Expr value = vector(mutate(op->args[0]), lanes);
    const int by = static_cast<int>(*constant(op->args[op->args.size() - 2]));
    if (!moves) return Shuffle::make({value}, std::vector<int>(lanes, by));
    // A slice of both, one behind the other. As any other shuffle, half of its four lanes could
    // be taken for a slice that runs backwards, which Halide 21 loses.
    Expr neutral = vector(mutate(op->args[1]), lanes);
    if (by < 0)
      return Shuffle::make_slice(Shuffle::make_concat({neutral, value}), lanes + by, 1, lanes);
    return Shuffle::make_slice(Shuffle::make_concat({value, neutral}), by, 1, lanes);
  }

  static Expr vector(const Expr& e, int lanes) {
    return e.type().lanes() == lanes ? e : Broadcast::make(e, lanes);
  }
  static std::optional<int64_t> constant(const Expr& e) {
    const auto* broadcast = e.as<Broadcast>();
    return as_const_int(broadcast ? broadcast->value : e);
  }
};

/// A store that goes on from its neighbour.
struct Scan {
  ir::Reduction reduction = ir::Reduction::None;
  Expr start, value;
  Expr goes_on;  ///< from the neighbour, but for the first; undefined: always
  Expr scale;    ///< of the neighbour in a sum that goes on; undefined: 1
  int step = 1;  ///< of the element along the loop: 1 or -1
};

/// A store of a loop's body, with its scan if it is one.
struct Part {
  const Store* store = nullptr;
  std::optional<Scan> scan;
};

/// Whether e loads the element that the store had one iteration ago.
bool loads_before(const Expr& e, const Store& store, const std::string& loop) {
  const auto* load = e.as<Load>();
  if (!load || load->name != store.name || !expr_uses_var(store.index, loop)) return false;
  Expr before = substitute(loop, ir::make_variable(loop) - 1, store.index);
  return is_const_zero(simplify(load->index - before));
}

class NeedsNeighbour : public IRVisitor {
 public:
  NeedsNeighbour(const Store& store, const std::string& loop) : store_(store), loop_(loop) {
    store.value.accept(this);
  }
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    found = found || loads_before(Expr(op), store_, loop_);
    IRVisitor::visit(op);
  }
  const Store& store_;
  const std::string& loop_;
};

template <class Operation>
bool split(const Expr& e, Expr& before, Expr& value) {
  const auto* op = e.as<Operation>();
  if (op) before = op->a, value = op->b;
  return op != nullptr;
}

std::optional<Scan> match_scan(const Store& store, const std::string& loop) {
  Scan scan;
  Expr before;
  if (split<Add>(store.value, before, scan.value))
    scan.reduction = ir::Reduction::Sum;
  else if (split<Mul>(store.value, before, scan.value))
    scan.reduction = ir::Reduction::Product;
  else if (split<Min>(store.value, before, scan.value))
    scan.reduction = ir::Reduction::Min;
  else if (split<Max>(store.value, before, scan.value))
    scan.reduction = ir::Reduction::Max;
  else
    return std::nullopt;
  auto choice = ir::find_choice(before);
  auto step = ir::step_along(store.index, loop);
  if (!choice || !step || (*step != 1 && *step != -1) ||
      !is_const_one(simplify(choice->condition == (ir::make_variable(loop) > 0))))
    return std::nullopt;
  scan.start = choice->no;
  scan.step = static_cast<int>(*step);
  if (auto inner = ir::find_choice(choice->yes)) {
    scan.goes_on = inner->condition;
    const Expr nothing = ir::identity(scan.reduction, store.value.type());
    if (!equal(inner->no, scan.start) || !equal(simplify(scan.start), simplify(nothing)))
      return std::nullopt;
    choice->yes = inner->yes;
  }
  const auto* product = choice->yes.as<Mul>();
  if (product && scan.reduction == ir::Reduction::Sum) {
    scan.scale = product->b;
    choice->yes = product->a;
  }
  if (!loads_before(choice->yes, store, loop)) return std::nullopt;
  return scan;
}

/// The body as a list of stores; false when it has something else.
bool collect(const Stmt& stmt, const std::string& loop, std::vector<Part>& parts) {
  if (const auto* block = stmt.as<Block>())
    return collect(block->first, loop, parts) && collect(block->rest, loop, parts);
  const auto* store = stmt.as<Store>();
  if (store) parts.push_back({store, match_scan(*store, loop)});
  return store != nullptr;
}

/// Whether any store below the loop needs what an iteration before it made.
class FindScans : public IRVisitor {
 public:
  explicit FindScans(const std::string& loop) : loop_(loop) {}
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Store* op) override { found = found || NeedsNeighbour(*op, loop_).found; }
  const std::string& loop_;
};

/// A loop with scans, in vectors.
class Vectors {
 public:
  Vectors(const For& loop, std::vector<Part> parts, int lanes, int number)
      : loop_(loop), parts_(std::move(parts)), lanes_(lanes), number_(number) {}

  Stmt stmt() const {
    Expr full = simplify(loop_.extent / lanes_), rest = simplify(loop_.extent % lanes_);
    std::string round = loop_.name + ".v";
    std::vector<Stmt> all;
    for (size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].scan)
        all.push_back(lane_loop(
            ir::make_store(carry(p), ir::make_variable(loop_.name + ".l"), parts_[p].scan->start)));
    if (!is_const_zero(full))
      all.push_back(ir::make_for(round, 0, full, ForType::Serial,
                                 vector(ir::make_variable(round) * lanes_, Expr())));
    if (!is_const_zero(rest)) {
      Stmt tail = vector(full * lanes_, rest);
      all.push_back(is_const(rest) ? tail : IfThenElse::make(rest > 0, tail));
    }
    Stmt result = Block::make(all);
    for (size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].scan) result = allocate(carry(p), type_of(p), lanes_, result);
    return result;
  }

 private:
  std::string carry(size_t part) const {
    return concat(parts_[part].store->name, ".carry", number_, "_", part);
  }
  ir::Type type_of(size_t part) const { return parts_[part].store->value.type(); }

  static Stmt allocate(const std::string& name, ir::Type type, int elements, const Stmt& body) {
    return Allocate::make(name, type, Halide::MemoryType::Stack, {elements}, const_true(), body);
  }

  Stmt lane_loop(const Stmt& body) const {
    return ir::make_for(loop_.name + ".l", 0, lanes_, ForType::Vectorized, body);
  }

  /// All stores for the iterations from `first` on, of which there are `count`, or a vector's.
  Stmt vector(const Expr& first, const Expr& count) const {
    const Expr lane = ir::make_variable(loop_.name + ".l");
    std::vector<Stmt> all;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      if (part.scan) {
        all.push_back(scan(p, first, count));
        continue;
      }
      Stmt store = substitute(loop_.name, loop_.min + first + lane, Stmt(part.store));
      all.push_back(lane_loop(count.defined() ? IfThenElse::make(lane < count, store) : store));
    }
    return Block::make(all);
  }

  /// Lanes lie as in memory: the last iteration first where elements go down.
  Stmt scan(size_t p, const Expr& first, const Expr& count) const {
    const Scan& scan = *parts_[p].scan;
    const ir::Type type = type_of(p);
    const bool down = scan.step < 0;
    const Expr lane = ir::make_variable(loop_.name + ".l");
    const Expr turn = down ? (lanes_ - 1) - lane : lane;
    const Expr iteration = loop_.min + first + turn;
    Expr value = substitute(loop_.name, iteration, scan.value);
    Expr runs = count.defined() ? turn < count : Expr();
    if (runs.defined())
      value = Call::make(type, Call::if_then_else, {runs, value, identity(scan, type)},
                         Call::PureIntrinsic);
    std::vector<std::pair<std::string, Expr>> steps;
    auto name_it = [&](const Expr& e) {
      steps.emplace_back(concat(parts_[p].store->name, ".scan", number_, "_", p, "_", steps.size()),
                         e);
      return Variable::make(e.type(), steps.back().first);
    };
    // What lies before, and e, as far as everything in between goes on.
    Expr goes_on, scale;
    auto join = [&](const Expr& before, const Expr& e, const Expr& all_go_on, const Expr& scale) {
      const Expr both = ir::combine(scan.reduction, scale.defined() ? before * scale : before, e);
      return all_go_on.defined() ? Select::make(all_go_on, both, e) : both;
    };
    auto where_asked = [&](const Expr& e, const Expr& elsewhere) {
      Expr asked = iteration > 0;
      if (runs.defined()) asked = asked && runs;
      return name_it(ir::choose_lazily(asked, substitute(loop_.name, iteration, e), elsewhere));
    };
    if (scan.goes_on.defined()) goes_on = where_asked(scan.goes_on, const_true());
    if (scan.scale.defined()) scale = where_asked(scan.scale, make_one(type));
    Expr sum = name_it(value);
    for (int distance = 1; distance < lanes_; distance *= 2) {
      const int by = down ? distance : -distance;
      sum = name_it(join(move_lanes(sum, identity(scan, type), by, lane), sum, goes_on, scale));
      if (goes_on.defined())
        goes_on = name_it(goes_on && move_lanes(goes_on, const_true(), by, lane));
      if (scale.defined()) scale = name_it(scale * move_lanes(scale, make_one(type), by, lane));
    }
    const Expr carried = ir::make_load(type, carry(p), lane);
    const Store& store = *parts_[p].store;
    Stmt result = Store::make(store.name, join(carried, sum, goes_on, scale),
                              substitute(loop_.name, iteration, store.index), store.param,
                              const_true(), ModulusRemainder());
    if (runs.defined()) result = IfThenElse::make(runs, result);
    auto of_last = [&](const Expr& e) {
      return e.defined() ? spread_lane(e, down ? 0 : lanes_ - 1, lane) : e;
    };
    Stmt body = Block::make(
        result, ir::make_store(carry(p), lane,
                               join(carried, of_last(sum), of_last(goes_on), of_last(scale))));
    for (size_t s = steps.size(); s-- > 0;)
      body = LetStmt::make(steps[s].first, steps[s].second, body);
    return lane_loop(body);
  }

  static Expr identity(const Scan& scan, ir::Type type) {
    return ir::identity(scan.reduction, type);
  }

  const For& loop_;
  std::vector<Part> parts_;
  int lanes_, number_;
};

class VectorizeScans : public IRMutator {
 public:
  explicit VectorizeScans(int vector_bits) : vector_bits_(vector_bits) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ForType::Vectorized) return IRMutator::visit(op);
    FindScans find(op->name);
    op->body.accept(&find);
    if (!find.found) return op;
    std::vector<Part> parts;
    bool plain = collect(op->body, op->name, parts);
    for (const Part& part : parts)
      plain = plain && (part.scan || !NeedsNeighbour(*part.store, op->name).found);
    int lanes = std::clamp(vector_bits_ / std::max(8, ir::widest_element(op->body)), 1, kMaxLanes);
    auto extent = as_const_int(op->extent);
    while (extent && *extent <= lanes / 2) lanes /= 2;
    if (!plain || lanes == 1)
      return ir::make_for(op->name, op->min, op->extent, ForType::Serial, op->body);
    return Vectors(*op, parts, lanes, number_++).stmt();
  }

  const int vector_bits_;
  int number_ = 0;
};

}  // namespace

Stmt shuffle_lanes(const Stmt& stmt) { return ShuffleLanes().mutate(stmt); }

Stmt vectorize_scans(const Stmt& stmt, int vector_bits) {
  return VectorizeScans(vector_bits).mutate(stmt);
}

}  // namespace tc::codegen
