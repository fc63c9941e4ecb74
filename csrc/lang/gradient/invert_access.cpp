#include "lang/gradient/invert_access.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <tuple>

#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// Sizes times factors up to it are taken to have room in 32 bits.
constexpr int64_t kSmallFactor = 255;
/// So many terms that an element looks at are few.
constexpr int64_t kFew = 8;

ExpressionPtr quotient(const SolvedIndex& solved) {
  ExpressionPtr e = binary(Operator::Divide, solved.numerator, solved.divisor.text());
  return solved.modulus ? binary(Operator::Remainder, e, solved.modulus->text()) : e;
}

/// Of the guards, the one that says that a quotient by a number has no rest; null where none does.
ExpressionPtr find_exact(const Expression& quotient, const std::vector<ExpressionPtr>& guards) {
  if (!is_binary(quotient, Operator::Divide)) return nullptr;
  auto divisor = constant_value(*quotient.operands[1]);
  if (!divisor || *divisor < 1) return nullptr;
  const ExpressionPtr remainder =
      binary(Operator::Remainder, quotient.operands[0], quotient.operands[1]);
  for (const ExpressionPtr& guard : guards)
    if (is_binary(*guard, Operator::Equal) && constant_value(*guard->operands[1]) == 0 &&
        equal(*guard->operands[0], *remainder))
      return guard;
  return nullptr;
}

/// That it lies in a range.
std::vector<ExpressionPtr> inside(const ExpressionPtr& e, const Range& range) {
  return {binary(Operator::GreaterEqual, e, from_halide(range.first)),
          binary(Operator::LessEqual, e, from_halide(range.last))};
}

/// weight * index
struct Digit {
  std::string index;
  SizeProduct weight;
  /// How many times the weight is in the next larger one; none for the largest.
  std::optional<SizeProduct> count;
};

/// Two and more indices of which no two points have one sum, as 9 * c + 3 * y + x has none where x
/// and y are in 0:3; the largest first. Empty where that is not so. `rest` is what is left of the
/// sum.
std::vector<Digit> find_digits(ExpressionPtr e, const std::vector<std::string>& indices,
                               const std::map<std::string, Range>& ranges,
                               const ir::Program& signature, ExpressionPtr* rest) {
  std::vector<Digit> digits;
  for (const std::string& index : indices) {
    if (!mentions(*e, index)) continue;
    auto form = split_weighted(e, index, signature);
    if (!form) return {};
    digits.push_back({index, form->weight, {}});
    e = form->rest;
  }
  if (digits.size() < 2) return {};
  std::stable_sort(digits.begin(), digits.end(),
                   [](const Digit& a, const Digit& b) { return b.weight < a.weight; });
  auto first = as_const_int(ranges.at(digits[0].index).first);
  if (!first || *first < 0) return {};
  for (size_t k = 1; k < digits.size(); ++k) {
    const Range& range = ranges.at(digits[k].index);
    digits[k].count = exact_quotient(digits[k - 1].weight, digits[k].weight);
    if (!is_const_zero(range.first) || !digits[k].count ||
        !never_negative(simplify_size(digits[k].count->value() - 1 - range.last, signature)))
      return {};
  }
  *rest = e;
  return digits;
}

/// Digit `k` of what the digits add up to.
SolvedIndex solve_digit(const std::vector<Digit>& digits, size_t k, const ExpressionPtr& sum,
                        size_t dimension, const Range& range, const ir::Program& signature) {
  const SizeProduct& weight = digits[k].weight;
  SolvedIndex solved{digits[k].index, dimension, sum, weight, true, digits[k].count, {}, false};
  if (k == 0) {
    const Expr w = weight.value();
    solved.conditions = inside(sum, {simplify_size(range.first * w, signature),
                                     simplify_size(range.last * w + (w - 1), signature)});
    return solved;
  }
  if (!always_equal(range.last, solved.modulus->value() - 1, signature))
    solved.conditions.push_back(
        binary(Operator::LessEqual, quotient(solved), from_halide(range.last)));
  if (k + 1 == digits.size() && !weight.is_one())
    solved.conditions.push_back(
        binary(Operator::Equal, binary(Operator::Remainder, sum, weight.text()), integer(0)));
  return solved;
}

bool is_leaf(const Expression& e) {
  return e.kind == ExpressionKind::Name || e.kind == ExpressionKind::Dimension;
}

