#include "lang/gradient/sums/term_reads.h"

#include <cmath>
#include <optional>
#include <utility>

#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

class Reader {
 public:
  Reader(const Step& step, const std::map<std::string, std::vector<Range>>& shapes,
         const ir::Program& signature, FreshNames& names)
      : step_(step), shapes_(shapes), names_(names) {
    for (const auto& [index, range] : step.ranges)
      bounds_.push(index, Interval(range.first, range.last));
    for (const std::string& size : signature.sizes)
      sizes_.push(size, Interval(ir::Expr(0), Interval::pos_inf()));
  }

  std::optional<TermReads> run() {
    ExpressionPtr value = in_branches(step_.value);
    if (!value) return std::nullopt;
    return TermReads{std::move(steps_), std::move(value)};
  }

 private:
  /// The value with reads for what its branches compute; null where one needs a tensor over all
  /// indices.
  ExpressionPtr in_branches(const ExpressionPtr& e) {
    if (e->kind == ExpressionKind::Ternary) {
      const ExpressionPtr yes = in_branches(e->operands[1]);
      const ExpressionPtr no = yes ? in_branches(e->operands[2]) : nullptr;
      if (!no) return nullptr;
      if (yes == e->operands[1] && no == e->operands[2]) return e;
      auto chosen = std::make_shared<Expression>(*e);
      chosen->operands = {e->operands[0], yes, no};
      return chosen;
    }
    if (is_literal(*e) || (e->binding == Binding::Tensor && e->type == step_.type)) return e;
    if (e->type != step_.value->type) return nullptr;
    if (ExpressionPtr element = element_of_known(*e)) return element;
    std::vector<std::string> indices;
    for (const std::string& index : step_.indices())
      if (mentions(*e, index)) indices.push_back(index);
    if (indices.size() == step_.indices().size()) return nullptr;
    const auto inside = conditions_inside(*e);
    if (!inside) return nullptr;
    if (inside->empty()) return write(e, indices, e);
    const ExpressionPtr value = choose(all_of(*inside), e, real(0));
    value->type = e->type;
    return write(e, indices, value);
  }

  ExpressionPtr write(const ExpressionPtr& e, const std::vector<std::string>& indices,
                      const ExpressionPtr& value) {
    Step made;
    made.target = names_.fresh(FreshNames::plain(step_.target) + "_value");
    made.type = e->type;
    made.left = made.elements = indices;
    for (const std::string& index : indices) {
      const Range& range = step_.ranges.at(index);
      made.places.push_back(name(index));
      made.ranges[index] = range;
      made.shape.push_back(range);
    }
    made.value = value;
    made.where = step_.where;
    const ExpressionPtr element = read(made.target, made.places, made.type);
    written_.emplace_back(e, element);
    steps_.push_back(std::move(made));
    return element;
  }

  /// The read where it is one element of what a branch before has written, as the first term is
  /// that stands for those beyond the condition.
  ExpressionPtr element_of_known(const Expression& e) const {
    for (const auto& [value, element] : written_) {
      if (equal(*value, e)) return element;
      for (const ExpressionPtr& index : element->operands) {
        const Range& range = step_.ranges.at(index->name);
        for (const ir::Expr& end : {range.first, range.last}) {
          const std::map<std::string, ExpressionPtr> at_end{{index->name, from_halide(end)}};
          if (equal(*substitute(value, at_end), e)) return substitute(element, at_end);
        }
      }
    }
    return nullptr;
  }

  /// What has to hold for all reads to stay inside their tensors over all points; none where they
  /// always do, nothing where this cannot be said in front of the whole expression.
  std::optional<std::vector<ExpressionPtr>> conditions_inside(const Expression& e) const {
    std::vector<ExpressionPtr> conditions;
    bool known = true, lazy = false;
    walk(e, [&](const Expression& node) {
      lazy = lazy || node.kind == ExpressionKind::Ternary || is_binary(node, Operator::And) ||
             is_binary(node, Operator::Or);
      if (!is_access(node)) return;
      const auto shape = shapes_.find(node.name);
      if (shape == shapes_.end()) {
        known = false;
        return;
      }
      for (size_t d = 0; d < node.operands.size(); ++d) {
        const ExpressionPtr& subscript = node.operands[d];
        const ir::Expr place = to_halide(*subscript);
        if (!place.defined()) {
          known = false;
          return;
        }
        const Range& range = shape->second[d];
        if (!always(place >= range.first))
          conditions.push_back(binary(Operator::GreaterEqual, subscript, from_halide(range.first)));
        if (!always(place <= range.last))
          conditions.push_back(binary(Operator::LessEqual, subscript, from_halide(range.last)));
      }
    });
    if (!known || (lazy && !conditions.empty())) return std::nullopt;
    return conditions;
  }

  /// Whether a comparison holds at all points, whatever the sizes are.
  bool always(const ir::Expr& comparison) const {
    const ir::Expr over_sizes = and_condition_over_domain(simplify(comparison), bounds_);
    return is_const_one(simplify(over_sizes, true, sizes_));
  }

  const Step& step_;
  const std::map<std::string, std::vector<Range>>& shapes_;
  FreshNames& names_;
  Scope<Interval> bounds_, sizes_;
  std::vector<Step> steps_;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> written_;  ///< computed, read
};

}  // namespace

bool is_literal(const Expression& e) {
  return e.constant || (e.kind == ExpressionKind::Cast && is_literal(*e.operands[0]));
}

bool is_neutral(const Expression& e, ir::Reduction reduction) {
  return e.constant && e.constant->is_float && std::isinf(e.constant->real) &&
         std::signbit(e.constant->real) == (reduction == ir::Reduction::Max);
}

std::optional<TermReads> read_terms(const Step& step,
                                    const std::map<std::string, std::vector<Range>>& shapes,
                                    const ir::Program& signature, FreshNames* names) {
  return Reader(step, shapes, signature, *names).run();
}

}  // namespace tc::lang
