#include "lang/gradient/sums/zero_sums.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "lang/gradient/sums/prime_field.h"
#include "lang/gradient/sums/trial_values.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;
using namespace field;

namespace {

using Coordinates = std::vector<int64_t>;
using Indices = std::map<std::string, int64_t>;

/// What conditions of data count as.
struct Assumption {
  enum Kind {
    Numbers,  ///< each as any number of the field in the place of 0 and 1
    Apart,    ///< the same, but below its branches each as what it is there, which this is not
    Holds,    ///< below the first branch of the condition that is `truth`
    Fails,    ///< below the second
  } kind = Numbers;
  uint64_t truth = 0;

  bool operator<(const Assumption& other) const {
    return std::tie(kind, truth) < std::tie(other.kind, other.truth);
  }
};

// Points that are evaluated for one definition in one trial, and tensors on the way to an element:
// they bound the time that a derivative takes to be written, of which no model knows.
constexpr int64_t kMostPoints = 20000;
constexpr int kMostDepth = 200;
// Places that are looked at first; trials, on which the chance of a mistake depends; and sizes of a
// definition that trials can tell apart.
constexpr int kSamples = 6;
constexpr int kTrials = 3;
/// Trials where data leads to elements that are computed: two of at least two are the same one in
/// half of all trials, and in all of these with a chance below 2^-40.
constexpr int kFollowing = 42;
constexpr size_t kMostSizes = 9;

}  // namespace

/// Sizes, random inputs, and what was computed of them.
class ZeroSums::Trial {
 public:
  /// Throws where the definition makes no sense for these sizes, as a window is no larger than its
  /// image.
  Trial(const Versions& versions, const ir::Program& signature,
        const std::vector<GradientStatement>& statements, uint64_t number)
      : versions_(versions), signature_(signature), statements_(statements), seed_(mix(number)) {
    // Two sizes differ in the first trial or, up to nine, in the second, and each of them differs
    // in the first and the third: no element is another because two sizes are equal, or one of
    // them is what a literal says. As parts of values sizes are random numbers.
    for (size_t i = 0; i < signature.sizes.size(); ++i) {
      const size_t digits[kTrials] = {i % 3, i / 3 % 3, (i + 1) % 3 + 1};
      sizes_[signature.sizes[i]] = Expr(3 + static_cast<int>(digits[number % kTrials]));
    }
    for (const Step& step : versions.steps) {
      for (const auto& [index, range] : step.ranges) count(range);
      for (const Range& range : step.shape) count(range);
    }
  }

  /// Whether the last statement, or all with its target, add up to zero; false if not known.
  /// Conditions of data are any numbers at first. Where that is not enough, since c * c is c only
  /// of 0 and 1, each of them is what it is below its branches.
  bool is_zero(const std::vector<GradientStatement>& more, bool together) {
    more_ = &more;
    pending_.clear();
    return is_zero_for(Assumption::Numbers, together) ||
           (chooses_ && is_zero_for(Assumption::Apart, together));
  }

  /// Whether data has led to an element that is computed, of which sizes here have few: two that
  /// differ are one in some trials.
  bool follows() const { return follows_; }

 private:
  bool is_zero_for(Assumption::Kind kind, bool together) {
    assumed_ = {kind};
    depth_ = 0;
    derives_ = false;
    points_ = &all_points_[kind];
    const GradientStatement& last = more_->back();
    try {
      IndexRanges places;
      for (const ExpressionPtr& place : last.places)
        places.push_back(*find_range(last.ranges, *place));
      auto is_zero_at = [&](const Coordinates& at) {
        std::optional<Value> sum;
        if (together)
          sum = element(last.target, at);
        else
          add(last, at, true, sum);
        return sum && sum->element == 0;
      };
      for (int sample = 0; sample < kSamples; ++sample)
        if (!is_zero_at(sampled(places, sample))) return false;
      // Without conditions on indices all places are alike.
      bool zero = true;
      Indices indices;
      if (decides_)
        for_each(places, indices, [&] {
          Coordinates at;
          for (const auto& place : places) at.push_back(indices.at(place.first));
          return zero = is_zero_at(at);
        });
      // What no place here decides otherwise may be decided otherwise where there are more.
      return zero && std::all_of(outcomes_.begin(), outcomes_.end(),
                                 [](const auto& each) { return each.second == 3; });
    } catch (const Unknown&) {
      return false;
    }
  }