bool is_large(const Expression& e) {
  const std::optional<int64_t> value = constant_value(e);
  return value && (*value < -kSmallFactor || *value > kSmallFactor);
}

/// A subscript as a value. Subscripts do not wrap around where no data takes part, values of 32
/// bits do: what may leave them is computed with 64.
ExpressionPtr exact(const ExpressionPtr& e) {
  if (!may_wrap_around(*e) || any(*e, is_access)) return e;
  const bool varies = any(*e, is_leaf);
  const std::function<ExpressionPtr(const Expression&)> widen = [&](const Expression& node) {
    const bool is_cast = node.kind == ExpressionKind::Cast;
    // As a subscript is computed, without casts from and to 32 bits.
    if (is_cast && (node.cast_type == Halide::Int(32) || node.cast_type == Halide::Int(64)))
      return cast(Halide::Int(64), rewrite(node.operands[0], widen));
    // Numbers alone give the type where nothing else does.
    const bool ends = is_cast || is_leaf(node) || (!varies && is_large(node));
    return ends ? cast(Halide::Int(64), std::make_shared<Expression>(node)) : nullptr;
  };
  return rewrite(e, widen);
}

/// Solves a subscript (i + rest) % M or (rest - i) % M for an index that takes each remainder once.
std::optional<SolvedIndex> solve_rotation(const ExpressionPtr& subscript, size_t dimension,
                                          const std::vector<std::string>& indices,
                                          const std::map<std::string, Range>& ranges,
                                          const Range& shape, const ir::Program& signature) {
  if (!is_binary(*subscript, Operator::Remainder)) return std::nullopt;
  const ExpressionPtr modulus = subscript->operands[1];
  const Expr size = to_halide(*modulus);
  if (!size.defined()) return std::nullopt;
  for (const std::string& index : indices) {
    if (!mentions(*subscript, index)) continue;
    auto form = split_affine(subscript->operands[0], index);
    const Range& range = ranges.at(index);
    if (!form || std::abs(form->coefficient) != 1 || mentions(*modulus, index) ||
        !always_equal(range.first, 0, signature) || !always_equal(range.last, size - 1, signature))
      return std::nullopt;
    if (mentions(*form->rest, indices)) return std::nullopt;
    // Remainders of what is negative are negative.
    ExpressionPtr e = name(element(dimension));
    e = form->coefficient > 0 ? binary(Operator::Subtract, e, form->rest)
                              : binary(Operator::Subtract, form->rest, e);
    const ExpressionPtr distance = exact(e);
    const ExpressionPtr positive =
        binary(Operator::Add, binary(Operator::Remainder, distance, modulus), modulus);
    ExpressionPtr place = binary(Operator::Remainder, positive, modulus);
    // What is computed with an index wraps around as 32 bits do.
    if (distance != e) place = cast(Halide::Int(32), place);
    SolvedIndex solved{index, dimension, place, {}, true, {}, {}, false};
    if (!always_equal(shape, Range{0, size - 1}, signature))
      solved.conditions = inside(name(element(dimension)), {0, size - 1});
    return solved;
  }
  return std::nullopt;
}

/// Those of the indices on which something other than a sum of multiples depends, as data or a
/// quotient does: no element decides them.
std::vector<std::string> find_hidden(const ExpressionPtr& e,
                                     const std::vector<std::string>& indices) {
  std::vector<std::string> hidden;
  for (const std::string& index : indices)
    if (!split_affine(e, index)) hidden.push_back(index);
  return hidden;
}

/// Whether they have a few values together, whatever the sizes are.
bool are_few(const std::vector<std::string>& indices, const std::map<std::string, Range>& ranges) {
  int64_t points = 1;
  for (const std::string& index : indices) {
    const Range& range = ranges.at(index);
    const auto extent = as_const_int(simplify(range.last - range.first + 1));
    if (!extent || *extent > kFew) return false;
    points *= std::max<int64_t>(*extent, 1);
    if (points > kFew) return false;
  }
  return true;
}

