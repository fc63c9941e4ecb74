#include "lang/lowering/lowering.h"

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/visit.h"
#include "lang/sema/builtins.h"
#include "lang/sema/types.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {

using namespace Halide::Internal;

namespace {

using ir::has_data;

class Lowering {
 public:
  Lowering(const TreeStatement& statement, const ir::Program& signature,
           const std::map<std::string, int64_t>& scalars)
      : statement_(statement), signature_(signature), scalars_(scalars) {
    for (const WhereClause& clause : statement.clauses) {
      if (clause.kind == ClauseKind::Let) lets_[clause.name.name] = clause.first.get();
    }
  }

  LoweredStatement run() {
    LoweredStatement lowered;
    lowered.value = lower(*statement_.value);
    if (!ir::is_position(statement_.reduction))
      lowered.value = convert(lowered.value, signature_.tensor(statement_.target.name).type);
    for (const WhereClause& clause : statement_.clauses) {
      if (clause.kind == ClauseKind::Range) {
        Expr first = bound(*clause.first), last = bound(*clause.last);
        lowered.ranges.push_back({clause.name, first, last - 1});
      } else if (clause.kind == ClauseKind::Exists) {
        collect(*clause.first, &lowered.accesses);
      }
    }
    for (size_t d = 0; d < statement_.indices.size(); ++d) {
      const Expression* expression = statement_.scattered(d);
      if (expression) collect(*expression, &lowered.accesses);
      lowered.subscripts.push_back(expression ? subscript(*expression) : Expr());
    }
    collect(*statement_.value, &lowered.accesses);
    bool accumulates = statement_.reduction != ir::Reduction::None && !statement_.initializes;
    if (accumulates || statement_.scatters())
      lowered.accesses.push_back(left_hand_side(accumulates));
    return lowered;
  }

 private:
  void collect(const Expression& e, std::vector<Access>* accesses) {
    if (e.kind == ExpressionKind::Name && e.binding == Binding::Let)
      return collect(*lets_.at(e.name), accesses);
    for (const ExpressionPtr& operand : e.operands) collect(*operand, accesses);
    if (e.kind != ExpressionKind::Apply || e.binding != Binding::Tensor) return;
    Access access{e.name, {}};
    for (const ExpressionPtr& operand : e.operands) access.subscripts.push_back(bounding(*operand));
    accesses->push_back(access);
  }

  /// Expressions on the left bound their indices; plain ones only where what they accumulate into
  /// exists.
  Access left_hand_side(bool accumulates) {
    Access access{statement_.target.name, {}, true};
    for (size_t d = 0; d < statement_.indices.size(); ++d) {
      const Expression* expression = statement_.scattered(d);
      access.subscripts.push_back(expression    ? bounding(*expression)
                                  : accumulates ? ir::make_variable(statement_.indices[d].name)
                                                : Expr());
    }
    return access;
  }

  /// A subscript as what it says of its indices.
  Expr bounding(const Expression& e) {
    rounds_down_ = true;
    Expr result = subscript(e);
    rounds_down_ = false;
    return result;
  }

  Expr convert(const Expr& e, Type type) const {
    if (e.type() == type) return e;
    // Not folded: subscripts do not wrap around, whatever type is asked for on the way.
    if (in_subscript_ && type == Halide::Int(32) && e.type() == Halide::Int(64))
      return Cast::make(type, e);
    if (type.is_bool()) return e != make_zero(e.type());
    // Halide's simplifier makes one cast of two: uint32(int32(x)) would become uint32(x), which has
    // no meaning for a negative x. It looks through no complements, and LLVM removes a pair.
    if (e.type().is_float() && !type.is_float()) return ~~Halide::cast(type, e);
    return Halide::cast(type, e);
  }

  /// Of a range: what is made of narrow integers there does not wrap around.
  Expr bound(const Expression& e) {
    in_bound_ = true;
    Expr result = subscript(e);
    in_bound_ = false;
    return result;
  }

  /// The type that a value of this type is computed in.
  Type computed(Type type) const {
    const bool narrow = type.is_int_or_uint() && !type.is_bool() && type.bits() < 32;
    return in_bound_ && narrow ? Halide::Int(32) : type;
  }

  Expr subscript(const Expression& e) {
    bool outer = std::exchange(in_subscript_, true);
    Expr result = convert(lower(e), Halide::Int(32));
    in_subscript_ = outer;
    return result;
  }

