#include "lang/gradient/sums/stepped_extremes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lang/gradient/sums/term_reads.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// The terms up to a result's index, or from it on, at a distance.
struct Side {
  ExpressionPtr counts, value;
  bool up_to = true;
  int64_t offset = 0;  ///< the first term of a result t is t + offset
};

struct Addend {
  ExpressionPtr value;
  bool minus = false;
};

/// A term as what it is at the result that has it first, and a step from each result to the next,
/// both of the result's index; null: 0.
struct Parts {
  ExpressionPtr first, step;
};

ExpressionPtr typed(const ExpressionPtr& e, Type type) {
  if (e->type == type) return e;
  auto copy = std::make_shared<Expression>(*e);
  copy->type = type;
  return copy;
}

void list_addends(const ExpressionPtr& e, bool minus, std::vector<Addend>& addends) {
  if (is_binary(*e, Operator::Add) || is_binary(*e, Operator::Subtract)) {
    list_addends(e->operands[0], minus, addends);
    list_addends(e->operands[1], minus != (e->op == Operator::Subtract), addends);
  } else if (is_negation(*e)) {
    list_addends(e->operands[0], !minus, addends);
  } else {
    addends.push_back({e, minus});
  }
}

void add(ExpressionPtr& sum, const ExpressionPtr& e, bool minus, Type type) {
  if (!e) return;
  if (sum)
    sum = binary(minus ? Operator::Subtract : Operator::Add, sum, e);
  else
    sum = minus ? negate(e) : e;
  sum = typed(sum, type);
}

class TakeApart {
 public:
  TakeApart(const std::string& result, const std::string& term, bool up_to, int64_t offset)
      : result_(result), term_(term), up_to_(up_to), offset_(offset) {}

  std::optional<Parts> run(const ExpressionPtr& e) const {
    if (!mentions(*e, result_)) return Parts{at_first(e), nullptr};
    if (e->type.is_int_or_uint()) return run_integer(*e);
    if (e->kind == ExpressionKind::Cast) return in_operand(*e, 0);
    if (is_binary(*e, Operator::Multiply) && is_fixed(*e->operands[0])) return in_operand(*e, 1);
    if ((is_binary(*e, Operator::Multiply) || is_binary(*e, Operator::Divide)) &&
        is_fixed(*e->operands[1]))
      return in_operand(*e, 0);
    if (is_binary(*e, Operator::Add) || is_binary(*e, Operator::Subtract) || is_negation(*e))
      return run_sum(e);
    return std::nullopt;
  }

 private:
  bool is_fixed(const Expression& e) const { return !mentions(e, result_) && !mentions(e, term_); }

  ExpressionPtr at(const ExpressionPtr& e, const std::string& index, int64_t distance) const {
    return substitute(e, {{index, binary(Operator::Add, name(result_), integer(distance))}});
  }
  ExpressionPtr before(const ExpressionPtr& e) const { return at(e, result_, up_to_ ? -1 : 1); }
  ExpressionPtr at_first(const ExpressionPtr& e) const { return at(e, term_, offset_); }

  std::optional<Parts> run_integer(const Expression& e) const {
    const ir::Expr value = to_halide(e), result = ir::make_variable(result_);
    if (e.type != Halide::Int(32) || !value.defined()) return std::nullopt;
    const ir::Expr step = simplify(
        value - Halide::Internal::substitute(result_, up_to_ ? result - 1 : result + 1, value));
    if (expr_uses_var(step, term_)) return std::nullopt;
    const ir::Expr first =
        simplify(Halide::Internal::substitute(term_, result + static_cast<int>(offset_), value));
    const auto expression = [&](const ir::Expr& part) {
      return is_const_zero(part) ? nullptr : typed(from_halide(part), e.type);
    };
    return Parts{expression(first), expression(step)};
  }

  std::optional<Parts> in_operand(const Expression& e, size_t k) const {
    std::optional<Parts> parts = run(e.operands[k]);
    if (!parts) return std::nullopt;
    for (ExpressionPtr* part : {&parts->first, &parts->step}) {
      if (!*part) continue;
      auto whole = std::make_shared<Expression>(e);
      whole->operands[k] = *part;
      whole->constant.reset();
      *part = whole;
    }
    return parts;
  }

