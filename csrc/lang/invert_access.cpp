#include "lang/invert_access.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "base/error.h"
#include "lang/expressions.h"

namespace tc::lang {
namespace {

/// Subscripts inside `e` that stand for an element are that element, other names what is solved.
ExpressionPtr translate_with(const ExpressionPtr& e,
                             const std::vector<std::pair<ExpressionPtr, ExpressionPtr>>& subscripts,
                             const std::map<std::string, ExpressionPtr>& names) {
  return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
    for (const auto& [subscript, value] : subscripts) {
      if (subscript->kind != ExpressionKind::Number && equal(node, *subscript)) return value;
    }
    if (node.kind != ExpressionKind::Name) return nullptr;
    auto found = names.find(node.name);
    return found == names.end() ? nullptr : found->second;
  });
}

ExpressionPtr quotient(const SolvedIndex& solved) {
  return binary(Operator::Divide, solved.numerator, integer(solved.divisor));
}

/// Of the guards, the one that says that a quotient by a number has no rest; null where none does.
ExpressionPtr find_exact(const Expression& quotient, const std::vector<ExpressionPtr>& guards) {
  if (quotient.kind != ExpressionKind::Binary || quotient.op != Operator::Divide) return nullptr;
  auto divisor = constant_value(*quotient.operands[1]);
  if (!divisor || *divisor < 1) return nullptr;
  const ExpressionPtr remainder =
      binary(Operator::Remainder, quotient.operands[0], quotient.operands[1]);
  for (const ExpressionPtr& guard : guards)
    if (guard->kind == ExpressionKind::Binary && guard->op == Operator::Equal &&
        constant_value(*guard->operands[1]) == 0 && equal(*guard->operands[0], *remainder))
      return guard;
  return nullptr;
}

}  // namespace

std::string element(size_t dimension) { return "@" + std::to_string(dimension); }

ExpressionPtr InvertedAccess::translate(const ExpressionPtr& e) const {
  std::map<std::string, ExpressionPtr> names;
  for (const SolvedIndex& index : solved) names[index.index] = quotient(index);
  return translate_with(e, subscripts, names);
}

InvertedAccess invert_access(const std::vector<ExpressionPtr>& subscripts,
                             const std::vector<std::string>& indices,
                             const std::vector<std::string>& left,
                             const std::map<std::string, Range>& ranges,
                             const std::vector<ExpressionPtr>& guards,
                             const std::vector<Range>& shape, const ir::Program& signature) {
  InvertedAccess result;
  std::map<std::string, ExpressionPtr> solution;
  auto is_free = [&](const std::string& index) {
    bool known = std::find(indices.begin(), indices.end(), index) != indices.end();
    return known && !solution.count(index);
  };
  std::vector<bool> done(subscripts.size());
  result.scattered.resize(subscripts.size());
  for (size_t d = 0; d < subscripts.size(); ++d) {
    result.subscripts.emplace_back(subscripts[d], name(element(d)));
    const Expression& e = *subscripts[d];
    if (e.kind != ExpressionKind::Name || !is_free(e.name)) continue;
    SolvedIndex solved{e.name, d, name(element(d)), 1, {}, true};
    const Range& range = ranges.at(e.name);
    if (!always_equal(range.first, shape[d].first, signature)) {
      solved.conditions.push_back(
          binary(Operator::GreaterEqual, name(element(d)), from_halide(range.first)));
    }
    if (!always_equal(range.last, shape[d].last, signature)) {
      solved.conditions.push_back(
          binary(Operator::LessEqual, name(element(d)), from_halide(range.last)));
    }
    solution[e.name] = name(element(d));
    result.solved.push_back(solved);
    done[d] = true;
  }
  for (size_t d = 0; d < subscripts.size(); ++d) {
    if (done[d]) continue;
    // divisor * element = e
    const ExpressionPtr exact = find_exact(*subscripts[d], guards);
    const ExpressionPtr factor = exact ? subscripts[d]->operands[1] : integer(1);
    const ExpressionPtr here = binary(Operator::Multiply, factor, name(element(d)));
    ExpressionPtr e = substitute(exact ? subscripts[d]->operands[0] : subscripts[d], solution);
    const std::string* best = nullptr;
    AffineInIndex best_form;
    // What is left is summed over: rather an index of a fixed range, as a place in a window, than
    // one that a size bounds.
    auto rank = [&](const std::string& index, const AffineInIndex& form) {
      bool is_left = std::find(left.begin(), left.end(), index) != left.end();
      const Range& range = ranges.at(index);
      bool is_fixed =
          Halide::Internal::is_const(range.first) && Halide::Internal::is_const(range.last);
      return std::make_tuple(!is_left, is_fixed, std::abs(form.coefficient));
    };
    for (const std::string& index : indices) {
      if (!is_free(index)) continue;
      auto form = split_affine(e, index);
      if (!form || form->coefficient == 0) continue;
      if (!best || rank(index, *form) < rank(*best, best_form)) {
        best = &index;
        best_form = *form;
      }
    }
    if (!best) {
      bool free = std::any_of(indices.begin(), indices.end(), [&](const std::string& index) {
        return is_free(index) && mentions(*e, index);
      });
      if (free) {
        result.scattered[d] = substitute(subscripts[d], solution);
      } else {
        result.conditions.push_back(binary(Operator::Equal, e, here));
      }
      continue;
    }
    SolvedIndex solved{*best, d, nullptr, std::abs(best_form.coefficient), {}, false};
    if (exact) result.implied.push_back(exact);
    solved.numerator = best_form.coefficient > 0 ? binary(Operator::Subtract, here, best_form.rest)
                                                 : binary(Operator::Subtract, best_form.rest, here);
    const Range& range = ranges.at(*best);
    ExpressionPtr divisor = integer(solved.divisor);
    auto bound = [&](const Expr& limit) {
      return from_halide(simplify_size(limit * static_cast<int>(solved.divisor), signature));
    };
    solved.conditions = {
        binary(Operator::GreaterEqual, solved.numerator, bound(range.first)),
        binary(Operator::LessEqual, solved.numerator, bound(range.last)),
    };
    if (solved.divisor != 1) {
      solved.conditions.push_back(binary(
          Operator::Equal, binary(Operator::Remainder, solved.numerator, divisor), integer(0)));
    }
    // What was solved before may have been left in terms of this index.
    std::map<std::string, ExpressionPtr> found{{*best, quotient(solved)}};
    for (auto& entry : solution) entry.second = substitute(entry.second, found);
    for (SolvedIndex& earlier : result.solved) {
      earlier.numerator = substitute(earlier.numerator, found);
      for (ExpressionPtr& condition : earlier.conditions) condition = substitute(condition, found);
    }
    for (auto* list : {&result.conditions, &result.scattered}) {
      for (ExpressionPtr& e : *list) {
        if (e) e = substitute(e, found);
      }
    }
    solution[*best] = quotient(solved);
    result.solved.push_back(solved);
  }
  for (const std::string& index : indices) {
    if (!solution.count(index)) result.remaining.push_back(index);
  }
  // What is scattered has no element to stand for.
  for (size_t d = subscripts.size(); d-- > 0;) {
    if (result.scattered[d]) result.subscripts.erase(result.subscripts.begin() + d);
  }
  return result;
}

}  // namespace tc::lang
