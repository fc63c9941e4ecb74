#include "lang/gradient/sums/adjoint_sum.h"

#include <algorithm>
#include <list>
#include <optional>

#include "base/passes.h"
#include "ir/expressions/reads.h"
#include "lang/gradient/invert_access.h"
#include "lang/gradient/sums/exact_quotients.h"
#include "lang/gradient/sums/quotient_remainders.h"
#include "lang/gradient/sums/shared_factors.h"
#include "lang/gradient/sums/split_digits.h"
#include "lang/gradient/sums/zero_sums.h"
#include "lang/sema/expansion.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

const Pass kSplitDigits("derivative", "split_digits");
const Pass kSumOverQuotients("derivative", "sum_over_quotients");
const Pass kSumWhereRead("derivative", "sum_where_read");
const Pass kTakeOutDivisors("derivative", "take_out_divisors");
const Pass kTakeOutFactors("derivative", "take_out_factors");
const Pass kPad("derivative", "pad");
const Pass kDropZeroTerms("derivative", "drop_zero_terms");
const Pass kDropZeroSums("derivative", "drop_zero_sums");

class Summation {
 public:
  Summation(const std::string& target, Type type, const std::vector<Range>& shape,
            const std::map<std::string, std::vector<Range>>& shapes, const ir::Program& signature,
            ZeroSums* zeros, FreshNames* names)
      : target_(target),
        type_(type),
        shape_(shape),
        shapes_(shapes),
        signature_(signature),
        zeros_(*zeros),
        names_(*names) {}