  /// What only depends on the result has an opposite of the term, as in c(t) - c(s).
  std::optional<Parts> run_sum(const ExpressionPtr& e) const {
    std::vector<Addend> addends;
    list_addends(e, false, addends);
    Parts sum;
    for (Addend& addend : addends) {
      if (!addend.value || !mentions(*addend.value, result_) || mentions(*addend.value, term_))
        continue;
      const ExpressionPtr of_term = substitute(addend.value, {{result_, name(term_)}});
      const auto opposite = std::find_if(addends.begin(), addends.end(), [&](const Addend& other) {
        return other.value && other.minus != addend.minus && equal(*other.value, *of_term);
      });
      if (opposite == addends.end()) return std::nullopt;
      const ExpressionPtr change = binary(Operator::Subtract, addend.value, before(addend.value));
      add(sum.step, typed(change, addend.value->type), addend.minus, e->type);
      if (offset_ != 0) {
        const ExpressionPtr first =
            binary(Operator::Subtract, addend.value, at(addend.value, result_, offset_));
        add(sum.first, typed(first, addend.value->type), addend.minus, e->type);
      }
      addend.value = opposite->value = nullptr;
    }
    for (const Addend& addend : addends) {
      if (!addend.value) continue;
      const std::optional<Parts> parts = run(addend.value);
      if (!parts) return std::nullopt;
      add(sum.first, parts->first, addend.minus, e->type);
      add(sum.step, parts->step, addend.minus, e->type);
    }
    return sum;
  }

  const std::string &result_, &term_;
  bool up_to_;
  int64_t offset_;
};

class Build {
 public:
  Build(const Step& step, const std::string& gradient, const ir::Program& signature,
        FreshNames& names)
      : step_(step), gradient_(gradient), signature_(signature), names_(names) {}

  std::optional<SteppedExtreme> run() {
    if (!step_.covers || step_.scatters() || step_.reduced.size() != 1 ||
        step_.value->type != step_.type)
      return std::nullopt;
    term_ = step_.reduced[0];
    for (const std::string& result : step_.left) {
      result_ = result;
      if (!always_equal(step_.ranges.at(term_), step_.ranges.at(result_), signature_)) continue;
      const std::vector<Side> sides = find_sides();
      std::vector<Parts> parts;
      for (const Side& side : sides) {
        const auto found = TakeApart(result_, term_, side.up_to, side.offset).run(side.value);
        if (found && found->first && found->step) parts.push_back(*found);
      }
      if (!sides.empty() && parts.size() == sides.size()) {
        build(sides, parts);
        return std::move(made_);
      }
    }
    return std::nullopt;
  }

 private:
  /// One of a condition, two of the distance's absolute value.
  std::vector<Side> find_sides() const {
    const ExpressionPtr& value = step_.value;
    const ir::Expr result = ir::make_variable(result_), term = ir::make_variable(term_);
    if (value->kind == ExpressionKind::Ternary) {
      const ir::Expr distance = not_negative(*value->operands[0]);
      if (!distance.defined() || !is_neutral(*value->operands[2], step_.reduction)) return {};
      const auto up = as_const_int(simplify(distance - (result - term)));
      const auto down = as_const_int(simplify(distance + (result - term)));
      // Of s <= t + up, and of s >= t - down.
      if (up && *up <= 0) return {{value->operands[0], value->operands[1], true, *up}};
      if (down && *down <= 0) return {{value->operands[0], value->operands[1], false, -*down}};
      return {};
    }
    std::vector<Side> sides;
    for (const bool up_to : {true, false}) {
      bool known = false;
      const ExpressionPtr chosen = rewrite(value, [&](const Expression& e) -> ExpressionPtr {
        if (e.kind != ExpressionKind::Apply || e.binding != Binding::Builtin || e.name != "abs" ||
            !e.type.is_int())
          return nullptr;
        const ir::Expr distance = to_halide(*e.operands[0]);
        if (!distance.defined()) return nullptr;
        const bool behind = is_const_zero(simplify(distance - (result - term)));
        if (!behind && !is_const_zero(simplify(distance + (result - term)))) return nullptr;
        known = true;
        return behind == up_to ? e.operands[0] : typed(negate(e.operands[0]), e.type);
      });
      if (!known) return {};
      const Operator compares = up_to ? Operator::LessEqual : Operator::Greater;
      sides.push_back({binary(compares, name(term_), name(result_)), chosen, up_to, up_to ? 0 : 1});
    }
    return sides;
  }

