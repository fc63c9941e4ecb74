#include "codegen/vectors/vector_scans.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "codegen/names.h"
#include "codegen/workarounds/hidden_zero.h"
#include "ir/expressions/choices.h"
#include "ir/loops.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

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

Expr vector(const Expr& e, int lanes) {
  return e.type().lanes() == lanes ? e : Broadcast::make(e, lanes);
}

/// Whether iterations of the loop go on from one another.
bool scans_along(const Compute& compute, const std::string& loop) {
  return compute.scan && expr_uses_var(compute.scan->position, loop);
}

/// Whether they do so one by one, from its first to its last, to a neighbour each.
bool is_whole(const Compute& compute, const std::string& loop) {
  const auto step = ir::step_along(compute.index, loop);
  return is_const_zero(simplify(compute.scan->position - ir::make_variable(loop))) &&
         (step == 1 || step == -1);
}

/// A loop with scans, in vectors.
class Vectors {
 public:
  Vectors(const Loop& loop, std::vector<Compute> parts, int lanes, int number)
      : loop_(loop), parts_(std::move(parts)), lanes_(lanes), number_(number) {}

  Nest nest() const {
    Expr full = simplify(loop_.extent / lanes_), rest = simplify(loop_.extent % lanes_);
    std::string round = loop_.name + ".v";
    std::vector<Nest> all;
    for (size_t p = 0; p < parts_.size(); ++p)
      if (scans(p)) all.push_back(lane_loop(store_carry(p, initial_carry(p))));
    if (!is_const_zero(full))
      all.push_back(nest::make_loop(round, 0, full, Role::Serial,
                                    vector(ir::make_variable(round) * lanes_, Expr())));
    if (!is_const_zero(rest)) {
      Nest tail = vector(full * lanes_, rest);
      all.push_back(is_const(rest) ? tail : nest::make(nest::Guard{rest > 0, tail, nullptr}));
    }
    Nest result = nest::make_sequence(all);
    for (size_t p = 0; p < parts_.size(); ++p)
      if (scans(p))
        result =
            nest::make(nest::Buffer{carry(p), type_of(p), lanes_, nest::Memory::Stack, result});
    return result;
  }

 private:
  bool scans(size_t part) const { return scans_along(parts_[part], loop_.name); }
  Type type_of(size_t part) const { return parts_[part].type; }
  Expr identity(size_t part) const {
    return ir::identity(parts_[part].scan->reduction, type_of(part));
  }
  /// The carry into the first vector: a block of a loop that was cut goes on from the one before.
  Expr initial_carry(size_t part) const {
    if (is_const_zero(loop_.min)) return identity(part);
    return ir::choose_lazily(loop_.min > 0,
                             substitute(loop_.name, loop_.min, parts_[part].scan->neighbour),
                             hide_extreme(identity(part)));
  }
  Expr lane() const { return ir::make_variable(loop_.name + ".l"); }

  /// The buffer of what the vectors before came to, in all lanes.
  std::string carry(size_t part) const {
    return concat(parts_[part].buffer, ".carry", number_, "_", part);
  }
  Nest store_carry(size_t part, const Expr& value) const {
    return nest::make(Compute{carry(part), type_of(part), lane(), value});
  }

  Nest lane_loop(const Nest& body) const {
    return nest::make_loop(loop_.name + ".l", 0, lanes_, Role::Vector, body);
  }