  std::vector<GradientStatement> run(const std::vector<Contribution>& contributions) {
    std::vector<std::pair<const Contribution*, InvertedAccess>> single, summed;
    std::list<Contribution> sums;
    for (const Contribution& given : contributions) {
      const Contribution* c = &given;
      InvertedAccess inverted = invert(*c);
      const auto replace = [&](Contribution by) {
        c = &sums.emplace_back(std::move(by));
        inverted = invert(*c);
      };
      if (is_scatter(inverted))
        if (auto split = run_pass(kSplitDigits, [&] { return split_where_read(*c); }))
          replace(std::move(*split));
      if (Contribution quotients = *c; run_pass(kSumOverQuotients, [&] {
            return sum_over_quotients(&quotients, inverted.remaining, signature_, names_);
          }))
        replace(std::move(quotients));
      if (!inverted.conditions.empty() || is_scatter(inverted))
        if (auto sum = run_pass(kSumWhereRead, [&] { return sum_where_read(*c, inverted); }))
          replace(std::move(*sum));
      (inverted.remaining.empty() ? single : summed).emplace_back(c, std::move(inverted));
    }
    bool first = true;
    bool scatters = std::any_of(summed.begin(), summed.end(),
                                [](const auto& each) { return is_scatter(each.second); });
    // A scatter does not say how large its tensor is.
    if (!single.empty() || scatters) {
      std::vector<ExpressionPtr> places =
          element_names(single.empty() ? InvertedAccess() : single[0].second);
      std::vector<ExpressionPtr> weights;
      for (auto& [contribution, inverted] : single)
        weights.push_back(inverted.translate(contribution->weight));
      // What guards keep from being evaluated stays behind them.
      const bool everywhere = std::any_of(single.begin(), single.end(), [&](const auto& each) {
        return !guard_of(*each.first, each.second, conditions(each.second));
      });
      std::vector<ExpressionPtr> divisors;
      if (type_.bits() >= 32 && everywhere)
        divisors = run_pass(
            kTakeOutDivisors, [&] { return take_out_divisors(&weights); },
            [](const auto& taken) { return !taken.empty(); });
      std::vector<ExpressionPtr> sums;
      double operations = 0;
      for (size_t k = 0; k < single.size(); ++k) {
        auto& [contribution, inverted] = single[k];
        ExpressionPtr part = guarded(*contribution, inverted, weights[k], conditions(inverted));
        const double more = expand(*part, {}).operations;
        if (sums.empty() || is_long(operations + more)) {
          sums.push_back(part);
          operations = more;
        } else {
          sums.back() = binary(Operator::Add, sums.back(), part);
          operations += more;
        }
      }
      if (sums.empty()) sums.push_back(real(0));
      for (ExpressionPtr sum : sums) {
        for (const ExpressionPtr& divisor : divisors) sum = binary(Operator::Divide, sum, divisor);
        add(target_, places, places, first ? ir::Reduction::None : ir::Reduction::Sum, first, sum);
        first = false;
      }
    }
    std::vector<Product> products;
    for (auto& [given, inverted] : summed) {
      const size_t before = statements_.size();
      Contribution terms = *given;
      SharedFactors shared = run_pass(
          kTakeOutFactors, [&] { return take_out_factors(inverted, &terms); },
          [](const SharedFactors& taken) { return !taken.empty(); });
      const Contribution* contribution = &terms;
      std::vector<ExpressionPtr> elements = element_names(inverted), places = elements;
      std::vector<ExpressionPtr> all = conditions(inverted);
      ExpressionPtr weight = inverted.translate(contribution->weight);
      ExpressionPtr guard = is_scatter(inverted) ? guard_of(*contribution, inverted, all) : nullptr;
      for (size_t d = 0; d < places.size(); ++d) {
        if (!inverted.scattered[d]) continue;
        places[d] = rename(inverted.scattered[d], elements);
        if (!guard) continue;
        // Where the guard fails nothing is added, but there has to be a place, which an unsigned
        // type may not have; one that is read may not be there to read.
        const Type type = inverted.scattered[d]->type;
        if (type.is_uint() || (type.is_int() && type.bits() < 32))
          places[d] = cast(Halide::Int(type.bits() < 32 ? 32 : 64), places[d]);
        places[d] = any(*places[d], is_access)
                        ? choose(rename(guard, elements), places[d], from_halide(shape_[d].first))
                        : clamp(places[d], shape_[d]);
        if (any(*places[d], would_be_specialized))
          places[d] = in_tensor(places[d], elements, inverted.remaining, contribution->ranges);
      }
      if (!is_scatter(inverted))
        run_pass(kPad, [&] { return pad(*contribution, inverted, &weight, &all); });
      // A sum of no terms is 0 whatever its factors are.
      const std::vector<ExpressionPtr> outer = conditions_of(*given, inverted, false);
      const auto joined = std::find_if(products.begin(), products.end(), [&](const Product& other) {
        return outer.empty() && have_same_factors(other.shared, shared);
      });
      const bool joins = joined != products.end();
      if (joins && joined->shared.negative != shared.negative) weight = negate(weight);
      ExpressionPtr value = guarded(*contribution, inverted, weight, all);
      ExpressionPtr sum;
      if (!shared.empty())
        sum = read(joins ? joined->sum : names_.fresh(target_ + "_sum"), elements);
      add(sum ? sum->name : target_, elements, places, ir::Reduction::Sum, !joins && (sum || first),
          value, ranges_of(inverted.remaining, contribution->ranges));
      if (run_pass(kDropZeroTerms, [&] { return zeros_.are_zero(statements_, false); })) {
        statements_.resize(before);
        continue;
      }
      if (joins) {
        const auto begin = statements_.begin();
        const size_t place = joined->statement, added = statements_.size() - before;
        std::rotate(begin + static_cast<std::ptrdiff_t>(place),
                    begin + static_cast<std::ptrdiff_t>(before), statements_.end());
        for (Product& other : products)
          if (other.statement >= place) other.statement += added;
        continue;
      }
      if (sum) {
        ExpressionPtr product = shared.apply(sum);
        if (outer.empty()) products.push_back({shared, sum->name, statements_.size()});
        if (!outer.empty()) product = choose(all_of(outer), product, real(0));
        add(target_, elements, elements, first ? ir::Reduction::None : ir::Reduction::Sum, first,
            product);
      }
      first = false;
    }
    if (!statements_.empty() &&
        run_pass(kDropZeroSums, [&] { return zeros_.are_zero(statements_, true); }))
      statements_.clear();
    return std::move(statements_);
  }

 private:
  /// The statement that multiplies a sum, which further sums with the same factors are added to.
  struct Product {
    SharedFactors shared;
    std::string sum;
    size_t statement;
  };

  InvertedAccess invert(const Contribution& c) const {
    InvertedAccess inverted = invert_access(c.subscripts, c.indices, c.left, c.ranges,
                                            terms_of(c.guards), shape_, signature_);
    drop_certain_conditions(c, &inverted);
    return inverted;
  }

