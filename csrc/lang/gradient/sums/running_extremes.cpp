#include "lang/gradient/sums/running_extremes.h"

#include <algorithm>

#include "lang/gradient/sums/term_reads.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// A reduction over all terms up to a result's place, or from it on.
struct Running {
  std::string term, result;  ///< indices
  bool up_to = true;
};

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

/// How many terms the condition leaves out of the result at its place.
ExpressionPtr count_left_out(const Step& step, const Running& running) {
  const Range& range = step.ranges.at(running.term);
  const ExpressionPtr place = name(running.result);
  ExpressionPtr count = running.up_to ? binary(Operator::Subtract, from_halide(range.last), place)
                                      : binary(Operator::Subtract, place, from_halide(range.first));
  for (const std::string& index : step.reduced) {
    if (index == running.term) continue;
    const Range& other = step.ranges.at(index);
    count = binary(Operator::Multiply, count, from_halide(simplify(other.last - other.first + 1)));
  }
  return cast(Halide::Float(32), count);
}

/// `bound` stands for the terms that the condition leaves out; null where those are neutral.
RunningExtreme build(const Step& step, const ExpressionPtr& result, const ExpressionPtr& bound,
                     const Running& running, const std::string& gradient, FreshNames& names) {
  RunningExtreme made;
  made.terms = step;
  made.terms.reduction = ir::Reduction::None;
  made.terms.value = step.value->operands[1];
  auto& reduced = made.terms.reduced;
  reduced.erase(std::find(reduced.begin(), reduced.end(), running.term));
  std::replace(made.terms.left.begin(), made.terms.left.end(), running.result, running.term);
  const ExpressionPtr term = name(running.term);
  const auto at_term = [&](const ExpressionPtr& e) {
    return substitute(e, {{running.result, term}});
  };
  for (ExpressionPtr& place : made.terms.places) place = at_term(place);
  made.terms.ranges.erase(running.result);
  // Reductions over all results, all places of terms, and the other reduced indices given.
  const auto reduce = [&](const std::string& target, const std::vector<ExpressionPtr>& places,
                          ir::Reduction reduction, const ExpressionPtr& value,
                          const std::vector<std::string>& others) {
    std::vector<std::string> indices = step.left;
    indices.push_back(running.term);
    indices.insert(indices.end(), others.begin(), others.end());
    made.statements.push_back(
        {target, places, reduction, true, value, ranges_of(indices, step.ranges)});
  };
  const auto sum = [&](const std::string& target, const std::vector<ExpressionPtr>& places,
                       const ExpressionPtr& value, const std::vector<std::string>& others) {
    reduce(target, places, ir::Reduction::Sum, value, others);
  };

  const std::string plain = names.plain(step.target);
  const std::string run = names.fresh(plain + "_run"), ties = names.fresh(plain + "_ties"),
                    share = names.fresh(gradient + "_share");
  made.source = names.fresh(gradient + "_sum");
  const ExpressionPtr counts = step.value->operands[0];
  // Runs are those of the terms alone.
  ExpressionPtr extreme = result;
  if (bound) {
    const std::string of_terms = names.fresh(plain + "_of_terms");
    const double sign = step.reduction == ir::Reduction::Max ? -1 : 1;
    reduce(of_terms, step.places, step.reduction,
           choose(counts, made.terms.value, binary(Operator::Divide, real(sign), real(0))),
           reduced);
    extreme = read(of_terms, step.places, step.type);
  }
  const ExpressionPtr is_extreme = binary(Operator::Equal, made.terms.value, at_term(extreme));

  // Numbers the runs of one extreme.
  const Range& range = step.ranges.at(running.term);
  const ExpressionPtr neighbour =
      binary(running.up_to ? Operator::Subtract : Operator::Add, term, integer(1));
  const ExpressionPtr inside = running.up_to
                                   ? binary(Operator::Greater, term, from_halide(range.first))
                                   : binary(Operator::Less, term, from_halide(range.last));
  const ExpressionPtr changes = binary(Operator::NotEqual, at_term(extreme),
                                       substitute(extreme, {{running.result, neighbour}}));
  sum(run, step.places,
      choose(counts, choose(binary(Operator::And, inside, changes), integer(1), integer(0)),
             integer(0)),
      {});

  const ExpressionPtr of_result = read(run, step.places, Halide::Int(32));
  const ExpressionPtr same =
      binary(Operator::And, counts, binary(Operator::Equal, at_term(of_result), of_result));
  sum(ties, step.places, choose(same, choose(is_extreme, real(1), real(0)), real(0)), reduced);

  ExpressionPtr sharing = read(ties, step.places, Halide::Float(32));
  if (bound)
    sharing = binary(
        Operator::Add, sharing,
        choose(binary(Operator::Equal, result, bound), count_left_out(step, running), real(0)));
  ExpressionPtr part = binary(Operator::Divide, read(gradient, step.places, step.type), sharing);
  if (bound) part = choose(binary(Operator::Equal, extreme, result), part, real(0));
  if (step.type.bits() < 32) part = cast(step.type, part);
  made.statements.push_back(
      {share, step.places, ir::Reduction::None, true, part, ranges_of(step.left, step.ranges)});

  sum(made.source, made.terms.places, choose(same, read(share, step.places, step.type), real(0)),
      {});
  made.weight = choose(is_extreme, read(made.source, made.terms.places, step.type), real(0));
  return made;
}

}  // namespace

std::optional<RunningExtreme> running_extreme(const Step& step, const ExpressionPtr& extreme,
                                              const std::string& gradient,
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
      !always_equal(range, step.ranges.at(running->result), signature))
    return std::nullopt;
  const bool counts_once = is_neutral(*elsewhere, step.reduction) ||
                           equal(*elsewhere, *substitute(term, {{running->term, first}}));
  if (!counts_once && !is_literal(*elsewhere)) return std::nullopt;
  return build(step, extreme, counts_once ? nullptr : elsewhere, *running, gradient, *names);
}

}  // namespace tc::lang
