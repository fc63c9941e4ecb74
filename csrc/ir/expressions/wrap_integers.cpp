#include "ir/expressions/wrap_integers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/wide_integers.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

/// Room for sums and products of two numbers of 64 bits.
using Wide = __int128;

constexpr Wide kMost = Wide{1} << 125;

Wide limited(Wide value) { return std::clamp(value, -kMost, kMost); }

Wide times(Wide a, Wide b) {
  Wide result;
  if (__builtin_mul_overflow(a, b, &result)) return (a < 0) == (b < 0) ? kMost : -kMost;
  return limited(result);
}

Wide magnitude_of(Wide value) { return value < 0 ? -value : value; }

struct Range {
  Wide low = 0, high = 0;
};

Range all_of(const Type& type) {
  if (type.is_uint() && !type.is_bool()) return {0, (Wide{1} << type.bits()) - 1};
  if (type.is_int()) return {-(Wide{1} << (type.bits() - 1)), (Wide{1} << (type.bits() - 1)) - 1};
  return {0, 1};  // a truth; of other types nobody asks
}

bool holds(const Type& type, const Range& range) {
  Range all = all_of(type);
  return all.low <= range.low && range.high <= all.high;
}

/// Whether numbers of this range wrap around once at most when they are cut to the type's bits.
bool wraps_once(const Type& type, const Range& range) {
  const Wide turn = Wide{1} << type.bits();
  return -turn < range.low && range.high < turn;
}

/// Types whose overflow Halide takes for impossible.
bool is_strict(const Type& type) { return type.is_int() && type.bits() >= 32; }

/// What is known of a number.
struct Facts {
  Range range;
  /// Bounds the constants and factors that simplifying may put together: a sum of magnitudes over a
  /// product of divisors, since it makes one fraction of two: a / 3 + 5 becomes (a + 15) / 3.
  Wide magnitude = 1, divisors = 1;
  /// It depends on what tensors hold. Arithmetic on that is without signs already
  /// (lang/lowering/lowering), but where it cannot overflow.
  bool data = false;
  /// Nothing in it can be moved to the other side of a comparison.
  bool whole = true;
  /// It is a number other than 0, or simplifying may find a sum with one in it. Of such a sum's
  /// remainder Halide adds the divisor to the number until it is not negative.
  bool shifted = false;
};

/// What is known of no more than its type.
Facts of_type(const Type& type, bool data) {
  Facts facts;
  facts.range = all_of(type);
  facts.magnitude = data ? 1 : facts.range.high;
  facts.data = data;
  return facts;
}

Facts of_both(const Facts& a, const Facts& b) {
  Facts facts;
  facts.magnitude = limited(times(a.magnitude, b.divisors) + times(b.magnitude, a.divisors));
  facts.divisors = times(a.divisors, b.divisors);
  facts.data = a.data || b.data;
  facts.whole = false;
  facts.shifted = a.shifted || b.shifted;
  return facts;
}

Facts of_choice(const Facts& condition, const Facts& yes, const Facts& no) {
  Facts facts = of_both(yes, no);
  facts.data = facts.data || condition.data;
  facts.range = condition.range.low == 1    ? yes.range
                : condition.range.high == 0 ? no.range
                                            : Range{std::min(yes.range.low, no.range.low),
                                                    std::max(yes.range.high, no.range.high)};
  return facts;
}

Range quotient(const Range& a, const Range& b) {
  Wide most = std::max({a.high, -a.low, Wide{0}});
  if (b.low <= 0) return {-most, most};
  auto down = [](Wide x, Wide y) { return x / y - (x % y != 0 && x < 0); };
  return {std::min(down(a.low, b.low), down(a.low, b.high)),
          std::max(down(a.high, b.low), down(a.high, b.high))};
}

Facts of_division(const Facts& a, const Facts& b, bool remainder) {
  Facts facts = of_both(a, b);
  if (!remainder) {
    facts.magnitude = a.magnitude;
    facts.divisors = times(facts.divisors, std::max<Wide>(b.magnitude, 1));
  }
  Wide most = std::max({b.range.high, -b.range.low, Wide{1}}) - 1;
  facts.range = !remainder         ? quotient(a.range, b.range)
                : a.range.low >= 0 ? Range{0, std::min(a.range.high, most)}
                                   : Range{0, most};
  return facts;
}