  /// The same with indices for digits and remainders, if that makes a gather of a scatter.
  std::optional<Contribution> split_where_read(const Contribution& c) const {
    Contribution split = c;
    const bool named = name_remainders(&split, signature_, names_);
    if (!split_digits(&split, signature_, names_) && !named) return std::nullopt;
    if (is_scatter(invert(split))) return std::nullopt;
    return split;
  }

  /// Where data says which element receives, or only a condition does: the sum of what it receives
  /// over the indices that the subscripts do not mention, made first. If they mention all, what it
  /// receives, where every element would compute it, and few do receive it; else nothing.
  std::optional<Contribution> sum_where_read(const Contribution& c,
                                             const InvertedAccess& inverted) {
    Contribution sum = c;
    auto is_mentioned = [&](const std::string& index) {
      return std::any_of(c.subscripts.begin(), c.subscripts.end(),
                         [&](const ExpressionPtr& e) { return mentions(*e, index); });
    };
    for (auto* list : {&sum.indices, &sum.left})
      list->erase(std::remove_if(list->begin(), list->end(),
                                 [&](const std::string& i) { return !is_mentioned(i); }),
                  list->end());
    const bool sums = sum.indices.size() < c.indices.size();
    const bool scatters = is_scatter(inverted);
    if (!sums && (scatters || !computes_everywhere(c, inverted))) return std::nullopt;
    sum.guards.clear();
    for (const ExpressionPtr& guard : terms_of(c.guards)) {
      bool stays = std::all_of(c.indices.begin(), c.indices.end(), [&](const std::string& index) {
        return is_mentioned(index) || !mentions(*guard, index);
      });
      if (stays) {
        sum.guards.push_back(guard);
      } else if (scatters) {
        return std::nullopt;  // it may be what keeps the place inside the tensor
      }
    }
    GradientStatement statement{
        names_.fresh(sums ? c.source + "_sum" : target_ + "_terms"),
        {},
        sums ? ir::Reduction::Sum : ir::Reduction::None,
        true,
        c.guards.empty() ? c.weight : choose(all_of(c.guards), c.weight, real(0)),
        ranges_of(c.indices, c.ranges)};
    for (const std::string& index : sum.indices) statement.places.push_back(name(index));
    sum.weight = read(statement.target, statement.places);
    sum.source = statement.target;
    sum.source_places = statement.places;
    statements_.push_back(std::move(statement));
    return sum;
  }

  /// Whether a weight has functions or quotients, or reads what differs between the elements of a
  /// dimension that only a condition decides.
  static bool computes_everywhere(const Contribution& c, const InvertedAccess& inverted) {
    const ExpressionPtr weight = inverted.translate(c.weight);
    if (any(*weight, [](const Expression& e) {
          return (e.kind == ExpressionKind::Apply && !is_access(e)) ||
                 is_binary(e, Operator::Divide);
        }))
      return true;
    std::vector<std::string> decided;
    for (size_t d = 0; d < inverted.scattered.size(); ++d)
      if (std::none_of(inverted.solved.begin(), inverted.solved.end(),
                       [&](const SolvedIndex& solved) { return solved.dimension == d; }))
        decided.push_back(element(d));
    return any(*weight, [&](const Expression& e) { return is_access(e) && mentions(e, decided); });
  }

  /// What has to hold for a term and is the same for all terms of a sum, or what differs.
  std::vector<ExpressionPtr> conditions_of(const Contribution& c, const InvertedAccess& inverted,
                                           bool differs) const {
    std::vector<ExpressionPtr> result;
    const ExpressionPtr guard = guard_of(c, inverted, conditions(inverted));
    if (!guard) return result;
    for (const ExpressionPtr& term : terms_of({guard}))
      if (mentions(*term, inverted.remaining) == differs) result.push_back(term);
    return result;
  }

  /// Sums, products and reads: infinite where what they read is.
  static bool has_no_poles(const Expression& e) {
    if (is_access(e) || e.operands.empty()) return true;
    const bool polynomial = e.kind == ExpressionKind::Unary || is_binary(e, Operator::Add) ||
                            is_binary(e, Operator::Subtract) || is_binary(e, Operator::Multiply);
    return polynomial && std::all_of(e.operands.begin(), e.operands.end(),
                                     [](const ExpressionPtr& part) { return has_no_poles(*part); });
  }