  void build(const std::vector<Side>& sides, const std::vector<Parts>& parts) {
    const std::string plain = FreshNames::plain(step_.target);
    const ExpressionPtr extreme = read(step_.target, step_.places, step_.type);
    std::vector<ExpressionPtr> extremes;
    for (const Side& side : sides) {
      if (sides.size() == 1) {
        extremes.push_back(extreme);
        continue;
      }
      const double sign = step_.reduction == ir::Reduction::Max ? -1 : 1;
      const ExpressionPtr neutral = binary(Operator::Divide, real(sign), real(0));
      extremes.push_back(reduce(plain + "_side", step_.places, step_.reduction,
                                choose(side.counts, side.value, neutral), step_.type));
    }
    // How many terms are the extreme of a side, and of the result.
    std::vector<Counts> counts;
    ExpressionPtr sharing;
    for (size_t k = 0; k < sides.size(); ++k) {
      counts.push_back(count(sides[k], parts[k], extremes[k], plain));
      const ExpressionPtr ties = read(counts[k].ties, step_.places, Halide::Float(32));
      if (sides.size() == 1) {
        sharing = ties;
        continue;
      }
      counts[k].leads = is_beyond(extremes[k], extremes[1 - k]);
      const ExpressionPtr part = choose(counts[k].leads, ties, real(0));
      sharing = sharing ? binary(Operator::Add, sharing, part) : part;
    }
    ExpressionPtr share =
        binary(Operator::Divide, read(gradient_, step_.places, step_.type), sharing);
    share = choose(binary(Operator::Greater, sharing, real(0)), share, real(0));
    if (step_.type.bits() < 32) share = cast(step_.type, share);
    for (size_t k = 0; k < sides.size(); ++k) {
      const ExpressionPtr own = counts[k].leads ? choose(counts[k].leads, share, real(0)) : share;
      const std::string shared = assign(gradient_ + "_share", own);
      receive(sides[k], parts[k], counts[k], shared);
    }
  }

  /// Tensors of what goes on from one result to the next.
  struct Counts {
    std::string goes_on, begins;  ///< 1 where the step, or the term, is the larger side
    std::string run, ties;
    ExpressionPtr leads;  ///< whether the extreme is that of this side; null: always
  };

  Counts count(const Side& side, const Parts& parts, const ExpressionPtr& extreme,
               const std::string& plain) {
    const ExpressionPtr moved = binary(Operator::Add, at_neighbour(extreme, side), parts.step);
    const ExpressionPtr exists = has_first(side), inside = has_neighbour(side);
    const ExpressionPtr one = integer(1), none = integer(0);
    ExpressionPtr goes_on = choose(is_beyond(moved, parts.first), one, none);
    ExpressionPtr begins = choose(inside, choose(is_beyond(parts.first, moved), one, none), one);
    if (exists) {
      goes_on = choose(exists, goes_on, one);
      begins = choose(exists, begins, none);
    }
    Counts made;
    made.goes_on = assign(plain + "_goes_on", choose(inside, goes_on, none));
    made.begins = assign(plain + "_begins", begins);
    const ExpressionPtr up_to_result = compare(side);
    made.run = sum(plain + "_run", step_.places,
                   choose(up_to_result, choose(holds(made.goes_on, true), none, one), none));
    made.ties = sum(plain + "_ties", step_.places,
                    choose(in_same_run(side, made),
                           choose(holds(made.begins, true), real(1), real(0)), real(0)));
    return made;
  }

  void receive(const Side& side, const Parts& parts, const Counts& counts,
               const std::string& share) {
    std::vector<ExpressionPtr> at_term;
    for (const ExpressionPtr& place : step_.places) at_term.push_back(of_term(place));
    const std::string received =
        sum(gradient_ + "_sum", at_term,
            choose(in_same_run(side, counts), read(share, step_.places, step_.type), real(0)));
    const ExpressionPtr all = read(received, step_.places, step_.type);
    Receiver first{
        assignment(parts.first), choose(holds(counts.begins), all, real(0)), received, {}};
    if (const ExpressionPtr exists = has_first(side)) first.conditions.push_back(exists);
    made_.receivers.push_back(std::move(first));
    ExpressionPtr handed_on =
        binary(Operator::Multiply, all,
               at_neighbour(read(counts.ties, step_.places, Halide::Float(32)), side));
    if (step_.type.bits() < 32) handed_on = cast(step_.type, handed_on);
    Receiver next{assignment(parts.step),
                  choose(holds(counts.goes_on), handed_on, real(0)),
                  received,
                  {has_neighbour(side)}};
    made_.receivers.push_back(std::move(next));
  }

