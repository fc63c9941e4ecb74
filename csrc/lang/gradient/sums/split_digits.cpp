#include "lang/gradient/sums/split_digits.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lang/gradient/size_products.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

/// index / divisor % modulus
struct Digits {
  std::string index;
  SizeProduct divisor;
  std::optional<SizeProduct> modulus;
};

std::optional<Digits> find_digits(const Expression& e, const ir::Program& signature) {
  if (e.kind == ExpressionKind::Name) return Digits{e.name, {}, {}};
  if (e.kind != ExpressionKind::Binary || (e.op != Operator::Divide && e.op != Operator::Remainder))
    return std::nullopt;
  auto k = find_product(*e.operands[1], signature);
  auto digits = k ? find_digits(*e.operands[0], signature) : std::nullopt;
  if (!digits) return std::nullopt;
  std::optional<SizeProduct> left;
  if (digits->modulus) {
    left = exact_quotient(*digits->modulus, *k);
    if (!left) return std::nullopt;
  }
  if (e.op == Operator::Remainder) {
    digits->modulus = k;
    return digits;
  }
  auto divisor = product(digits->divisor, *k);
  if (!divisor) return std::nullopt;
  digits->divisor = *divisor;
  digits->modulus = left;
  return digits;
}

class Splitting {
 public:
  Splitting(std::string index, const std::set<SizeProduct>& weights, const ir::Program& signature,
            FreshNames& names)
      : index_(std::move(index)), weights_(1), signature_(signature) {
    weights_.insert(weights_.end(), weights.begin(), weights.end());
    for (size_t k = 0; k < weights_.size(); ++k)
      names_.push_back(names.fresh(index_ + "_" + std::to_string(k)));
  }

  const std::vector<std::string>& names() const { return names_; }
  /// How many values a digit has that is not the last.
  SizeProduct count(size_t k) const { return *exact_quotient(weights_[k + 1], weights_[k]); }

  /// The index itself, largest digit first.
  ExpressionPtr whole() const { return between({}, {}); }

  ExpressionPtr operator()(const ExpressionPtr& e) const {
    return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      auto digits = find_digits(node, signature_);
      if (!digits || digits->index != index_) return nullptr;
      std::optional<SizeProduct> end;
      if (digits->modulus) {
        end = product(*digits->modulus, digits->divisor);
        if (!end) return nullptr;
      }
      return between(digits->divisor, end);
    });
  }

 private:
  /// The digits from weight `first` up to `end`, or all from it on, over `first`; null where one of
  /// these is no weight of a digit.
  ExpressionPtr between(const SizeProduct& first, const std::optional<SizeProduct>& end) const {
    const auto from = std::find(weights_.begin(), weights_.end(), first);
    const auto to = end ? std::find(weights_.begin(), weights_.end(), *end) : weights_.end();
    if (from == weights_.end() || (end && to == weights_.end())) return nullptr;
    ExpressionPtr sum = integer(0);
    for (auto k = to - weights_.begin(); k-- > from - weights_.begin();) {
      sum = binary(
          Operator::Add, sum,
          binary(Operator::Multiply, exact_quotient(weights_[k], first)->text(), name(names_[k])));
    }
    return sum;
  }

  std::string index_;
  std::vector<SizeProduct> weights_;  ///< of the digits, each a multiple of the one before
  std::vector<std::string> names_;
  const ir::Program& signature_;
};

/// The weights of the digits that the subscripts know an index by, but 1; none where they do not
/// divide each other.
std::set<SizeProduct> find_weights(const std::vector<ExpressionPtr>& subscripts,
                                   const std::string& index, const ir::Program& signature) {
  std::set<SizeProduct> weights;
  bool fit = true;
  for (const ExpressionPtr& subscript : subscripts) {
    rewrite(subscript, [&](const Expression& node) -> ExpressionPtr {
      auto digits = find_digits(node, signature);
      if (!digits || digits->index != index) return nullptr;
      weights.insert(digits->divisor);
      if (digits->modulus) {
        auto end = product(digits->divisor, *digits->modulus);
        fit = fit && end;
        if (end) weights.insert(*end);
      }
      return lang::name("");
    });
  }
  weights.erase(SizeProduct());
  SizeProduct last;
  for (const SizeProduct& weight : weights) {
    fit = fit && exact_quotient(weight, last);
    last = weight;
  }
  return fit ? weights : std::set<SizeProduct>();
}

/// The last value of the most significant digit of an index from 0. Nothing where sizes make the
/// digits and these do not fill the range exactly, for some sizes to be divided by could be 0 then.
std::optional<Expr> last_digit(const Expr& last, const SizeProduct& largest,
                               const ir::Program& signature) {
  if (largest.is_number()) return simplify_size(last / static_cast<int>(largest.number), signature);
  auto extent = find_product(simplify_size(last + 1, signature), signature);
  auto count = extent ? exact_quotient(*extent, largest) : std::nullopt;
  if (!count) return std::nullopt;
  return simplify_size(count->value() - 1, signature);
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
    std::set<SizeProduct> weights = find_weights(contribution->subscripts, index, signature);
    if (weights.empty()) continue;
    const SizeProduct largest = *weights.rbegin();
    auto end = last_digit(range.last, largest, signature);
    if (!end) continue;
    Splitting split(index, weights, signature, taken);
    contribution->ranges.erase(index);
    for (size_t k = 0; k < split.names().size(); ++k) {
      bool last = k + 1 == split.names().size();
      contribution->ranges[split.names()[k]] = {
          0, last ? *end : simplify_size(split.count(k).value() - 1, signature)};
    }
    for (auto* list :
         {&contribution->subscripts, &contribution->guards, &contribution->source_places})
      for (ExpressionPtr& e : *list) e = split(e);
    contribution->weight = split(contribution->weight);
    const int number = static_cast<int>(largest.number);
    if (largest.is_number() &&
        !always_equal((range.last + 1) / number * number, range.last + 1, signature))
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
