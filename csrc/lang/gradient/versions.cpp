#include "lang/gradient/versions.h"

#include <algorithm>

#include "lang/lowering/lowering.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"

namespace tc::lang {
namespace {

Operator operator_of(ir::Reduction reduction) {
  switch (reduction) {
    case ir::Reduction::Product: return Operator::Multiply;
    case ir::Reduction::Min: return Operator::Min;
    case ir::Reduction::Max: return Operator::Max;
    case ir::Reduction::And: return Operator::And;
    case ir::Reduction::Or: return Operator::Or;
    default: break;
  }
  return Operator::Add;
}

class Numbering {
 public:
  Numbering(const Definition& definition, const std::map<std::string, int64_t>& scalars)
      : function_(*definition.tree),
        signature_(definition.signature),
        scalars_(scalars),
        names_(function_) {}

  Versions run() {
    inferred_ = infer(function_, signature_, lower(function_, signature_, scalars_));
    for (size_t i = 0; i < function_.statements.size(); ++i) add(i);
    return std::move(versions_);
  }

 private:
  void add(size_t i) {
    const TreeStatement& statement = function_.statements[i];
    const std::string& tensor = statement.target.name;
    lets_.clear();
    for (const WhereClause& clause : statement.clauses) {
      if (clause.kind == ClauseKind::Let) lets_[clause.name.name] = translate(clause.first);
    }
    Step step;
    step.type = signature_.tensor(tensor).type;
    step.where = statement.where;
    for (size_t d = 0; d < statement.indices.size(); ++d) {
      if (statement.scattered(d)) {
        step.places.push_back(translate(statement.subscripts[d]));
        step.elements.push_back(names_.index("v" + std::to_string(d)));
        continue;
      }
      const std::string& index = statement.indices[d].name;
      step.left.push_back(index);
      step.elements.push_back(index);
      step.places.push_back(index_name(index));
    }
    for (const Identifier& index : statement.reduction_indices) step.reduced.push_back(index.name);
    for (const std::string& index : step.indices())
      step.ranges[index] = inferred_.statements[i].at(index);
    if (!step.places.empty()) step.shape = inferred_.shapes.at(tensor);
    for (size_t d = 0; d < step.places.size(); ++d) {
      if (statement.scattered(d)) continue;
      const Range& range = step.ranges.at(step.elements[d]);
      step.covers = step.covers && always_equal(range, step.shape[d], signature_);
    }
    step.value = translate(statement.value);
    step.reduction = statement.reduction;
    step.initializes = statement.initializes || statement.reduction == ir::Reduction::None ||
                       ir::is_position(statement.reduction);
    if (step.scatters()) {
      // Neither an assignment nor a statement of its own can take its place.
    } else if (step.reduced.empty()) {
      if (!step.initializes) step.value = with_previous(tensor, step, step.value);
      step.reduction = ir::Reduction::None;
      step.initializes = true;
    } else if (!step.initializes && step.reduction != ir::Reduction::Sum) {
      // The reduction alone is a tensor of its own.
      Step partial = step;
      std::string reduced = tensor + ".reduced";
      partial.initializes = partial.covers = true;
      partial.shape.clear();
      for (const std::string& index : step.left) partial.shape.push_back(step.ranges.at(index));
      push(reduced, partial);
      step.value = with_previous(tensor, step,
                                 read(version_name(reduced, versions_.last.at(reduced)), step.left,
                                      signature_.tensor(tensor).type));
      step.reduced.clear();
      step.reduction = ir::Reduction::None;
      step.initializes = true;
    }
    push(tensor, step);
  }

  void push(const std::string& tensor, Step step) {
    int& version = versions_.last[tensor];
    step.previous = version_name(tensor, version);
    step.target = version_name(tensor, ++version);
    versions_.steps.push_back(std::move(step));
  }

  ExpressionPtr with_previous(const std::string& tensor, const Step& step,
                              const ExpressionPtr& value) {
    Type type = signature_.tensor(tensor).type;
    ExpressionPtr previous = read(version_name(tensor, versions_.last[tensor]), step.left, type);
    auto node = std::make_shared<Expression>();
    node->kind = ExpressionKind::Binary;
    node->op = operator_of(step.reduction);
    if (node->op == Operator::Min || node->op == Operator::Max)
      node->name = node->op == Operator::Min ? "min" : "max";
    node->operands = {previous, value};
    node->type = type;
    return node;
  }

  static ExpressionPtr index_name(const std::string& index) {
    ExpressionPtr node = name(index);
    node->binding = Binding::Index;
    node->type = Halide::Int(32);
    return node;
  }

  static ExpressionPtr read(const std::string& version, const std::vector<std::string>& indices,
                            Type type) {
    std::vector<ExpressionPtr> subscripts;
    for (const std::string& index : indices) subscripts.push_back(index_name(index));
    return lang::read(version, subscripts, type);
  }

