#include "lang/gradient/sums/running_extremes.h"

#include <algorithm>
#include <cmath>

#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// A reduction over all terms up to a result's place, or from it on.
struct Running {
  std::string term, result;  ///< indices
  bool up_to = true;
};

/// What a comparison of integers says is not negative; undefined for anything else.
ir::Expr not_negative(const Expression& condition) {
  if (condition.kind != ExpressionKind::Binary) return ir::Expr();
  const ir::Expr a = to_halide(*condition.operands[0]), b = to_halide(*condition.operands[1]);
  if (!a.defined() || !b.defined()) return ir::Expr();
  switch (condition.op) {
    case Operator::LessEqual: return b - a;
    case Operator::GreaterEqual: return a - b;
    case Operator::Less: return b - a - 1;
    case Operator::Greater: return a - b - 1;
    default: return ir::Expr();
  }
}

std::optional<Running> find_running(const Step& step) {
  const ir::Expr distance = not_negative(*step.value->operands[0]);
  if (!distance.defined()) return std::nullopt;
  for (const std::string& result : step.left)
    for (const std::string& term : step.reduced) {
      const ir::Expr behind = ir::make_variable(result) - ir::make_variable(term);
      for (const bool up_to : {true, false})
        if (is_const_zero(simplify(up_to ? distance - behind : distance + behind)))
          return Running{term, result, up_to};
    }
  return std::nullopt;
}

/// Whether it is an infinity that no term is beyond.
bool is_neutral(const Expression& e, ir::Reduction reduction) {
  return e.constant && e.constant->is_float && std::isinf(e.constant->real) &&
         std::signbit(e.constant->real) == (reduction == ir::Reduction::Max);
}

class Builder {
 public:
  Builder(const Step& step, const Running& running, const std::string& gradient, FreshNames* names)
      : step_(step), running_(running), gradient_(gradient), names_(*names) {}

  RunningExtreme build(const Range& range) {
    RunningExtreme made;
    made.terms = step_;
    made.terms.reduction = ir::Reduction::None;
    made.terms.value = step_.value->operands[1];
    auto& reduced = made.terms.reduced;
    reduced.erase(std::find(reduced.begin(), reduced.end(), running_.term));
    std::replace(made.terms.left.begin(), made.terms.left.end(), running_.result, running_.term);
    for (ExpressionPtr& place : made.terms.places) place = at_term(place);
    made.terms.ranges.erase(running_.result);

    const std::string plain = names_.plain(step_.target);
    const std::string run = names_.fresh(plain + "_run"), ties = names_.fresh(plain + "_ties"),
                      share = names_.fresh(gradient_ + "_share");
    made.source = names_.fresh(gradient_ + "_sum");
    const ExpressionPtr extreme = read(step_.target, step_.places, step_.type);
    const ExpressionPtr is_extreme = binary(Operator::Equal, made.terms.value, at_term(extreme));

    // Numbers the runs of one extreme.
    const ExpressionPtr term = name(running_.term);
    const ExpressionPtr neighbour =
        binary(running_.up_to ? Operator::Subtract : Operator::Add, term, integer(1));
    const ExpressionPtr inside = running_.up_to
                                     ? binary(Operator::Greater, term, from_halide(range.first))
                                     : binary(Operator::Less, term, from_halide(range.last));
    const ExpressionPtr changes = binary(Operator::NotEqual, at_term(extreme),
                                         substitute(extreme, {{running_.result, neighbour}}));
    const ExpressionPtr counts = step_.value->operands[0];
    made.statements.push_back(statement(
        run, step_.places, ir::Reduction::Sum,
        choose(counts, choose(binary(Operator::And, inside, changes), integer(1), integer(0)),
               integer(0)),
        {}));

    const ExpressionPtr of_result = read(run, step_.places, Halide::Int(32));
    const ExpressionPtr same =
        binary(Operator::And, counts, binary(Operator::Equal, at_term(of_result), of_result));
    made.statements.push_back(statement(ties, step_.places, ir::Reduction::Sum,
                                        choose(same, choose(is_extreme, real(1), real(0)), real(0)),
                                        reduced));

    ExpressionPtr part = binary(Operator::Divide, read(gradient_, step_.places, step_.type),
                                read(ties, step_.places, Halide::Float(32)));
    if (step_.type.bits() < 32) part = cast(step_.type, part);
    made.statements.push_back({share, step_.places, ir::Reduction::None, true, part,
                               ranges_of(step_.left, step_.ranges)});

    made.statements.push_back(
        statement(made.source, made.terms.places, ir::Reduction::Sum,
                  choose(same, read(share, step_.places, step_.type), real(0)), {}));
    made.weight = choose(is_extreme, read(made.source, made.terms.places, step_.type), real(0));
    return made;
  }

 private:
  ExpressionPtr at_term(const ExpressionPtr& e) const {
    return substitute(e, {{running_.result, name(running_.term)}});
  }

  /// Over all results, all places of terms, and the other reduced indices given.
  GradientStatement statement(const std::string& target, const std::vector<ExpressionPtr>& places,
                              ir::Reduction reduction, const ExpressionPtr& value,
                              const std::vector<std::string>& reduced) const {
    std::vector<std::string> indices = step_.left;
    indices.push_back(running_.term);
    indices.insert(indices.end(), reduced.begin(), reduced.end());
    return {target, places, reduction, true, value, ranges_of(indices, step_.ranges)};
  }

  const Step& step_;
  const Running& running_;
  const std::string& gradient_;
  FreshNames& names_;
};

}  // namespace

std::optional<RunningExtreme> running_extreme(const Step& step, const std::string& gradient,
                                              const ir::Program& signature, FreshNames* names) {
  const Expression& value = *step.value;
  if (value.kind != ExpressionKind::Ternary || value.type != step.type || !step.covers ||
      step.scatters())
    return std::nullopt;
  const auto running = find_running(step);
  if (!running) return std::nullopt;
  const ExpressionPtr &term = value.operands[1], &elsewhere = value.operands[2];
  const Range& range = step.ranges.at(running->term);
  const ExpressionPtr first = from_halide(running->up_to ? range.first : range.last);
  // A read is the very same number when it is read again.
  if (!is_access(*term) || term->type != step.type || mentions(*term, running->result) ||
      !always_equal(range, step.ranges.at(running->result), signature) ||
      !(is_neutral(*elsewhere, step.reduction) ||
        equal(*elsewhere, *substitute(term, {{running->term, first}}))))
    return std::nullopt;
  return Builder(step, *running, gradient, names).build(range);
}

}  // namespace tc::lang