  /// x == 0 ? 1.0 : x, by which products without one factor are divided.
  static bool is_never_zero(const Expression& e) {
    if (e.kind != ExpressionKind::Ternary || !is_binary(*e.operands[0], Operator::Equal))
      return false;
    const std::vector<ExpressionPtr>& compared = e.operands[0]->operands;
    return equal(*compared[0], *e.operands[2]) && is_constant(*compared[1], 0) &&
           e.operands[1]->kind == ExpressionKind::Number && !is_constant(*e.operands[1], 0);
  }

  /// Leaves to the terms what differs between them, and returns what is done once, with their sum.
  /// Those of half are left alone: their sums may overflow where those of smaller terms do not.
  /// So are factors that may be infinite where conditions leave no term.
  SharedFactors take_out_factors(const InvertedAccess& inverted, Contribution* c) const {
    if (type_ == Halide::Float(16) || is_scatter(inverted)) return {};
    bool guards =
        !c->guards.empty() || !conditions(inverted).empty() || !inverted.conditions.empty();
    const bool inner = !conditions_of(*c, inverted, true).empty();
    const auto stays = [&](const ExpressionPtr& factor, bool divides) {
      if (inner && (any(*factor, is_access) || mentions(*factor, c->indices)) &&
          !(divides ? is_never_zero(*factor) : has_no_poles(*factor)))
        return true;
      // Guards may be what keeps a read inside its tensor.
      if (guards && reads_outside(*factor, *c, inverted)) return true;
      return mentions(*inverted.translate(factor), inverted.remaining);
    };
    SharedFactors shared = find_shared_factors(c->weight, type_, stays);
    if (shared.empty()) return {};
    c->weight = shared.term;
    for (auto* list : {&shared.factors, &shared.divisors})
      for (ExpressionPtr& factor : *list) factor = inverted.translate(factor);
    return shared;
  }

  /// Whether something may be read where its tensor has no element, for some element that receives
  /// a contribution.
  bool reads_outside(const Expression& e, const Contribution& c,
                     const InvertedAccess& inverted) const {
    if (!is_access(e))
      return std::any_of(e.operands.begin(), e.operands.end(), [&](const ExpressionPtr& operand) {
        return reads_outside(*operand, c, inverted);
      });
    if (e.name == c.to && equal(e.operands, c.subscripts)) return false;
    const auto shape = shapes_.find(e.name);
    if (shape == shapes_.end()) return true;
    for (size_t d = 0; d < e.operands.size(); ++d) {
      const auto reached = bounds(inverted.translate(e.operands[d]), c, inverted);
      const Range& range = shape->second.at(d);
      if (!reached || !is_at_most(range.first, reached->first) ||
          !is_at_most(reached->last, range.last))
        return true;
    }
    return false;
  }

  bool is_at_most(const Expr& a, const Expr& b) const {
    const Expr more = simplify_size(b - a, signature_);
    const auto is_size = [&](const std::string& name) {
      return std::count(signature_.sizes.begin(), signature_.sizes.end(), name) != 0;
    };
    const auto names = ir::variables_of(more);
    return std::all_of(names.begin(), names.end(), is_size) && never_negative(more);
  }

  static ExpressionPtr extreme(Operator op, const ExpressionPtr& a, const ExpressionPtr& b) {
    ExpressionPtr result = binary(op, a, b);
    result->name = op == Operator::Min ? "min" : "max";
    return result;
  }

  static ExpressionPtr clamp(const ExpressionPtr& e, const Range& range) {
    ExpressionPtr low = extreme(Operator::Max, e, from_halide(range.first));
    return extreme(Operator::Min, low, from_halide(range.last));
  }

  /// An integer that the caller passes: in a place it would have to be known to the compiler.
  static bool would_be_specialized(const Expression& e) {
    return e.binding == Binding::Scalar && e.type.is_int_or_uint() && !e.type.is_bool();
  }

