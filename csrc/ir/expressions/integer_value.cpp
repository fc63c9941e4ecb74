#include "ir/expressions/integer_value.h"

#include <algorithm>
#include <unordered_map>

namespace tc::ir {
namespace {

class Evaluation {
 public:
  explicit Evaluation(const std::map<std::string, int64_t>& values) : values_(values) {}

  /// Zero where something cannot be known, which `known` then says.
  int64_t value(const Expr& e) {
    // Quotients as the language has them mention their operands several times.
    auto [found, added] = done_.emplace(e.get(), 0);
    if (!added) return found->second;
    int64_t made = compute(e);
    // Narrow and unsigned integers wrap around. Those of int32 that leave it are computed in 64
    // bits where it matters (ir/expressions/wrap_integers).
    const Type type = e.type();
    const bool wraps = type.is_uint() || type.bits() < 32;
    if (known && wraps && !type.can_represent(made)) made = unknown();
    return done_[e.get()] = made;
  }

  bool known = true;

 private:
  int64_t compute(const Expr& e) {
    const Type type = e.type();
    if (!type.is_scalar() || !(type.is_int() || type.is_uint())) return unknown();
    switch (e.node_type()) {
      case IRNodeType::IntImm: return e.as<IntImm>()->value;
      case IRNodeType::UIntImm: return static_cast<int64_t>(e.as<UIntImm>()->value);
      case IRNodeType::Variable: {
        auto found = values_.find(e.as<Variable>()->name);
        return found == values_.end() ? unknown() : found->second;
      }
      case IRNodeType::Cast: {
        const int64_t made = value(e.as<Cast>()->value);
        return type.can_represent(made) ? made : unknown();
      }
      case IRNodeType::Add:
        return of<Add>(e, [](auto a, auto b) { return wrapped(std::plus<>(), a, b); });
      case IRNodeType::Sub:
        return of<Sub>(e, [](auto a, auto b) { return wrapped(std::minus<>(), a, b); });
      case IRNodeType::Mul:
        return of<Mul>(e, [](auto a, auto b) { return wrapped(std::multiplies<>(), a, b); });
      case IRNodeType::Div: return of<Div>(e, [](auto a, auto b) { return div_imp(a, b); });
      case IRNodeType::Mod: return of<Mod>(e, [](auto a, auto b) { return mod_imp(a, b); });
      case IRNodeType::Min: return of<Min>(e, [](auto a, auto b) { return std::min(a, b); });
      case IRNodeType::Max: return of<Max>(e, [](auto a, auto b) { return std::max(a, b); });
      case IRNodeType::EQ: return of<EQ>(e, std::equal_to<>());
      case IRNodeType::NE: return of<NE>(e, std::not_equal_to<>());
      case IRNodeType::LT: return of<LT>(e, std::less<>());
      case IRNodeType::LE: return of<LE>(e, std::less_equal<>());
      case IRNodeType::GT: return of<GT>(e, std::greater<>());
      case IRNodeType::GE: return of<GE>(e, std::greater_equal<>());
      case IRNodeType::And: return of<And>(e, std::logical_and<>());
      case IRNodeType::Or: return of<Or>(e, std::logical_or<>());
      case IRNodeType::Not: return !value(e.as<Not>()->a);
      case IRNodeType::Select: {
        const auto* op = e.as<Select>();
        return value(op->condition) ? value(op->true_value) : value(op->false_value);
      }
      default: return unknown();
    }
  }

  template <typename Node, typename Operation>
  int64_t of(const Expr& e, Operation operation) {
    const auto* op = e.as<Node>();
    const int64_t a = value(op->a), b = value(op->b);
    return operation(a, b);
  }

  template <typename Operation>
  static int64_t wrapped(Operation operation, int64_t a, int64_t b) {
    return static_cast<int64_t>(operation(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }

  int64_t unknown() {
    known = false;
    return 0;
  }

  const std::map<std::string, int64_t>& values_;
  std::unordered_map<const IRNode*, int64_t> done_;
};

}  // namespace

std::optional<int64_t> integer_value(const Expr& e, const std::map<std::string, int64_t>& values) {
  Evaluation evaluation(values);
  const int64_t value = evaluation.value(e);
  return evaluation.known ? std::optional(value) : std::nullopt;
}

}  // namespace tc::ir