/// The number, without its sign: its arithmetic wraps around.
Expr bits_of(const Expr& e) { return Halide::cast(e.type().with_code(Type::UInt), e); }

/// Half of all numbers without signs, by which signed ones are in the same order as their bits.
Expr half_of(const Type& type) {
  return make_const(type.with_code(Type::UInt), uint64_t{1} << (type.bits() - 1));
}
Expr ordered_bits(const Expr& e) { return bits_of(e) + half_of(e.type()); }

/// a < b, of signed numbers of any distance.
Expr far_less(const Expr& a, const Expr& b) { return ordered_bits(a) < ordered_bits(b); }

/// a == b of the same.
Expr far_equal(const Expr& a, const Expr& b) { return bits_of(a) == bits_of(b); }

class Arithmetic : public IRMutator {
 public:
  enum class Mode {
    Wrap,    ///< change what may overflow
    Measure  ///< see whether anything may
  };
  /// `is_measured`: subscripts inside are as exact_subscript makes them already.
  Arithmetic(Mode mode, const Program& program, const Statement& statement,
             bool is_measured = false)
      : mode_(mode), is_measured_(is_measured), program_(program), statement_(statement) {
    for (const Iterator& it : statement.domain) {
      Wide low = *as_const_int(it.min), extent = *as_const_int(it.extent);
      indices_[it.name] = {low, low + std::max<Wide>(extent, 1) - 1};
    }
  }

  /// What there may be no room for. Of Mode::Measure.
  struct Leaves {
    bool its_type = false;        ///< for numbers, or constants, in their own type
    bool wide = false;            ///< for numbers, or for constants beside data, in 64 bits
    bool wide_constants = false;  ///< for constants in 64 bits, which can be hidden
  } leaves;
  const Facts& facts() const { return facts_; }  ///< of what was looked at last

  Expr mutate(const Expr& e) override {
    known_ = false;
    Expr result = IRMutator::mutate(e);
    if (!known_) facts_ = of_type(e.type(), /*data=*/true);
    known_ = false;
    return result;
  }

 private:
  using IRMutator::visit;

  Expr mutate(const Expr& e, Facts* facts) {
    Expr result = mutate(e);
    *facts = facts_;
    return result;
  }
  Expr know(const Expr& result, const Facts& facts) {
    facts_ = facts;
    known_ = true;
    return result;
  }
  template <class Node>
  static Expr again(const Node* op, const Expr& a, const Expr& b) {
    return a.same_as(op->a) && b.same_as(op->b) ? Expr(op) : Node::make(a, b);
  }

  /// Whether the numbers, or the constants that simplifying makes of them, may leave their type.
  bool is_far(const Type& type, const Facts& facts, const Range& exact) {
    if (!is_strict(type)) return false;
    auto numbers_leave = [&](const Type& limit) { return !facts.data && !holds(limit, exact); };
    auto constants_leave = [&](const Type& limit) { return facts.magnitude > all_of(limit).high; };
    const bool far = constants_leave(type) || numbers_leave(type);
    leaves.its_type = leaves.its_type || far;
    const bool constants = constants_leave(Halide::Int(64));
    leaves.wide = leaves.wide || numbers_leave(Halide::Int(64)) || (facts.data && constants);
    leaves.wide_constants = leaves.wide_constants || constants;
    return far && mode_ == Mode::Wrap;
  }

  static bool is_number(const Facts& facts) { return facts.range.low == facts.range.high; }
  static bool is_negative(const Facts& facts) { return is_number(facts) && facts.range.low < 0; }

  /// Data in 32 bits that is used otherwise than in sums and products, which are right modulo 2^32:
  /// there the numbers themselves count.
  void note_exact_use(const Type& type, const Facts& facts) {
    if (facts.data && type == Halide::Int(32) && !wraps_once(type, facts.range))
      leaves.its_type = true;
  }

  /// Whether what is moved from one side of a comparison to the other may overflow there: i + 5 < x
  /// becomes i < x - 5. Of numbers that do not depend on data, which may turn out to be constants,
  /// Halide subtracts one from the other.
  bool is_apart(const Type& type, const Facts& a, const Facts& b) {
    const bool data = a.data || b.data;
    if (a.whole && b.whole && data) return false;
    auto reaching = [&](Facts facts) {
      Wide most = std::max(facts.range.high, -facts.range.low);
      if (facts.data) most = std::min(most, all_of(type).high + 1);
      facts.magnitude = std::max(facts.magnitude, most);
      return facts;
    };
    Facts both = of_both(reaching(a), reaching(b));
    // What 64 bits of data say no wider type holds, in subscripts neither: as in values, Halide
    // does not look through it.
    if (data && type == Halide::Int(64)) return both.magnitude > all_of(type).high;
    return is_far(type, both, {0, 0});
  }