  /// A place as a read of a tensor, which is made for it over the indices that it mentions.
  ExpressionPtr in_tensor(const ExpressionPtr& place, const std::vector<ExpressionPtr>& elements,
                          const std::vector<std::string>& remaining,
                          const std::map<std::string, Range>& ranges) {
    IndexRanges all = ranges_of(remaining, ranges);
    for (size_t d = 0; d < elements.size(); ++d) all.emplace_back(elements[d]->name, shape_[d]);
    GradientStatement statement{
        names_.fresh(target_ + "_place"), {}, ir::Reduction::None, true, place, {}};
    for (const auto& each : all) {
      if (!mentions(*place, each.first)) continue;
      statement.places.push_back(name(each.first));
      statement.ranges.push_back(each);
    }
    statements_.push_back(statement);
    return read(statement.target, statement.places);
  }

  static bool is_scatter(const InvertedAccess& inverted) {
    return std::any_of(inverted.scattered.begin(), inverted.scattered.end(),
                       [](const ExpressionPtr& place) { return place != nullptr; });
  }

  /// That solved indices lie in their ranges.
  static std::vector<ExpressionPtr> conditions(const InvertedAccess& inverted) {
    std::vector<ExpressionPtr> all;
    for (const SolvedIndex& solved : inverted.solved)
      all.insert(all.end(), solved.conditions.begin(), solved.conditions.end());
    return all;
  }

  /// Conditions of solved indices that their ranges and those of the other indices imply.
  void drop_certain_conditions(const Contribution& c, InvertedAccess* inverted) const {
    for (SolvedIndex& solved : inverted->solved) {
      auto& all = solved.conditions;
      all.erase(
          std::remove_if(all.begin(), all.end(),
                         [&](const ExpressionPtr& e) { return is_certain(*e, c, *inverted); }),
          all.end());
    }
  }

  /// Whether a comparison, or that it does not hold, follows from the ranges of elements and
  /// remaining indices.
  bool is_certain(const Expression& condition, const Contribution& c,
                  const InvertedAccess& inverted) const {
    const bool holds = condition.op != Operator::Not;
    const Expression& e = holds ? condition : *condition.operands[0];
    if (!is_ordering(e)) return false;
    const bool less = is_binary(e, Operator::Less) || is_binary(e, Operator::LessEqual);
    const bool strict = is_binary(e, Operator::Less) || is_binary(e, Operator::Greater);
    const bool rises = less == holds;
    const std::optional<Range> distance =
        bounds(binary(Operator::Subtract, e.operands[rises ? 1 : 0], e.operands[rises ? 0 : 1]), c,
               inverted);
    return distance && is_at_most(strict == holds ? 1 : 0, distance->first);
  }

  /// The same of a condition of the text, which may compare data, and sums that wrap around.
  bool is_certain_guard(const Expression& condition, const Contribution& c,
                        const InvertedAccess& inverted) const {
    const auto is_data = [](const Expression& e) {
      return is_access(e) || e.binding == Binding::Scalar;
    };
    return !may_wrap_around(condition) && !any(condition, is_data) &&
           is_certain(condition, c, inverted);
  }

  /// Whether it holds wherever the indices are solved.
  static bool is_implied(const Expression& guard, const InvertedAccess& inverted) {
    return std::any_of(inverted.implied.begin(), inverted.implied.end(),
                       [&](const ExpressionPtr& other) { return equal(guard, *other); });
  }

  /// All that has to hold where something is added; null where nothing has to.
  ExpressionPtr guard_of(const Contribution& contribution, const InvertedAccess& inverted,
                         std::vector<ExpressionPtr> all) const {
    for (const ExpressionPtr& guard : terms_of(contribution.guards)) {
      const ExpressionPtr condition = inverted.translate(guard);
      if (!is_implied(*guard, inverted) && !is_certain_guard(*condition, contribution, inverted))
        all.push_back(condition);
    }
    // These may read what the guards guard.
    all.insert(all.end(), inverted.conditions.begin(), inverted.conditions.end());
    return all.empty() ? nullptr : all_of(all);
  }

  ExpressionPtr guarded(const Contribution& contribution, const InvertedAccess& inverted,
                        const ExpressionPtr& weight, const std::vector<ExpressionPtr>& all) const {
    ExpressionPtr guard = guard_of(contribution, inverted, all);
    return guard ? choose(guard, weight, real(0)) : weight;
  }