  /// All computes for the iterations from `first` on, of which there are `count`, or a vector's.
  Nest vector(const Expr& first, const Expr& count) const {
    std::vector<Nest> all;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (scans(p)) {
        all.push_back(scan(p, first, count));
        continue;
      }
      Nest part = nest::substitute(loop_.name, loop_.min + first + lane(), nest::make(parts_[p]));
      all.push_back(lane_loop(
          count.defined() ? nest::make(nest::Guard{lane() < count, part, nullptr}) : part));
    }
    return nest::make_sequence(all);
  }

  /// Lanes lie as in memory: the last iteration first where elements go down.
  Nest scan(size_t p, const Expr& first, const Expr& count) const {
    const Compute& part = parts_[p];
    const ir::Scan& scan = *part.scan;
    const Type type = part.type;
    const bool down = ir::step_along(part.index, loop_.name) < 0;
    const Expr turn = down ? (lanes_ - 1) - lane() : lane();
    const Expr iteration = loop_.min + first + turn;
    Expr value = substitute(loop_.name, iteration, part.value);
    Expr runs = count.defined() ? turn < count : Expr();
    if (runs.defined()) value = ir::choose_lazily(runs, value, hide_extreme(identity(p)));
    std::vector<std::pair<std::string, Expr>> steps;
    auto name_it = [&](const Expr& e) {
      steps.emplace_back(concat(part.buffer, ".scan", number_, "_", p, "_", steps.size()), e);
      return Variable::make(e.type(), steps.back().first);
    };
    // What lies before, and e, as far as everything in between goes on.
    Expr goes_on, scale;
    auto join = [&](const Expr& before, const Expr& e, const Expr& all_go_on, const Expr& scale) {
      const Expr both = ir::combine(scan.reduction,
                                    scale.defined() ? ir::scaled(scan, before, scale) : before, e);
      return all_go_on.defined() ? Select::make(all_go_on, both, e) : both;
    };
    auto where_asked = [&](const Expr& e, const Expr& elsewhere) {
      Expr asked = iteration > 0;
      if (runs.defined()) asked = asked && runs;
      return name_it(ir::choose_lazily(asked, substitute(loop_.name, iteration, e), elsewhere));
    };
    if (scan.goes_on.defined()) goes_on = where_asked(scan.goes_on, const_true());
    if (scan.scale.defined()) scale = where_asked(scan.scale, ir::no_scale(scan, type));
    Expr sum = name_it(value);
    for (int distance = 1; distance < lanes_; distance *= 2) {
      const int by = down ? distance : -distance;
      sum = name_it(join(move_lanes(sum, identity(p), by, lane()), sum, goes_on, scale));
      if (goes_on.defined())
        goes_on = name_it(goes_on && move_lanes(goes_on, const_true(), by, lane()));
      if (scale.defined())
        scale = name_it(
            ir::join_scales(scan, scale, move_lanes(scale, ir::no_scale(scan, type), by, lane())));
    }
    const Expr carried = ir::make_load(type, carry(p), lane());
    Compute store = part;
    store.index = substitute(loop_.name, iteration, part.index);
    store.value = join(carried, sum, goes_on, scale);
    store.scan.reset();
    Nest result = nest::make(std::move(store));
    if (runs.defined()) result = nest::make(nest::Guard{runs, result, nullptr});
    auto of_last = [&](const Expr& e) {
      return e.defined() ? spread_lane(e, down ? 0 : lanes_ - 1, lane()) : e;
    };
    Nest body = nest::make_sequence(
        {result, store_carry(p, join(carried, of_last(sum), of_last(goes_on), of_last(scale)))});
    for (size_t s = steps.size(); s-- > 0;)
      body = nest::make(nest::Binding{steps[s].first, steps[s].second, body});
    return lane_loop(body);
  }

  const Loop& loop_;
  std::vector<Compute> parts_;
  int lanes_, number_;
};

/// Null where it is not scanned along.
Nest vectorize_loop(const Loop& loop, int vector_bits, int& number) {
  auto scans = [&](const Compute& compute) { return scans_along(compute, loop.name); };
  if (!nest::any<Compute>(loop.body, scans)) return nullptr;
  auto parts = nest::computes_of(loop.body);
  const bool plain = parts && std::all_of(parts->begin(), parts->end(), [&](const Compute& part) {
                       return !scans(part) || is_whole(part, loop.name);
                     });
  int lanes = std::clamp(vector_bits / std::max(8, nest::widest_element(loop.body)), 1,
                         machine::kMostLanes);
  auto extent = as_const_int(loop.extent);
  while (extent && *extent <= lanes / 2) lanes /= 2;
  if (!plain || lanes == 1) return nest::make_serial(loop);
  return Vectors(loop, std::move(*parts), lanes, number++).nest();
}

Nest vectorize(const Nest& nest, int vector_bits, int& number) {
  const auto* loop = as<Loop>(nest);
  if (loop && loop->role == Role::Vector) {
    Nest changed = vectorize_loop(*loop, vector_bits, number);
    return changed ? changed : nest;
  }
  return nest::map_children(
      nest, [&](const Nest& child) { return vectorize(child, vector_bits, number); });
}

}  // namespace

Stmt shuffle_lanes(const Stmt& stmt) {
  return ir::mutate(stmt, [](const Call* op, ir::Mutator& self) {
    const bool moves = op->name == kMoveLanes;
    if (!moves && op->name != kSpreadLane) return self.inside(op);
    const int lanes = op->type.lanes();
    Expr value = vector(self.mutate(op->args[0]), lanes);
    const int by = static_cast<int>(*as_const_int(op->args[op->args.size() - 2]));
    if (!moves) return Shuffle::make({value}, std::vector<int>(lanes, by));
    // A slice of both, one behind the other. As any other shuffle, half of its four lanes could
    // be taken for a slice that runs backwards, which Halide 21 loses.
    Expr neutral = vector(self.mutate(op->args[1]), lanes);
    if (by < 0)
      return Shuffle::make_slice(Shuffle::make_concat({neutral, value}), lanes + by, 1, lanes);
    return Shuffle::make_slice(Shuffle::make_concat({value, neutral}), by, 1, lanes);
  });
}

Nest vectorize_scans(const Nest& nest, int vector_bits) {
  int number = 0;
  return vectorize(nest, vector_bits, number);
}

}  // namespace tc::codegen