  int64_t bound(const Expr& e) const {
    auto value = as_const_int(simplify(substitute(sizes_, e)));
    if (!value) throw Unknown();
    return *value;
  }

  /// How many values an index has. What is zero for one term alone need not be for more, and what
  /// has no place here may have one.
  int64_t count(const Range& range) const {
    const int64_t extent = bound(range.last) - bound(range.first) + 1;
    bool is_fixed = is_const(range.first) && is_const(range.last);
    if (extent < (is_fixed ? 1 : 2)) throw Unknown();
    return extent;
  }

  /// What a size counts as where it is part of a value.
  uint64_t size_in_field(const std::string& name) const {
    return mix(mix(seed_, "size"), name) % kPrime;
  }

  /// The same of a polynomial of sizes; nothing for others.
  std::optional<uint64_t> in_field(const Expr& e) const {
    if (const auto number = as_const_int(e)) return of_integer(*number);
    if (const auto* variable = e.as<Variable>())
      return sizes_.count(variable->name) ? std::optional(size_in_field(variable->name))
                                          : std::nullopt;
    const auto of_both = [&](const auto& op, const auto& combine) -> std::optional<uint64_t> {
      const auto a = in_field(op.a), b = in_field(op.b);
      if (!a || !b) return std::nullopt;
      return combine(*a, *b) % kPrime;
    };
    if (const auto* add = e.as<Add>())
      return of_both(*add, [](uint64_t a, uint64_t b) { return a + b; });
    if (const auto* subtract = e.as<Sub>())
      return of_both(*subtract, [](uint64_t a, uint64_t b) { return a + (kPrime - b); });
    if (const auto* product = e.as<Mul>()) return of_both(*product, multiply);
    return std::nullopt;
  }

  /// How often each value of an index counts in a sum. A few values stand for the many that a
  /// larger size has, and as random numbers that add up to the size in the field, so that
  /// the sum of a size's ones is that size. A number of values counts as it is.
  const std::vector<uint64_t>& weights(const Range& range) {
    auto& known = weights_[{range.first.get(), range.last.get()}];
    if (!known.weights.empty()) return known.weights;
    known.range = range;
    const Range simple{simplify(range.first), simplify(range.last)};
    const Expr extent = simplify(simple.last - simple.first + 1);
    known.weights.assign(static_cast<size_t>(count(range)), 1);
    if (is_const(extent)) return known.weights;
    const uint64_t seed =
        mix(mix(seed_, ir::plain_text(simple.first)), ir::plain_text(simple.last));
    uint64_t sum = 0;
    for (size_t i = 0; i < known.weights.size(); ++i) {
      known.weights[i] = mix(seed, i) % kPrime;
      sum = (sum + known.weights[i]) % kPrime;
    }
    uint64_t& last = known.weights.back();
    if (const auto wanted = in_field(extent)) last = (last + *wanted + (kPrime - sum)) % kPrime;
    return known.weights;
  }

  /// The product of an index's weights at a point.
  uint64_t weight_at(const IndexRanges& ranges, const Indices& indices) {
    uint64_t product = 1;
    for (const auto& [name, range] : ranges)
      product = multiply(product, weights(range).at(indices.at(name) - bound(range.first)));
    return product;
  }