  /// What the element's dimensions are called: as the indices that are solved from them.
  std::vector<ExpressionPtr> element_names(const InvertedAccess& inverted) const {
    std::map<size_t, std::string> wanted;
    for (const SolvedIndex& index : inverted.solved)
      if (!index.modulus) wanted[index.dimension] = index.index;
    std::set<std::string> used(inverted.remaining.begin(), inverted.remaining.end());
    std::vector<ExpressionPtr> elements;
    for (size_t d = 0; d < shape_.size(); ++d) {
      auto found = wanted.find(d);
      bool free = found != wanted.end() && used.insert(found->second).second;
      std::string own = free ? found->second : names_.index("i" + std::to_string(d));
      while (!free && !used.insert(own).second) own = names_.index(own + "_");
      elements.push_back(name(own));
    }
    return elements;
  }

  /// `elements` name the dimensions in the value, `places` are what the statement writes, and
  /// `remaining` the indices that it sums over.
  void add(const std::string& target, const std::vector<ExpressionPtr>& elements,
           const std::vector<ExpressionPtr>& places, ir::Reduction reduction, bool initializes,
           const ExpressionPtr& value, const IndexRanges& remaining = {}) {
    GradientStatement statement{target, places, reduction, initializes, rename(value, elements),
                                {}};
    for (size_t d = 0; d < elements.size(); ++d) {
      if (places[d] == elements[d]) statement.ranges.emplace_back(elements[d]->name, shape_[d]);
    }
    statement.ranges.insert(statement.ranges.end(), remaining.begin(), remaining.end());
    statements_.push_back(std::move(statement));
  }

  static ExpressionPtr rename(const ExpressionPtr& e, const std::vector<ExpressionPtr>& elements) {
    std::map<std::string, ExpressionPtr> names;
    for (size_t d = 0; d < elements.size(); ++d) names[element(d)] = elements[d];
    return substitute(e, names);
  }