/// Whether a window so wide is its dimension but for a margin that does not grow with it, or half
/// of a dimension of a fixed size.
bool is_most_of(const Expr& width, const Range& dimension, const ir::Program& signature) {
  const Expr whole = simplify_size(dimension.last - dimension.first + 1, signature);
  const Expr less = simplify_size(whole - width, signature);
  const auto places = as_const_int(whole), lost = as_const_int(less);
  if (places) return lost && 2 * *lost <= *places;
  return std::none_of(signature.sizes.begin(), signature.sizes.end(), [&](const std::string& size) {
    return expr_uses_var(whole, size) && expr_uses_var(less, size);
  });
}

}  // namespace

bool may_wrap_around(const Expression& e) {
  return any(e, [](const Expression& node) {
    return is_large(node) ||
           (is_binary(node, Operator::Multiply) && !constant_value(*node.operands[0]) &&
            !constant_value(*node.operands[1]));
  });
}

std::string element(size_t dimension) { return "@" + std::to_string(dimension); }

ExpressionPtr InvertedAccess::translate(const ExpressionPtr& e) const {
  std::map<std::string, ExpressionPtr> names;
  for (const SolvedIndex& index : solved) names[index.index] = quotient(index);
  return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
    for (const auto& [subscript, value] : subscripts) {
      if (subscript->kind == ExpressionKind::Number || !equal(node, *subscript)) continue;
      // Computed with in the type that it had.
      const Type& type = subscript->type;
      return type.is_int_or_uint() && type != Halide::Int(32) ? cast(type, value) : value;
    }
    if (node.kind != ExpressionKind::Name) return nullptr;
    auto found = names.find(node.name);
    return found == names.end() ? nullptr : found->second;
  });
}