  /// The right-hand side of the current statement over versions.
  ExpressionPtr translate(const ExpressionPtr& e) {
    return rewrite(e, [&](const Expression& node) -> ExpressionPtr {
      if (node.binding == Binding::Let) return node.let ? translate(node.let) : lets_.at(node.name);
      if (node.binding == Binding::Scalar) return specialized(node);
      if (node.binding != Binding::Tensor) {
        ExpressionPtr quotient = divided_by_zero(node);
        return quotient ? quotient : beside_other_integer(node);
      }
      bool computed = signature_.tensor(node.name).role != ir::TensorRole::Input;
      if (node.kind == ExpressionKind::Dimension) return computed ? size(node) : nullptr;
      if (!computed && node.operands.empty()) return nullptr;
      auto copy = std::make_shared<Expression>(node);
      for (ExpressionPtr& operand : copy->operands) operand = translate(operand);
      if (computed) copy->name = version_name(node.name, versions_.last[node.name]);
      return copy;
    });
  }

  ExpressionPtr specialized(const Expression& node) const {
    const ir::Scalar& scalar = signature_.scalars.at(node.name);
    if (!scalar.specialized) return nullptr;
    ExpressionPtr value = integer(scalars_.at(node.name));
    if (scalar.type != Halide::Int(32)) value = cast(scalar.type, value);
    value->type = scalar.type;
    return value;
  }

  /// Where an operand is an integer of fewer bits, or has no sign, scalars of int32 are numbers
  /// that say so: others would take its type. Null for all other nodes.
  ExpressionPtr beside_other_integer(const Expression& node) {
    const auto changes_numbers = [](const ExpressionPtr& e) {
      return e->type.is_int_or_uint() && !e->type.is_bool() &&
             (e->type.is_uint() || e->type.bits() < 32);
    };
    if (std::none_of(node.operands.begin(), node.operands.end(), changes_numbers)) return nullptr;
    auto copy = std::make_shared<Expression>(node);
    for (ExpressionPtr& operand : copy->operands) {
      const bool typed = operand->type == Halide::Int(32) && becomes_number(*operand);
      operand = translate(operand);
      if (typed) operand = cast(Halide::Int(32), operand);
    }
    return copy;
  }

  /// 0, which is what divides by a scalar that is 0; a text that has the number is refused. Null
  /// for all other nodes.
  ExpressionPtr divided_by_zero(const Expression& node) {
    if (!is_binary(node, Operator::Divide) && !is_binary(node, Operator::Remainder)) return nullptr;
    if (!node.type.is_int_or_uint() || value_of(*node.operands[1]) != 0) return nullptr;
    ExpressionPtr zero = integer(0);
    if (node.type != Halide::Int(32)) zero = cast(node.type, zero);
    zero->type = node.type;
    return zero;
  }

  /// The value of what is made of scalars and numbers, where its type holds it; else nothing.
  std::optional<int64_t> value_of(const Expression& e) const {
    if (e.binding == Binding::Scalar) {
      if (!signature_.scalars.at(e.name).specialized) return std::nullopt;
      return scalars_.at(e.name);
    }
    if (e.binding == Binding::Let) return value_of(e.let ? *e.let : *lets_.at(e.name));
    if (auto number = constant_value(e)) return number;
    if (is_negation(e)) {
      const auto operand = value_of(*e.operands[0]);
      return operand == 0 ? operand : std::nullopt;
    }
    if (e.kind != ExpressionKind::Binary || !e.type.is_int()) return std::nullopt;
    const auto a = value_of(*e.operands[0]), b = value_of(*e.operands[1]);
    int64_t value = 0;
    const bool known = a && b &&
                       ((e.op == Operator::Add && !__builtin_add_overflow(*a, *b, &value)) ||
                        (e.op == Operator::Subtract && !__builtin_sub_overflow(*a, *b, &value)) ||
                        (e.op == Operator::Multiply && !__builtin_mul_overflow(*a, *b, &value)));
    return known && e.type.can_represent(value) ? std::optional<int64_t>(value) : std::nullopt;
  }

  /// Of scalars and numbers alone, but for conditions.
  bool becomes_number(const Expression& e) const {
    if (e.binding == Binding::Scalar) return signature_.scalars.at(e.name).specialized;
    const bool chooses = e.kind == ExpressionKind::Ternary;
    if (!chooses && e.kind != ExpressionKind::Unary && e.kind != ExpressionKind::Binary)
      return e.kind == ExpressionKind::Number;
    return std::all_of(e.operands.begin() + chooses, e.operands.end(),
                       [&](const ExpressionPtr& operand) { return becomes_number(*operand); });
  }

  ExpressionPtr size(const Expression& node) const {
    const Range& range = inferred_.shapes.at(node.name)[node.dimension];
    ExpressionPtr value = from_halide(simplify_size(range.last - range.first + 1, signature_));
    value->type = Halide::Int(32);
    return value;
  }

  const Function& function_;
  const ir::Program& signature_;
  const std::map<std::string, int64_t>& scalars_;
  FreshNames names_;
  InferredRanges inferred_;
  Versions versions_;
  std::map<std::string, ExpressionPtr> lets_;
};

}  // namespace

std::string version_name(const std::string& tensor, int version) {
  return tensor + "#" + std::to_string(version);
}

Versions number_versions(const Definition& definition,
                         const std::map<std::string, int64_t>& scalars) {
  return Numbering(definition, scalars).run();
}

}  // namespace tc::lang