  Expr visit(const IntImm* op) override { return constant(op, op->value); }
  Expr visit(const UIntImm* op) override { return constant(op, op->value); }
  template <class Node>
  Expr constant(const Node* op, Wide value) {
    Facts facts;
    facts.range = {value, value};
    facts.magnitude = magnitude_of(value);
    facts.shifted = value != 0;
    return know(op, facts);
  }

  Expr visit(const Variable* op) override {
    Facts facts;
    auto found = indices_.find(op->name);
    facts.range = found == indices_.end() ? all_of(op->type) : found->second;
    facts.magnitude = std::max({Wide{1}, -facts.range.low, facts.range.high});
    facts.whole = facts.range.low == 0;  // else it will be a sum (rewrite/canonical/start_at_zero)
    facts.shifted = !facts.whole;
    return know(op, facts);
  }

  Expr visit(const Cast* op) override {
    Facts of_value;
    Expr value = mutate(op->value, &of_value);
    const bool exact = !op->value.type().is_float() && holds(op->type, of_value.range);
    Facts facts =
        exact ? of_value : of_type(op->type, of_value.data || op->value.type().is_float());
    // A subscript is computed in 64 bits as a whole, without casts from and to 32 bits.
    if (mode_ == Mode::Measure && is_strict(op->type) && is_strict(op->value.type())) {
      is_far(op->type, of_value, of_value.range);
      facts = of_value;
    }
    return know(value.same_as(op->value) ? Expr(op) : Cast::make(op->type, value), facts);
  }

  template <class Node>
  Expr arithmetic(const Node* op, const Expr& a, const Expr& b, Facts facts, const Range& exact) {
    const bool wraps = is_far(op->type, facts, exact);
    const bool exactly = holds(op->type, exact) || (mode_ == Mode::Measure && is_strict(op->type));
    facts.range = exactly ? exact : all_of(op->type);
    if (!wraps) return know(again(op, a, b), facts);
    return know(Halide::cast(op->type, Node::make(bits_of(a), bits_of(b))),
                of_type(op->type, facts.data));
  }
  template <class Node>
  Expr sum(const Node* op, bool subtracts) {
    const Wide modulus = std::exchange(modulus_, 0);
    Facts x, y;
    Expr a = mutate(op->a, &x), b = mutate(op->b, &y);
    Facts facts = of_both(x, y);
    if (facts.shifted) facts.magnitude = limited(facts.magnitude + modulus);
    const Range added = subtracts ? Range{-y.range.high, -y.range.low} : y.range;
    return arithmetic(op, a, b, facts,
                      {limited(x.range.low + added.low), limited(x.range.high + added.high)});
  }
  Expr visit(const Add* op) override { return sum(op, false); }
  Expr visit(const Sub* op) override { return sum(op, true); }
  Expr visit(const Mul* op) override {
    const Wide modulus = std::exchange(modulus_, 0);
    Facts x, y;
    Expr a = mutate(op->a, &x), b = mutate(op->b, &y);
    Facts facts = of_both(x, y);
    facts.magnitude = times(std::max<Wide>(x.magnitude, 1), std::max<Wide>(y.magnitude, 1));
    if (facts.shifted) facts.magnitude = limited(facts.magnitude + modulus);
    if (is_negative(x)) facts.magnitude = std::max(facts.magnitude, times(y.magnitude, modulus));
    if (is_negative(y)) facts.magnitude = std::max(facts.magnitude, times(x.magnitude, modulus));
    auto [low, high] =
        std::minmax({times(x.range.low, y.range.low), times(x.range.low, y.range.high),
                     times(x.range.high, y.range.low), times(x.range.high, y.range.high)});
    return arithmetic(op, a, b, facts, {low, high});
  }