  Expr lower(const Expression& e) {
    if (e.constant) {
      return e.constant->is_float || e.type.is_float() ? make_const(e.type, e.constant->as_double())
                                                       : make_const(e.type, e.constant->integer);
    }
    switch (e.kind) {
      case ExpressionKind::Number: break;
      case ExpressionKind::Name:
      case ExpressionKind::Apply: return lower_named(e);
      case ExpressionKind::Dimension: return lower_dimension(e);
      case ExpressionKind::Cast: return convert(lower(*e.operands[0]), e.type);
      case ExpressionKind::Unary: return lower_unary(e);
      case ExpressionKind::Binary: return lower_binary(e);
      case ExpressionKind::Ternary:
        return choose(lower(*e.operands[0]), convert(lower(*e.operands[1]), computed(e.type)),
                      convert(lower(*e.operands[2]), computed(e.type)));
    }
    TC_INTERNAL_CHECK(false, "an expression without a value");
    return Expr();
  }

  Expr lower_named(const Expression& e) {
    switch (e.binding) {
      case Binding::Index:
      case Binding::Size: return ir::make_variable(e.name);
      case Binding::Let:
        return e.let ? convert(lower(*e.let), computed(e.type)) : lower(*lets_.at(e.name));
      case Binding::Scalar: return lower_scalar(e);
      case Binding::Tensor: {
        std::vector<Expr> subscripts;
        for (const ExpressionPtr& operand : e.operands) subscripts.push_back(subscript(*operand));
        return ir::read(signature_.tensor(e.name), subscripts);
      }
      case Binding::Truth: return make_const(Halide::Bool(), e.name == "true" ? 1 : 0);
      case Binding::Builtin: return lower_builtin(e);
      case Binding::None: break;
    }
    TC_INTERNAL_CHECK(false, e.name, " is not bound");
    return Expr();
  }

  Expr lower_scalar(const Expression& e) {
    const ir::Scalar& scalar = signature_.scalars.at(e.name);
    if (!scalar.specialized) return ir::read_scalar(scalar);
    auto value = scalars_.find(e.name);
    TC_INTERNAL_CHECK(value != scalars_.end(), "no value for specialised scalar ", e.name);
    if (!fits(value->second, scalar.type)) {
      throw ShapeError("scalar ", e.name, " = ", value->second, " does not fit ",
                       type_name(scalar.type));
    }
    return make_const(scalar.type, value->second);
  }

  Expr lower_dimension(const Expression& e) {
    const ir::Tensor& tensor = signature_.tensor(e.name);
    if (tensor.role == ir::TensorRole::Input) return tensor.sizes[e.dimension];
    return ir::make_variable(dimension_variable(e.name, e.dimension));
  }

  Expr lower_builtin(const Expression& e) {
    std::vector<Expr> arguments;
    const Type operands = computed(e.operand_type);
    int integer = find_builtin(e.name)->integer_argument;
    for (const ExpressionPtr& operand : e.operands) {
      bool is_integer = static_cast<int>(arguments.size()) == integer;
      arguments.push_back(convert(lower(*operand), is_integer ? Halide::Int(32) : operands));
    }
    if (e.name == "abs") {
      if (operands.is_float()) return ir::math("fabs", operands, arguments);
      if (operands.is_uint()) return arguments[0];
      Expr zero = make_zero(operands);
      Expr negative = in_subscript_ ? zero - arguments[0] : ir::wrapping_negative(arguments[0]);
      return Halide::select(arguments[0] < zero, negative, arguments[0]);
    }
    if (!find_builtin(e.name)->composed) return ir::math(e.name, operands, arguments);
    // Of narrow floats in 32 bits, rounded once.
    for (Expr& argument : arguments)
      if (argument.type().is_float() && argument.type().bits() == 16)
        argument = Halide::cast<float>(argument);
    return convert(composed_builtin(e.name, arguments), e.type);
  }

  Expr lower_unary(const Expression& e) {
    Expr operand = lower(*e.operands[0]);
    if (e.op == Operator::Not) return !operand;
    const Type type = computed(e.type);
    operand = convert(operand, type);
    // 0 - x would lose the sign of a zero.
    if (type.is_float()) return operand * make_const(type, -1.0);
    return wrapping(Operator::Subtract, make_zero(type), operand);
  }

  /// Data wraps around, which signed types of Halide do up to 16 bits only; what is made of indices
  /// and sizes stays a form that range inference understands. So do subscripts: the code then finds
  /// one address for all rows of a block, and checks compare the number that does not wrap around
  /// (ir/index_checks).
  Expr wrapping(Operator op, Expr a, Expr b) const {
    Type type = a.type();
    bool wraps = !in_subscript_ && type.is_int() && type.bits() >= 32 &&
                 (has_data(a) || has_data(b)) &&
                 !(op == Operator::Multiply && is_half_as_wide(a) && is_half_as_wide(b));
    if (wraps) {
      a = Halide::cast(Halide::UInt(type.bits()), a);
      b = Halide::cast(Halide::UInt(type.bits()), b);
    }
    Expr result = op == Operator::Add ? a + b : op == Operator::Subtract ? a - b : a * b;
    return wraps ? Halide::cast(type, result) : result;
  }