  /// A convolution's adjoint reads the gradient beyond its edges. Instead of a condition at every
  /// point, which keeps a product from being one, a copy with zeros around it is read.
  /// Returns whether it did.
  bool pad(const Contribution& c, const InvertedAccess& inverted, ExpressionPtr* weight,
           std::vector<ExpressionPtr>* all) {
    auto found = shapes_.find(c.source);
    if (found == shapes_.end() || c.left.size() < c.source_places.size()) return false;
    const std::vector<Range>& shape = found->second;
    if (c.left.size() > shape.size()) return false;
    auto without_gradient = [&](const ExpressionPtr& e) {
      return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
        bool is_gradient = node.binding == Binding::Tensor && node.name == c.source;
        return is_gradient ? name("@gradient") : nullptr;
      });
    };
    // Reads of the gradient apart, what is left must not depend on the padded indices.
    std::vector<ExpressionPtr> left = {without_gradient(without_subscripts(c, c.weight))};
    for (const ExpressionPtr& guard : terms_of(c.guards))
      if (!is_implied(*guard, inverted))
        left.push_back(without_gradient(without_subscripts(c, guard)));
    std::vector<const SolvedIndex*> padded(c.left.size());
    bool any = false;
    for (const SolvedIndex& solved : inverted.solved) {
      auto at = std::find(c.left.begin(), c.left.end(), solved.index);
      if (solved.plain || solved.is_digit || solved.conditions.empty() || at == c.left.end())
        continue;
      if (!mentions(*solved.numerator, inverted.remaining) ||
          !always_equal(c.ranges.at(solved.index), shape[at - c.left.begin()], signature_))
        continue;
      if (std::any_of(left.begin(), left.end(),
                      [&](const ExpressionPtr& e) { return mentions(*e, solved.index); }))
        continue;
      padded[at - c.left.begin()] = &solved;
      any = true;
    }
    // Conditions may be what keeps other reads inside their tensors.
    if (!any || lang::any(*c.weight, [&](const Expression& e) {
          return is_access(e) && e.name != c.source &&
                 std::any_of(padded.begin(), padded.end(),
                             [&](const SolvedIndex* solved) {
                               return solved && mentions(e, solved->index);
                             }) &&
                 reads_outside(e, c, inverted);
        }))
      return false;

    std::vector<ExpressionPtr> at_source, coordinates;
    std::vector<ExpressionPtr> inside, divisible;
    GradientStatement copy{"", c.source_places, ir::Reduction::None, true, nullptr, {}};
    for (size_t d = 0; d < c.left.size(); ++d) {
      ExpressionPtr index = name(c.left[d]);
      at_source.push_back(index);
      if (!padded[d]) {
        copy.ranges.emplace_back(c.left[d], shape[d]);
        coordinates.push_back(inverted.translate(index));
        continue;
      }
      std::optional<Range> range = bounds(padded[d]->numerator, c, inverted);
      if (!range) return false;
      const int divisor = static_cast<int>(padded[d]->divisor.number);
      copy.ranges.emplace_back(c.left[d], Range{simplify_size(range->first / divisor, signature_),
                                                simplify_size(range->last / divisor, signature_)});
      inside.push_back(binary(Operator::GreaterEqual, index, from_halide(shape[d].first)));
      inside.push_back(binary(Operator::LessEqual, index, from_halide(shape[d].last)));
      if (divisor != 1) divisible.push_back(padded[d]->conditions.back());
      coordinates.push_back(binary(Operator::Divide, padded[d]->numerator, integer(divisor)));
    }
    copy.target = names_.fresh(c.source + "_padded");
    copy.value = choose(all_of(inside), read(c.source, at_source), real(0));
    statements_.push_back(copy);

    *weight = substitute(inverted.translate(without_gradient(c.weight)),
                         {{"@gradient", read(copy.target, coordinates)}});
    // The copy answers for their conditions, but for those of strides, without which it would have
    // zeros in between.
    *all = divisible;
    for (const SolvedIndex& solved : inverted.solved) {
      if (std::count(padded.begin(), padded.end(), &solved)) continue;
      all->insert(all->end(), solved.conditions.begin(), solved.conditions.end());
    }
    return true;
  }

  /// The expression with the subscripts of the access taken out: they stand for the element.
  static ExpressionPtr without_subscripts(const Contribution& c, const ExpressionPtr& e) {
    return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      for (const ExpressionPtr& subscript : c.subscripts) {
        bool composed = subscript->kind != ExpressionKind::Name;
        if (composed && equal(node, *subscript)) return name("");
      }
      return nullptr;
    });
  }

  /// The values of an affine expression of elements and remaining indices.
  std::optional<Range> bounds(ExpressionPtr e, const Contribution& c,
                              const InvertedAccess& inverted) const {
    Expr first = 0, last = 0;
    auto take = [&](const std::string& index, const Range& range) {
      auto form = split_affine(e, index);
      if (!form) return false;
      int k = static_cast<int>(form->coefficient);
      first = first + (k > 0 ? range.first : range.last) * k;
      last = last + (k > 0 ? range.last : range.first) * k;
      e = form->rest;
      return true;
    };
    for (size_t d = 0; d < shape_.size(); ++d) {
      if (!take(element(d), shape_[d])) return std::nullopt;
    }
    for (const std::string& index : inverted.remaining) {
      if (!take(index, c.ranges.at(index))) return std::nullopt;
    }
    Expr rest = to_halide(*e);
    if (!rest.defined()) return std::nullopt;
    return Range{simplify_size(first + rest, signature_), simplify_size(last + rest, signature_)};
  }

  const std::string& target_;
  Type type_;
  const std::vector<Range>& shape_;
  const std::map<std::string, std::vector<Range>>& shapes_;
  const ir::Program& signature_;
  ZeroSums& zeros_;
  FreshNames& names_;
  std::vector<GradientStatement> statements_;
};

}  // namespace

bool is_long(double operations) { return operations > kMaximumOperations / 2.0; }

IndexRanges ranges_of(const std::vector<std::string>& indices,
                      const std::map<std::string, Range>& ranges) {
  IndexRanges result;
  for (const std::string& index : indices) result.emplace_back(index, ranges.at(index));
  return result;
}

std::vector<GradientStatement> sum_contributions(
    const std::string& target, Type type, const std::vector<Range>& shape,
    const std::vector<Contribution>& contributions,
    const std::map<std::string, std::vector<Range>>& shapes, const ir::Program& signature,
    ZeroSums* zeros, FreshNames* names) {
  return Summation(target, type, shape, shapes, signature, zeros, names).run(contributions);
}

}  // namespace tc::lang