  /// A dividend of the same remainder, in which no number can be found that the divisor is added to
  /// where that may overflow. Sums and products have seen to it.
  Expr apart_from_divisor(const Type& type, const Expr& dividend, const Facts& facts,
                          Wide divisor) {
    Facts moved = facts;
    moved.magnitude = limited(facts.magnitude + divisor);
    if (!facts.shifted || facts.data || !is_far(type, moved, facts.range)) return dividend;
    const Type bits = type.with_code(Type::UInt);
    const Expr added = Halide::select(dividend < make_zero(type),
                                      make_const(bits, uint64_t(divisor)), make_zero(bits));
    return Halide::cast(type, bits_of(dividend) + added);
  }

  /// The smallest number by -1 would end the process on some processors.
  template <class Node>
  Expr division(const Node* op, bool remainder) {
    Facts x, y;
    // Halide makes (x * (m - 2)) % m of (x * -2) % m.
    Expr b = mutate(op->b, &y);
    modulus_ = remainder && is_number(y) ? magnitude_of(y.range.low) : 0;
    Expr a = mutate(op->a, &x);
    modulus_ = 0;
    const Type type = op->type;
    note_exact_use(type, x);
    note_exact_use(type, y);
    if (remainder && is_number(y)) a = apart_from_divisor(type, a, x, magnitude_of(y.range.low));
    Facts facts = of_division(x, y, remainder);
    const bool traps = is_strict(type) && !facts.data && x.range.low <= all_of(type).low &&
                       y.range.low <= -1 && y.range.high >= -1;
    if (!traps || !is_far(type, facts, {all_of(type).low, all_of(type).high + 1}))
      return know(again(op, a, b), facts);
    Expr negative = bits_of(b) == bits_of(make_const(type, -1));
    Expr divided = Node::make(a, Halide::select(negative, make_one(type), b));
    facts.range = all_of(type);
    return know(
        Halide::select(negative, remainder ? make_zero(type) : wrapping_negative(a), divided),
        facts);
  }
  Expr visit(const Div* op) override { return division(op, false); }
  Expr visit(const Mod* op) override { return division(op, true); }

  template <class Node>
  Expr extreme(const Node* op, bool least) {
    Facts x, y;
    Expr a = mutate(op->a, &x), b = mutate(op->b, &y);
    Facts facts = of_both(x, y);
    auto pick = [&](Wide p, Wide q) { return least ? std::min(p, q) : std::max(p, q); };
    facts.range = {pick(x.range.low, y.range.low), pick(x.range.high, y.range.high)};
    facts.whole = x.whole && y.whole;
    if (!is_apart(op->type, x, y)) return know(again(op, a, b), facts);
    // Each operand once: in a chain of choices there would be twice as many at every step.
    const Expr found = least ? Halide::min(ordered_bits(a), ordered_bits(b))
                             : Halide::max(ordered_bits(a), ordered_bits(b));
    return know(Halide::cast(op->type, found - half_of(op->type)), facts);
  }
  Expr visit(const Min* op) override { return extreme(op, true); }
  Expr visit(const Max* op) override { return extreme(op, false); }
  Expr visit(const And* op) override { return extreme(op, true); }
  Expr visit(const Or* op) override { return extreme(op, false); }

  /// `truth` is what comparing the ranges says: from 0, never, to 1, always. Of `turned` operands,
  /// or the opposite of that.
  template <class Node, class Truth, class Far>
  Expr comparison(const Node* op, Truth truth, Far far, bool turned = false,
                  bool opposite = false) {
    Facts x, y;
    Expr a = mutate(op->a, &x), b = mutate(op->b, &y);
    Facts facts;
    facts.data = x.data || y.data || op->a.type().is_float();
    facts.range = turned ? truth(y.range, x.range) : truth(x.range, y.range);
    if (opposite) facts.range = {1 - facts.range.high, 1 - facts.range.low};
    if (op->a.type().is_float()) facts.range = {0, 1};
    const Leaves before = leaves;
    const bool apart = is_apart(op->a.type(), x, y);
    // What decides it anyway is no reason to compute in more bits, as of quotients of quotients.
    if (is_number(facts) && !facts.data &&
        (apart || leaves.its_type != before.its_type ||
         leaves.wide_constants != before.wide_constants)) {
      leaves = before;
      return know(facts.range.low == 1 ? const_true() : const_false(), facts);
    }
    if (!apart) return know(again(op, a, b), facts);
    const Expr holds = turned ? far(b, a) : far(a, b);
    return know(opposite ? !holds : holds, facts);
  }
  static Range less(const Range& a, const Range& b) { return {a.high < b.low, a.low < b.high}; }
  static Range equal(const Range& a, const Range& b) {
    return {a.low == a.high && b.low == b.high && a.low == b.low,
            a.low <= b.high && b.low <= a.high};
  }
  Expr visit(const LT* op) override { return comparison(op, less, far_less); }
  Expr visit(const GT* op) override { return comparison(op, less, far_less, /*turned=*/true); }
  Expr visit(const LE* op) override { return comparison(op, less, far_less, true, true); }
  Expr visit(const GE* op) override { return comparison(op, less, far_less, false, true); }
  Expr visit(const EQ* op) override { return comparison(op, equal, far_equal); }
  Expr visit(const NE* op) override { return comparison(op, equal, far_equal, false, true); }