  /// A product of two of these cannot overflow, and there are instructions for it.
  static bool is_half_as_wide(const Expr& e) {
    const auto* cast = e.as<Cast>();
    return cast && !cast->value.type().is_float() &&
           2 * cast->value.type().bits() < e.type().bits() + 1 - cast->value.type().is_uint();
  }

  static bool reads(const Expr& e) {
    return ir::any<Call>(
        e, [](const Call* op) { return !op->args.empty() && !ir::read_name(op).empty(); });
  }

  /// Lazy where a side reads a tensor, since the condition may be what keeps the read inside it.
  static Expr choose(const Expr& condition, const Expr& yes, const Expr& no) {
    if (!reads(yes) && !reads(no)) return Halide::select(condition, yes, no);
    return ir::choose_lazily(condition, yes, no);
  }

  /// Whether no index or data decides what it is.
  bool is_of_sizes(const Expression& e) const {
    return !any(e, [&](const Expression& part) {
      return part.binding == Binding::Index ||
             (part.binding == Binding::Let && !is_of_sizes(*lets_.at(part.name))) ||
             (part.binding == Binding::Tensor && part.kind != ExpressionKind::Dimension);
    });
  }

  /// Whether a quotient or remainder is one of sizes alone that may have a negative dividend, and
  /// so rounds up, or a divisor of which nothing is known.
  bool truncates(const Expression& e, const Expr& dividend, const Expr& divisor) const {
    return is_of_sizes(e) && (!never_negative(dividend) || !is_positive_const(divisor));
  }

  Expr lower_binary(const Expression& e) {
    Expr a = lower(*e.operands[0]), b = lower(*e.operands[1]);
    if (e.op == Operator::And) return reads(b) ? choose(a, b, make_zero(Halide::Bool())) : a && b;
    if (e.op == Operator::Or) return reads(b) ? choose(a, make_one(Halide::Bool()), b) : a || b;
    const Type type = is_comparison(e) ? promote(a.type(), b.type()) : computed(e.type);
    a = convert(a, type);
    b = convert(b, type);
    bool truth = type.is_bool();
    switch (e.op) {
      case Operator::Add: return wrapping(e.op, a, b);
      case Operator::Subtract: return wrapping(e.op, a, b);
      case Operator::Multiply: return wrapping(e.op, a, b);
      case Operator::Divide:
        if (type.is_float()) return a / b;
        if (!rounds_down_ || truncates(e, a, b)) return ir::c_div(a, b);
        if (is_positive_const(b)) return a / b;
        // Bounds nothing, whatever it could be simplified to.
        return Call::make(type, Call::div_round_to_zero, {a, b}, Call::PureIntrinsic);
      case Operator::Remainder:
        if (type.is_float()) return ir::math("fmod", type, {a, b});
        return rounds_down_ && !truncates(e, a, b) ? a % b : ir::c_mod(a, b);
      case Operator::Min: return truth ? a && b : Halide::min(a, b);
      case Operator::Max: return truth ? a || b : Halide::max(a, b);
      case Operator::Less: return truth ? !a && b : a < b;
      case Operator::LessEqual: return truth ? !a || b : a <= b;
      case Operator::Greater: return truth ? a && !b : a > b;
      case Operator::GreaterEqual: return truth ? a || !b : a >= b;
      case Operator::Equal: return a == b;
      case Operator::NotEqual: return a != b;
      default: break;
    }
    TC_INTERNAL_CHECK(false, "no lowering of a binary operator");
    return Expr();
  }

  const TreeStatement& statement_;
  const ir::Program& signature_;
  const std::map<std::string, int64_t>& scalars_;
  std::map<std::string, const Expression*> lets_;
  bool in_subscript_ = false;
  bool rounds_down_ = false;
  bool in_bound_ = false;
};

}  // namespace

std::vector<LoweredStatement> lower(const Function& function, const ir::Program& signature,
                                    const std::map<std::string, int64_t>& scalars) {
  std::vector<LoweredStatement> lowered;
  for (const TreeStatement& statement : function.statements)
    lowered.push_back(Lowering(statement, signature, scalars).run());
  return lowered;
}

}  // namespace tc::lang
