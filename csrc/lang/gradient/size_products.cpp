#include "lang/gradient/size_products.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

/// Larger numbers would be no weights of anything that fits into memory.
constexpr int64_t kMaxWeight = std::numeric_limits<int32_t>::max();

/// Whether it is made of 32-bit numbers, indices and sizes alone, so that parts of it may be moved
/// about.
bool is_plain(const Expression& e) {
  return !any(e, [](const Expression& node) {
    return node.kind == ExpressionKind::Apply || node.kind == ExpressionKind::Cast ||
           node.kind == ExpressionKind::Ternary ||
           (node.type.is_int_or_uint() && node.type != Halide::Int(32) && !node.adaptable);
  });
}

}  // namespace

ExpressionPtr SizeProduct::text() const {
  ExpressionPtr result = integer(number);
  for (const std::string& size : sizes) result = binary(Operator::Multiply, result, name(size));
  return result;
}

Expr SizeProduct::value() const {
  Expr result = make_const(Halide::Int(32), number);
  for (const std::string& size : sizes) result = result * ir::make_variable(size);
  return result;
}

std::optional<SizeProduct> product(const SizeProduct& a, const SizeProduct& b) {
  SizeProduct result;
  if (__builtin_mul_overflow(a.number, b.number, &result.number) || result.number > kMaxWeight)
    return std::nullopt;
  std::merge(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(),
             std::back_inserter(result.sizes));
  return result;
}

std::optional<SizeProduct> exact_quotient(const SizeProduct& a, const SizeProduct& b) {
  if (a.number % b.number != 0 ||
      !std::includes(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end()))
    return std::nullopt;
  SizeProduct result(a.number / b.number);
  std::set_difference(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(),
                      std::back_inserter(result.sizes));
  return result;
}

std::optional<SizeProduct> find_product(const Expression& e, const ir::Program& signature) {
  if (auto value = constant_value(e)) {
    if (*value < 1 || *value > kMaxWeight) return std::nullopt;
    return SizeProduct(*value);
  }
  if (e.kind == ExpressionKind::Name) {
    const std::vector<std::string>& sizes = signature.sizes;
    if (std::find(sizes.begin(), sizes.end(), e.name) == sizes.end()) return std::nullopt;
    SizeProduct result;
    result.sizes.push_back(e.name);
    return result;
  }
  if (e.kind == ExpressionKind::Dimension)
    return find_product(signature.tensor(e.name).sizes.at(e.dimension), signature);
  if (!is_binary(e, Operator::Multiply)) return std::nullopt;
  auto a = find_product(*e.operands[0], signature), b = find_product(*e.operands[1], signature);
  return a && b ? product(*a, *b) : std::nullopt;
}

std::optional<SizeProduct> find_product(const Expr& e, const ir::Program& signature) {
  return find_product(*from_halide(e), signature);
}

std::optional<WeightedIndex> split_weighted(const ExpressionPtr& e, const std::string& index,
                                            const ir::Program& signature) {
  if (auto form = split_affine(e, index)) {
    if (form->coefficient < 1 || form->coefficient > kMaxWeight) return std::nullopt;
    return WeightedIndex{SizeProduct(form->coefficient), form->rest};
  }
  if (e->kind != ExpressionKind::Binary || !is_plain(*e)) return std::nullopt;
  const ExpressionPtr &a = e->operands[0], &b = e->operands[1];
  const bool left = mentions(*a, index), right = mentions(*b, index);
  if (left && right) return std::nullopt;
  auto inner = split_weighted(left ? a : b, index, signature);
  if (!inner) return std::nullopt;
  switch (e->op) {
    case Operator::Add:
      inner->rest = left ? binary(e->op, inner->rest, b) : binary(e->op, a, inner->rest);
      return inner;
    case Operator::Subtract:
      if (right) return std::nullopt;
      inner->rest = binary(e->op, inner->rest, b);
      return inner;
    case Operator::Multiply: {
      const ExpressionPtr& factor = left ? b : a;
      auto number = find_product(*factor, signature);
      auto weight = number ? product(inner->weight, *number) : std::nullopt;
      if (!weight) return std::nullopt;
      inner->weight = *weight;
      if (!is_constant(*inner->rest, 0))
        inner->rest = binary(Operator::Multiply, factor, inner->rest);
      return inner;
    }
    default: return std::nullopt;
  }
}

}  // namespace tc::lang