  Expr visit(const Not* op) override {
    Facts facts;
    Expr a = mutate(op->a, &facts);
    facts.range = {1 - facts.range.high, 1 - facts.range.low};
    return know(a.same_as(op->a) ? Expr(op) : Not::make(a), facts);
  }

  /// Halide makes (c ? i : b - a) + a of c ? i + a : b, and multiplies neither by divisors.
  template <class Make>
  Expr choose(const Expr& choice, Make make) {
    const auto [condition, yes, no] = *find_choice(choice);
    Facts of_condition, x, y;
    const Expr decides = mutate(condition, &of_condition);
    if (is_const(decides) && !is_const(condition)) {
      Facts decided;
      const Expr chosen = mutate(is_const_one(decides) ? yes : no, &decided);
      return know(chosen, decided);
    }
    const Expr a = mutate(yes, &x), b = mutate(no, &y);
    const Facts facts = of_choice(of_condition, x, y);
    x.divisors = y.divisors = 1;
    if (!is_apart(choice.type(), x, y)) return know(make(decides, a, b), facts);
    return know(Halide::cast(choice.type(), make(decides, bits_of(a), bits_of(b))), facts);
  }
  Expr visit(const Select* op) override { return choose(op, Select::make); }

  Expr visit(const Call* op) override {
    if (!read_name(op).empty()) {
      if (is_measured_) return know(op, of_type(op->type, /*data=*/true));
      const auto exact = [&](const Expr& e) { return exact_subscript(e, program_, statement_); };
      return know(map_arguments(op, op->type, exact), of_type(op->type, /*data=*/true));
    }
    if (find_choice(op)) return choose(op, choose_lazily);
    return IRMutator::visit(op);
  }

  const Mode mode_;
  const bool is_measured_;
  const Program& program_;
  const Statement& statement_;
  std::map<std::string, Range> indices_;
  Facts facts_;       ///< of what was looked at last
  Wide modulus_ = 0;  ///< of a remainder of what is looked at next
  bool known_ = false;
};

}  // namespace

Expr wrap_around(const Expr& value, const Program& program, const Statement& statement) {
  return Arithmetic(Arithmetic::Mode::Wrap, program, statement).mutate(value);
}

Expr exact_subscript(const Expr& subscript, const Program& program, const Statement& statement) {
  Arithmetic measure(Arithmetic::Mode::Measure, program, statement);
  Expr measured = measure.mutate(subscript);
  if (!measure.leaves.its_type) return measured;
  if (measure.leaves.wide)
    throw ShapeError(
        concat(program.name, ": the subscript ",
               plain_text(narrow(simplify(widen(subscript))).value_or(subscript)),
               " takes values that 64 bits do not hold, or comes close to it, for these "
               "inputs; subscripts do not wrap around",
               statement.where.valid() ? concat(" (line ", statement.where.line(), ")") : ""));
  Expr wide = widen(measured);
  if (measure.leaves.wide_constants)
    wide =
        Arithmetic(Arithmetic::Mode::Wrap, program, statement, /*is_measured=*/true).mutate(wide);
  return Halide::cast(Halide::Int(32), wide);
}

bool may_wrap_inside(const Expr& index, int64_t size, const Program& program,
                     const Statement& statement) {
  if (!is_strict(index.type())) return false;
  Arithmetic measure(Arithmetic::Mode::Measure, program, statement, /*is_measured=*/true);
  measure.mutate(index);
  const Facts& facts = measure.facts();
  const Wide turn = Wide{1} << index.type().bits();
  return facts.data && (facts.range.high >= turn || facts.range.low < size - turn);
}

}  // namespace tc::ir
