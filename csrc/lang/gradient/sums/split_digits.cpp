#include "lang/gradient/sums/split_digits.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

/// index / divisor % modulus; 0 for no modulus.
struct Digits {
  std::string index;
  int64_t divisor = 1, modulus = 0;
};

/// Larger numbers would be no digits of anything that fits into memory.
constexpr int64_t kMaxWeight = int64_t{1} << 31;

/// The value of an expression of integers.
std::optional<int64_t> number(const Expression& e) {
  if (auto value = constant_value(e)) return value;
  if (!is_binary(e, Operator::Multiply)) return std::nullopt;
  auto a = number(*e.operands[0]), b = number(*e.operands[1]);
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

std::optional<Digits> find_digits(const Expression& e) {
  if (e.kind == ExpressionKind::Name) return Digits{e.name};
  if (e.kind != ExpressionKind::Binary || (e.op != Operator::Divide && e.op != Operator::Remainder))
    return std::nullopt;
  auto k = number(*e.operands[1]);
  if (!k || *k < 1 || *k > kMaxWeight) return std::nullopt;
  auto digits = find_digits(*e.operands[0]);
  if (!digits || (digits->modulus && digits->modulus % *k != 0)) return std::nullopt;
  if (e.op == Operator::Remainder) {
    digits->modulus = *k;
  } else {
    digits->divisor *= *k;
    digits->modulus /= *k;
    if (digits->divisor > kMaxWeight) return std::nullopt;
  }
  return digits;
}

class Splitting {
 public:
  Splitting(std::string index, const std::set<int64_t>& weights, FreshNames& names)
      : index_(std::move(index)), weights_{1} {
    weights_.insert(weights_.end(), weights.begin(), weights.end());
    for (size_t k = 0; k < weights_.size(); ++k)
      names_.push_back(names.fresh(index_ + "_" + std::to_string(k)));
  }

  const std::vector<std::string>& names() const { return names_; }
  int64_t largest() const { return weights_.back(); }
  /// How many values a digit has that is not the last.
  int64_t count(size_t k) const { return weights_[k + 1] / weights_[k]; }

  /// The index itself, largest digit first.
  ExpressionPtr whole() const { return between(1, 0); }

  ExpressionPtr operator()(const ExpressionPtr& e) const {
    return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      auto digits = find_digits(node);
      if (!digits || digits->index != index_) return nullptr;
      int64_t end = digits->modulus * digits->divisor;
      bool known = has(digits->divisor) && (end == 0 || has(end));
      return known ? between(digits->divisor, end) : nullptr;
    });
  }

 private:
  bool has(int64_t weight) const {
    return std::find(weights_.begin(), weights_.end(), weight) != weights_.end();
  }

  /// The digits from weight `first` up to `end`, which 0 leaves open, over `first`.
  ExpressionPtr between(int64_t first, int64_t end) const {
    ExpressionPtr sum = integer(0);
    for (size_t k = weights_.size(); k-- > 0;) {
      if (weights_[k] < first || (end && weights_[k] >= end)) continue;
      sum = binary(Operator::Add, sum,
                   binary(Operator::Multiply, integer(weights_[k] / first), name(names_[k])));
    }
    return sum;
  }

  std::string index_;
  std::vector<int64_t> weights_;  ///< of the digits, each a multiple of the one before
  std::vector<std::string> names_;
};

/// The weights of the digits that the subscripts know an index by, but 1; none where they do not
/// divide each other.
std::set<int64_t> find_weights(const std::vector<ExpressionPtr>& subscripts,
                               const std::string& index) {
  std::set<int64_t> weights;
  for (const ExpressionPtr& subscript : subscripts) {
    rewrite(subscript, [&](const Expression& node) -> ExpressionPtr {
      auto digits = find_digits(node);
      if (!digits || digits->index != index) return nullptr;
      weights.insert(digits->divisor);
      if (digits->modulus) weights.insert(digits->divisor * digits->modulus);
      return lang::name("");
    });
  }
  weights.erase(1);
  int64_t last = 1;
  for (int64_t weight : weights) {
    if (weight % last != 0) return {};
    last = weight;
  }
  return weights;
}

void replace(std::vector<std::string>* list, const std::string& index,
             const std::vector<std::string>& digits) {
  auto at = std::find(list->begin(), list->end(), index);
  if (at == list->end()) return;
  at = list->erase(at);
  list->insert(at, digits.rbegin(), digits.rend());
}

}  // namespace

bool split_digits(Contribution* contribution, const ir::Program& signature,
                  const FreshNames& names) {
  FreshNames taken = names;  // indices may be called so in other statements
  bool any = false;
  for (const std::string& index : std::vector<std::string>(contribution->indices)) {
    const Range range = contribution->ranges.at(index);
    if (!Halide::Internal::is_const_zero(range.first)) continue;
    std::set<int64_t> weights = find_weights(contribution->subscripts, index);
    if (weights.empty() || *weights.rbegin() > std::numeric_limits<int32_t>::max()) continue;
    Splitting split(index, weights, taken);
    const int largest = static_cast<int>(split.largest());
    contribution->ranges.erase(index);
    for (size_t k = 0; k < split.names().size(); ++k) {
      bool last = k + 1 == split.names().size();
      Expr end = last ? simplify_size(range.last / largest, signature)
                      : Expr(static_cast<int>(split.count(k) - 1));
      contribution->ranges[split.names()[k]] = {0, end};
    }
    for (auto* list :
         {&contribution->subscripts, &contribution->guards, &contribution->source_places})
      for (ExpressionPtr& e : *list) e = split(e);
    contribution->weight = split(contribution->weight);
    if (!always_equal((range.last + 1) / largest * largest, range.last + 1, signature))
      // The others may read at the index.
      contribution->guards.insert(
          contribution->guards.begin(),
          binary(Operator::LessEqual, split.whole(), from_halide(range.last)));
    replace(&contribution->indices, index, split.names());
    replace(&contribution->left, index, split.names());
    any = true;
  }
  return any;
}

}  // namespace tc::lang