InvertedAccess invert_access(const std::vector<ExpressionPtr>& subscripts,
                             const std::vector<std::string>& indices,
                             const std::vector<std::string>& left,
                             const std::map<std::string, Range>& ranges,
                             const std::vector<ExpressionPtr>& guards,
                             const std::vector<Range>& shape, const ir::Program& signature) {
  InvertedAccess result;
  std::vector<std::string>& free = result.remaining = indices;
  std::map<std::string, ExpressionPtr> solution;
  auto settle = [&](const SolvedIndex& solved) {
    // What was solved before may have been left in terms of this index.
    std::map<std::string, ExpressionPtr> found{{solved.index, quotient(solved)}};
    for (auto& entry : solution) entry.second = substitute(entry.second, found);
    for (SolvedIndex& earlier : result.solved) {
      earlier.numerator = substitute(earlier.numerator, found);
      for (ExpressionPtr& condition : earlier.conditions) condition = substitute(condition, found);
    }
    for (ExpressionPtr& place : result.scattered) {
      if (place) place = substitute(place, found);
    }
    solution[solved.index] = quotient(solved);
    free.erase(std::remove(free.begin(), free.end(), solved.index), free.end());
    result.solved.push_back(solved);
  };
  std::vector<bool> done(subscripts.size());
  result.scattered.resize(subscripts.size());
  for (size_t d = 0; d < subscripts.size(); ++d) {
    result.subscripts.emplace_back(subscripts[d], name(element(d)));
    const Expression& e = *subscripts[d];
    if (e.kind != ExpressionKind::Name || !std::count(free.begin(), free.end(), e.name)) continue;
    SolvedIndex solved{e.name, d, name(element(d)), {}, false, {}, {}, true};
    const Range& range = ranges.at(e.name);
    if (!always_equal(range.first, shape[d].first, signature)) {
      solved.conditions.push_back(
          binary(Operator::GreaterEqual, name(element(d)), from_halide(range.first)));
    }
    if (!always_equal(range.last, shape[d].last, signature)) {
      solved.conditions.push_back(
          binary(Operator::LessEqual, name(element(d)), from_halide(range.last)));
    }
    settle(solved);
    done[d] = true;
  }
  const auto is_left = [&](const std::string& index) {
    return std::find(left.begin(), left.end(), index) != left.end();
  };
  // Whether a gather would look at a whole dimension for a narrow window that data places, once for
  // each of many values of an index that stays behind the data: a scatter takes only the window. In
  // a sum over places that data holds, as of a filter with few weights, all are wanted everywhere.
  const auto would_search = [&](const ExpressionPtr& rest, const std::string& index,
                                const Expr& width, const Range& dimension) {
    const std::vector<std::string> hidden = find_hidden(rest, free);
    if (hidden.empty() || are_few(hidden, ranges)) return false;
    if (is_left(index) && std::none_of(hidden.begin(), hidden.end(), is_left)) return false;
    return !is_most_of(width, dimension, signature);
  };
  // A dimension that another may help, since that one decides an index behind data, comes again.
  std::vector<size_t> order;
  for (size_t d = 0; d < subscripts.size(); ++d)
    if (!done[d]) order.push_back(d);
  const size_t count = order.size();
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t d = order[k];
    bool searches = false;
    // divisor * element = e
    const ExpressionPtr exact = find_exact(*subscripts[d], guards);
    const ExpressionPtr factor = exact ? subscripts[d]->operands[1] : integer(1);
    const ExpressionPtr here = binary(Operator::Multiply, factor, name(element(d)));
    ExpressionPtr e = substitute(exact ? subscripts[d]->operands[0] : subscripts[d], solution);
    if (!exact) {
      ExpressionPtr rest;
      const std::vector<Digit> digits = find_digits(e, free, ranges, signature, &rest);
      searches =
          !digits.empty() &&
          would_search(rest, digits[0].index,
                       (ranges.at(digits[0].index).last + 1) * digits[0].weight.value(), shape[d]);
      if (!digits.empty() && !searches) {
        for (size_t digit = 0; digit < digits.size(); ++digit)
          settle(solve_digit(digits, digit, binary(Operator::Subtract, here, rest), d,
                             ranges.at(digits[digit].index), signature));
        continue;
      }
      if (auto rotation = solve_rotation(e, d, free, ranges, shape[d], signature)) {
        settle(*rotation);
        continue;
      }
    }
    const std::string* best = nullptr;
    AffineInIndex best_form;
    // What is left is summed over: rather an index of a fixed range, as a place in a window, than
    // one that a size bounds.
    auto rank = [&](const std::string& index, const AffineInIndex& form) {
      const Range& range = ranges.at(index);
      bool is_fixed = is_const(range.first) && is_const(range.last);
      return std::make_tuple(!is_left(index), is_fixed, std::abs(form.coefficient));
    };
    for (const std::string& index : free) {
      auto form = split_affine(e, index);
      if (!form || form->coefficient == 0) continue;
      if (!best || rank(index, *form) < rank(*best, best_form)) {
        best = &index;
        best_form = *form;
      }
    }
    const int64_t number = std::abs(best_form.coefficient);
    if (best && !searches) {
      const Range& range = ranges.at(*best);
      searches = would_search(best_form.rest, *best,
                              (range.last - range.first + 1) * static_cast<int>(number), shape[d]);
    }
    if (searches && k < count) {
      order.push_back(d);
      continue;
    }
    if (!best || searches) {
      result.scattered[d] = substitute(subscripts[d], solution);
      continue;
    }
    SolvedIndex solved{*best, d, nullptr, SizeProduct(number), false, {}, {}, false};
    if (exact) result.implied.push_back(exact);
    solved.numerator = best_form.coefficient > 0 ? binary(Operator::Subtract, here, best_form.rest)
                                                 : binary(Operator::Subtract, best_form.rest, here);
    const Range& range = ranges.at(*best);
    const int divisor = static_cast<int>(number);
    solved.conditions = inside(solved.numerator, {simplify_size(range.first * divisor, signature),
                                                  simplify_size(range.last * divisor, signature)});
    if (number != 1) {
      const ExpressionPtr rest = binary(Operator::Remainder, solved.numerator, integer(number));
      solved.conditions.push_back(binary(Operator::Equal, rest, integer(0)));
    }
    settle(solved);
  }
  // Where no index is left to scatter, the other dimensions decide the place of an element.
  if (std::none_of(result.scattered.begin(), result.scattered.end(),
                   [&](const ExpressionPtr& place) {
                     return place && mentions(*place, result.remaining);
                   })) {
    for (size_t d = 0; d < subscripts.size(); ++d) {
      ExpressionPtr& place = result.scattered[d];
      if (!place) continue;
      result.conditions.push_back(binary(Operator::Equal, exact(place), name(element(d))));
      place = nullptr;
    }
  }
  // What is scattered has no element to stand for.
  for (size_t d = subscripts.size(); d-- > 0;) {
    if (result.scattered[d]) result.subscripts.erase(result.subscripts.begin() + d);
  }
  return result;
}

}  // namespace tc::lang