  Step assignment(const ExpressionPtr& value) const {
    Step made = step_;
    made.reduction = ir::Reduction::None;
    made.reduced.clear();
    made.ranges.erase(term_);
    made.value = value;
    return made;
  }

  /// Whether a is the extreme of both.
  ExpressionPtr is_beyond(const ExpressionPtr& a, const ExpressionPtr& b) const {
    const bool largest = step_.reduction == ir::Reduction::Max;
    return binary(largest ? Operator::GreaterEqual : Operator::LessEqual, a, b);
  }

  ExpressionPtr of_term(const ExpressionPtr& e) const {
    return substitute(e, {{result_, name(term_)}});
  }
  ExpressionPtr at_neighbour(const ExpressionPtr& e, const Side& side) const {
    return substitute(
        e, {{result_, binary(Operator::Add, name(result_), integer(side.up_to ? -1 : 1))}});
  }
  ExpressionPtr holds(const std::string& tensor, bool at_term = false) const {
    const ExpressionPtr flag = read(tensor, step_.places, Halide::Int(32));
    return binary(Operator::Equal, at_term ? of_term(flag) : flag, integer(1));
  }

  ExpressionPtr has_neighbour(const Side& side) const {
    const Range& range = step_.ranges.at(result_);
    return side.up_to ? binary(Operator::Greater, name(result_), from_halide(range.first))
                      : binary(Operator::Less, name(result_), from_halide(range.last));
  }
  /// Whether the result has a term that its neighbour has not; null: always.
  ExpressionPtr has_first(const Side& side) const {
    if (side.offset == 0) return nullptr;
    const Range& range = step_.ranges.at(term_);
    const ExpressionPtr first = binary(Operator::Add, name(result_), integer(side.offset));
    return side.up_to ? binary(Operator::GreaterEqual, first, from_halide(range.first))
                      : binary(Operator::LessEqual, first, from_halide(range.last));
  }
  ExpressionPtr compare(const Side& side) const {
    return binary(side.up_to ? Operator::LessEqual : Operator::GreaterEqual, name(term_),
                  name(result_));
  }
  ExpressionPtr in_same_run(const Side& side, const Counts& counts) const {
    const ExpressionPtr run = read(counts.run, step_.places, Halide::Int(32));
    return binary(Operator::And, compare(side), binary(Operator::Equal, of_term(run), run));
  }

  std::string assign(const std::string& base, const ExpressionPtr& value) {
    const std::string target = names_.fresh(base);
    made_.statements.push_back({target, step_.places, ir::Reduction::None, true, value,
                                ranges_of(step_.left, step_.ranges)});
    return target;
  }
  std::string sum(const std::string& base, const std::vector<ExpressionPtr>& places,
                  const ExpressionPtr& value) {
    return reduce(base, places, ir::Reduction::Sum, value, {})->name;
  }
  /// Over all results and terms.
  ExpressionPtr reduce(const std::string& base, const std::vector<ExpressionPtr>& places,
                       ir::Reduction reduction, const ExpressionPtr& value, Type type) {
    const std::string target = names_.fresh(base);
    std::vector<std::string> indices = step_.left;
    indices.push_back(term_);
    made_.statements.push_back(
        {target, places, reduction, true, value, ranges_of(indices, step_.ranges)});
    return read(target, places, type);
  }

  const Step& step_;
  const std::string& gradient_;
  const ir::Program& signature_;
  FreshNames& names_;
  std::string term_, result_;
  SteppedExtreme made_;
};

}  // namespace

std::optional<SteppedExtreme> stepped_extreme(const Step& step, const std::string& gradient,
                                              const ir::Program& signature, FreshNames* names) {
  return Build(step, gradient, signature, *names).run();
}

}  // namespace tc::lang