  /// The range of the index that a place is.
  static IndexRanges::const_iterator find_range(const IndexRanges& ranges,
                                                const Expression& place) {
    const auto found = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const auto& each) { return each.first == place.name; });
    if (place.kind != ExpressionKind::Name || found == ranges.end()) throw Unknown();
    return found;
  }

  /// The first place, the last one, and others.
  Coordinates sampled(const IndexRanges& places, int sample) const {
    Coordinates at;
    for (const auto& [name, range] : places) {
      const int64_t first = bound(range.first), last = first + count(range) - 1;
      const uint64_t random = mix(mix(seed_, static_cast<uint64_t>(sample)), name) %
                              static_cast<uint64_t>(last - first + 1);
      at.push_back(sample == 0 ? first : sample == 1 ? last : first + static_cast<int64_t>(random));
    }
    return at;
  }

  /// Calls `visit` at every point of some ranges until it says false.
  template <typename Visit>
  bool for_each(const IndexRanges& ranges, Indices& indices, const Visit& visit, size_t from = 0) {
    if (from == ranges.size()) {
      if (++*points_ > kMostPoints) throw Unknown();
      return visit();
    }
    const auto& [name, range] = ranges[from];
    const int64_t first = bound(range.first), last = first + count(range) - 1;
    bool goes_on = true;
    for (int64_t i = first; i <= last && goes_on; ++i) {
      indices[name] = i;
      goes_on = for_each(ranges, indices, visit, from + 1);
    }
    indices.erase(name);
    return goes_on;
  }

  // ---- tensors

  static bool writes(const std::vector<GradientStatement>& statements, const std::string& name) {
    return std::any_of(statements.begin(), statements.end(),
                       [&](const GradientStatement& s) { return s.target == name; });
  }

  Value element(const std::string& name, const Coordinates& at) {
    const Step* step = versions_.find(name);
    const bool is_pending = !step && writes(*more_, name);
    if (is_input(name)) return input(name, at);
    auto& known = (is_pending ? pending_ : known_)[assumed_][name];
    if (auto found = known.find(at); found != known.end()) return found->second;
    if (++depth_ > kMostDepth) throw Unknown();
    const bool outer = std::exchange(derives_, false);
    std::optional<Value> value;
    if (step) {
      value = of_step(*step, at);
    } else {
      for (const GradientStatement& statement : is_pending ? *more_ : statements_)
        if (statement.target == name) add(statement, at, statement.initializes, value);
    }
    --depth_;
    derives_ = outer;
    if (!value) throw Unknown();
    return known[at] = *value;
  }

  std::optional<Value> of_step(const Step& step, const Coordinates& at) {
    if (step.scatters()) throw Unknown();
    GradientStatement statement{step.target, step.places, step.reduction, true, step.value, {}};
    statement.ranges = ranges_of(step.indices(), step.ranges);
    std::optional<Value> value;
    if (!step.covers || !step.initializes) {
      if (step.previous.substr(step.previous.find('#')) == "#0") throw Unknown();
      value = element(step.previous, at);
    }
    add(statement, at, step.initializes, value, step.type);
    return value;
  }

  /// What a statement makes of one element; it is left alone outside of the statement's ranges.
  void add(const GradientStatement& statement, const Coordinates& at, bool initializes,
           std::optional<Value>& value, const Type& type = {}) {
    Indices indices;
    IndexRanges rest = statement.ranges;
    for (const auto& each : rest) count(each.second);
    kept_.insert(statement.value);
    for (size_t d = 0; d < at.size(); ++d) {
      const auto range = find_range(rest, *statement.places[d]);
      if (at[d] < bound(range->second.first) || at[d] > bound(range->second.last)) {
        decides_ = true;
        return;
      }
      indices[range->first] = at[d];
      rest.erase(range);
    }
    if (initializes) value.reset();
    for_each(rest, indices, [&] {
      const Value term = evaluate(*statement.value, indices, type);
      switch (statement.reduction) {
        case ir::Reduction::None: value = term; break;
        case ir::Reduction::Sum: {
          const uint64_t weight = weight_at(rest, indices);
          const Value counted = weight == 1 ? term : element_value(multiply(term.element, weight));
          value = value ? element_value(value->element + counted.element) : counted;
          break;
        }
        case ir::Reduction::Product:
          value = value ? element_value(multiply(value->element, term.element)) : term;
          break;
        default:
          value =
              opaque_value(mix(seed_, 1000 + static_cast<uint64_t>(statement.reduction)),
                           {value.value_or(Value{}), term},
                           ir::is_position(statement.reduction) ? Value::Place : Value::Element);
      }
      return true;
    });
  }

  bool is_input(const std::string& name) const {
    return !versions_.find(name) && !writes(*more_, name) && !writes(statements_, name);
  }

  /// Of which the caller gives elements, and says how many there are.
  const ir::Tensor* declared(const std::string& name) const {
    const auto known = signature_.tensors.find(name.substr(0, name.find('#')));
    return known == signature_.tensors.end() ? nullptr : &known->second;
  }

  /// A random number for every element, or place.
  Value input(const std::string& name, const Coordinates& at) const {
    uint64_t seed = mix(seed_, name);
    for (size_t d = 0; d < at.size(); ++d) {
      if (!is_inside(name, d, at[d])) throw Unknown();
      seed = mix(seed, static_cast<uint64_t>(at[d]));
    }
    return random(name, seed);
  }

  /// The same where it is read. A place that is not known here, or that sizes here do not have, is
  /// what its subscript is made of: elsewhere that may be another's place, but none that differs
  /// from it.
  Value read_input(const Expression& e, const Indices& indices) {
    const bool outer = std::exchange(derives_, true);
    uint64_t seed = mix(seed_, e.name);
    for (size_t d = 0; d < e.operands.size(); ++d) {
      const Value at = evaluate(*e.operands[d], indices);
      if (at.kind == Value::Element) throw Unknown();
      // Polynomials of sizes that differ may agree in all trials.
      const bool is_known = at.kind == Value::Integer && at.degree <= 1;
      seed = is_known && is_inside(e.name, d, at.integer)
                 ? mix(seed, static_cast<uint64_t>(at.integer))
                 : mix(mix(seed, "elsewhere"), at.element);
    }
    derives_ = outer;
    return random(e.name, seed);
  }

  bool is_inside(const std::string& name, size_t dimension, int64_t place) const {
    const ir::Tensor* info = declared(name);
    return !info || (place >= 0 && place < bound(info->sizes.at(dimension)));
  }

  Value random(const std::string& name, uint64_t seed) const {
    const ir::Tensor* info = declared(name);
    if (info && info->type.is_int_or_uint()) return {Value::Place, 0, seed % kPrime};
    return element_value(seed);
  }

  /// The coordinates of the dimension that data leads to.
  Range extent(const std::string& name, size_t dimension) const {
    if (const Step* step = versions_.find(name)) return step->shape.at(dimension);
    const ir::Tensor* info = declared(name);
    if (!info) throw Unknown();
    return {Expr(0), info->sizes.at(dimension) - 1};
  }

  // ---- expressions

  Value opaque(const std::string& what, const std::vector<Value>& operands,
               Value::Kind kind = Value::Element) const {
    return opaque_value(mix(seed_, what), operands, kind);
  }

  /// Of rounding, and of numbers that wrap around, nothing is known but that 0 stays 0. What
  /// derivatives are made of has no type, and is a float like the others.
  Value converted(const Value& value, const Type& from, const Type& to) const {
    expect_to_hold(value, to);
    if (from.bits() == 0 || to.bits() == 0 || from == to || value.kind == Value::Integer ||
        value.element == 0)
      return value;
    const bool wider = to.bits() > from.bits();
    const bool exact = from.is_float() ? to.is_float() && wider
                                       : value.kind == Value::Place && (to.is_float() || wider);
    if (exact) return value;
    return opaque(concat("cast ", to), {value}, value.kind);
  }

  Value evaluate(const Expression& e, const Indices& indices, const Type& type) {
    return converted(evaluate(e, indices), e.type, type);
  }

  Value evaluate(const Expression& e, const Indices& indices) {
    switch (e.kind) {
      case ExpressionKind::Number: return literal(e);
      case ExpressionKind::Name: return named(e, indices);
      case ExpressionKind::Apply: return applied(e, indices);
      case ExpressionKind::Cast: {
        const Value value = evaluate(*e.operands[0], indices, e.cast_type);
        expect_to_hold(value, e.cast_type);
        if (e.cast_type.is_float()) return element_value(value.element);
        if (e.cast_type.is_int_or_uint() && value.kind != Value::Element) return value;
        return opaque("cast " + e.name, {value});
      }
      case ExpressionKind::Unary: {
        const Value value = evaluate(*e.operands[0], indices);
        if (e.op == Operator::Not)
          return value.kind == Value::Integer
                     ? truth_value(!is_true(value), value.indexed)
                     : element_value(complement(truth(*e.operands[0], value)));
        Value negative = value.kind == Value::Integer ? value : Value();
        if (derives_ && value.kind != Value::Integer && value.kind != Value::Element)
          negative.kind = Value::Derived;
        negative.integer = -value.integer;
        negative.element = (kPrime - value.element) % kPrime;
        return negative;
      }
      case ExpressionKind::Binary: return combined(e, indices);
      case ExpressionKind::Ternary: {
        const Value condition = evaluate(*e.operands[0], indices);
        decides_ = decides_ || condition.kind == Value::Integer;
        if (condition.kind == Value::Integer)
          return evaluate(*e.operands[is_true(condition) ? 1 : 2], indices, e.type);
        return chosen(e, truth(*e.operands[0], condition), indices);
      }
      default: throw Unknown();
    }
  }

  /// A condition as a number: any one of the field in the place of 0 and 1, where data decides it.
  /// A polynomial that is zero for all numbers is zero for these.
  uint64_t truth(const Expression& e, const Value& value) {
    if (value.kind == Value::Derived) throw Unknown();
    if (value.kind == Value::Integer) {
      decides_ = true;
      return is_true(value) ? 1 : 0;
    }
    const bool is_operator = e.kind == ExpressionKind::Unary || e.kind == ExpressionKind::Binary;
    const bool joins = e.op == Operator::Not || e.op == Operator::And || e.op == Operator::Or;
    return is_comparison(e) || (is_operator && joins) ? value.element
                                                      : opaque("truth", {value}).element;
  }

  /// What data chooses by a condition that is `holds`.
  Value chosen(const Expression& e, uint64_t holds, const Indices& indices) {
    chooses_ = true;
    const uint64_t fails = complement(holds);
    const Assumption outer = assumed_;
    const auto branch = [&](Assumption::Kind kind) {
      if (outer.kind == Assumption::Apart) assumed_ = {kind, holds};
      const ExpressionPtr& value = e.operands[kind == Assumption::Holds ? 1 : 2];
      const Value result = evaluate(*value, indices, e.type);
      assumed_ = outer;
      return result;
    };
    if (outer.truth == holds) return branch(outer.kind);
    if (outer.truth == fails)
      return branch(outer.kind == Assumption::Holds ? Assumption::Fails : Assumption::Holds);
    const Value yes = branch(Assumption::Holds), no = branch(Assumption::Fails);
    if (yes.element == no.element) return yes;
    return element_value(multiply(holds, yes.element) + multiply(fails, no.element));
  }

  Value literal(const Expression& e) const {
    if (e.constant && !e.constant->is_float) return integer_value(e.constant->integer);
    auto value = of_decimal(e.name);
    return value ? element_value(*value) : opaque(e.name, {});
  }

  Value named(const Expression& e, const Indices& indices) {
    if (e.binding == Binding::Tensor) return element(e.name, {});
    auto index = indices.find(e.name);
    if (index != indices.end()) {
      const uint64_t element = mix(static_cast<uint64_t>(index->second)) % kPrime;
      return {Value::Integer, index->second, element, true, 0, 0};
    }
    auto size = sizes_.find(e.name);
    if (size != sizes_.end())
      return {Value::Integer, *as_const_int(size->second), size_in_field(e.name), false, 1, kFar};
    if (e.name == "true" || e.name == "false") return truth_value(e.name == "true", false);
    auto scalar = signature_.scalars.find(e.name);
    if (scalar == signature_.scalars.end()) throw Unknown();
    return opaque(e.name, {});
  }

  Value applied(const Expression& e, const Indices& indices) {
    if (e.binding == Binding::Tensor && is_input(e.name)) return read_input(e, indices);
    std::vector<Value> operands;
    for (const ExpressionPtr& operand : e.operands) operands.push_back(evaluate(*operand, indices));
    if (e.binding != Binding::Tensor) {
      const bool derives = derives_ && e.type.is_int_or_uint() &&
                           std::all_of(operands.begin(), operands.end(), is_whole);
      return opaque(e.name, operands, derives ? Value::Derived : Value::Element);
    }
    Coordinates at;
    for (size_t d = 0; d < operands.size(); ++d) {
      if (operands[d].kind == Value::Element || operands[d].kind == Value::Derived) throw Unknown();
      if (operands[d].kind == Value::Integer) {
        // Polynomials of sizes that differ may agree in all trials.
        if (operands[d].degree > 1) throw Unknown();
        at.push_back(operands[d].integer);
        continue;
      }
      follows_ = true;
      const Range range = extent(e.name, d);
      const int64_t first = bound(range.first), count = bound(range.last) - first + 1;
      if (count < 1) throw Unknown();
      at.push_back(first +
                   static_cast<int64_t>(operands[d].element % static_cast<uint64_t>(count)));
    }
    return element(e.name, at);
  }

  Value combined(const Expression& e, const Indices& indices) {
    // A comparison's own type is that of a truth.
    const Type type = is_comparison(e) ? Type() : e.type;
    const Value a = evaluate(*e.operands[0], indices, type);
    const bool joins = e.op == Operator::And || e.op == Operator::Or;
    if (joins && a.kind == Value::Integer && is_true(a) == (e.op == Operator::Or)) return a;
    const Value b = evaluate(*e.operands[1], indices, type);
    if (joins && a.kind == Value::Integer) return b;
    if (joins) {
      const uint64_t x = truth(*e.operands[0], a), y = truth(*e.operands[1], b);
      const uint64_t both = multiply(x, y);
      return element_value(e.op == Operator::And ? both : x + y + (kPrime - both));
    }
    if (a.kind == Value::Integer && b.kind == Value::Integer && !e.type.is_float()) {
      const bool indexed = a.indexed || b.indexed;
      if (!is_comparison(e)) {
        if (derives_ && rounds(e.op)) return derived_value(seed_, e.op, a, b);
        return of_integers(e.op, a, b, indexed);
      }
      // Sizes, and numbers that sizes here do not reach, decide otherwise elsewhere.
      if (a.reach > 1 || b.reach > 1) throw Unknown();
      const bool result = compare(e.op, a.integer, b.integer);
      outcomes_[&e] |= result ? 1 : 2;
      decides_ = decides_ || indexed;
      return truth_value(result, indexed);
    }
    if (is_comparison(e) && (a.kind == Value::Derived || b.kind == Value::Derived)) throw Unknown();
    if (derives_ && is_whole(a) && is_whole(b) && !is_comparison(e) && !e.type.is_float())
      return derived_value(seed_, e.op, a, b);
    const uint64_t x = a.element, y = b.element;
    switch (e.op) {
      case Operator::Add: return element_value(x + y);
      case Operator::Subtract: return element_value(x + (kPrime - y));
      case Operator::Multiply: return element_value(multiply(x, y));
      case Operator::Divide:
        // Whole numbers that are data are rounded; an infinity is a number like others.
        if (a.kind == Value::Place || b.kind == Value::Place || y == 0 ||
            (e.operands[0]->type.is_int_or_uint() && e.operands[1]->type.is_int_or_uint()))
          return opaque("/", {a, b});
        return element_value(multiply(x, inverse(y)));
      default: return opaque(concat("operator ", static_cast<int>(e.op)), {a, b});
    }
  }

  const Versions& versions_;
  const ir::Program& signature_;
  const std::vector<GradientStatement>& statements_;
  const uint64_t seed_;
  std::map<std::string, Expr> sizes_;
  std::map<Assumption, std::map<std::string, std::map<Coordinates, Value>>> known_, pending_;
  struct Weights {
    Range range;  ///< whose expressions are the key
    std::vector<uint64_t> weights;
  };
  std::map<std::pair<const void*, const void*>, Weights> weights_;
  const std::vector<GradientStatement>* more_ = nullptr;
  int64_t all_points_[2] = {0, 0};  ///< of conditions as `Numbers`, and `Apart`
  int64_t* points_ = all_points_;
  int depth_ = 0;
  bool decides_ = false;  ///< whether an index has decided a condition
  bool chooses_ = false;  ///< the same of data
  bool follows_ = false;  ///< whether data has led to an element that is computed
  bool derives_ = false;  ///< in a subscript of an input, which may be one that is not known
  Assumption assumed_;
  std::map<const Expression*, int> outcomes_;  ///< of comparisons of indices: 1 true, 2 false
  std::set<ExpressionPtr> kept_;               ///< whose parts these are
};

ZeroSums::ZeroSums(const Versions& versions, const ir::Program& signature,
                   const std::vector<GradientStatement>& statements)
    : versions_(versions), signature_(signature), statements_(statements) {
  if (signature.sizes.size() > kMostSizes) return;
  try {
    for (int number = 0; number < kTrials; ++number) add_trial();
  } catch (const Unknown&) {
    trials_.clear();
  }
}

ZeroSums::~ZeroSums() = default;

void ZeroSums::add_trial() {
  trials_.push_back(std::make_unique<Trial>(versions_, signature_, statements_, trials_.size()));
}

bool ZeroSums::are_zero(const std::vector<GradientStatement>& more, bool together) {
  if (trials_.empty()) return false;
  bool follows = false;
  for (size_t number = 0; number < (follows ? kFollowing : kTrials); ++number) {
    if (number == trials_.size()) add_trial();
    if (!trials_[number]->is_zero(more, together)) return false;
    follows = follows || trials_[number]->follows();
  }
  return true;
}

}  // namespace tc::lang
