#include "lang/sema/resolve.h"

#include "base/error.h"
#include "base/notes.h"
#include "base/suggest.h"
#include "lang/sema/builtins.h"
#include "lang/sema/expression_types.h"
#include "lang/sema/types.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/instead.h"

namespace tc::lang {
namespace {

/// The integer scalars of a subscript or bound decide ranges, so a kernel is made for each value.
void specialize_scalars(const Expression& e, Scope* scope) {
  if (e.binding == Binding::Scalar) {
    ir::Scalar& scalar = scope->scalars.at(e.name);
    if (!scalar.type.is_float() && !scalar.type.is_bool()) scalar.specialized = true;
  }
  if (e.binding == Binding::Let) specialize_scalars(*scope->lets.at(e.name), scope);
  for (const ExpressionPtr& operand : e.operands) specialize_scalars(*operand, scope);
}

/// An integer that an index can hold: literals that would lose bits are found here.
void expect_index_value(const Expression& e, const char* role) {
  expect_integer(e, role);
  if (!e.constant || fits(e.constant->integer, Halide::Int(32))) return;
  throw LanguageError(e.where, e.constant->integer, " does not fit int32, the type of ", role,
                      " and of every index");
}

std::string example_indices(size_t rank) {
  std::string names;
  for (size_t d = 0; d < rank; ++d) names += d == 0 ? "i" : d == 1 ? ", j" : concat(", i", d);
  return names;
}

void check_subscript(const Expression& subscript, Scope* scope) {
  if (scope->all_typed) expect_index_value(subscript, "a subscript");
  specialize_scalars(subscript, scope);
}

class Resolver {
 public:
  Resolver(Scope* scope, bool in_bounds) : scope_(*scope), in_bounds_(in_bounds) {}

  void check(Expression* e) {
    // Of a function that is not there nobody wants to know how its operands are written.
    if (e->kind == ExpressionKind::Apply && !is_known(e->name)) refuse_unknown(*e);
    for (const ExpressionPtr& operand : e->operands) check(operand.get());
    switch (e->kind) {
      case ExpressionKind::Name: return check_name(e);
      case ExpressionKind::Dimension: return check_dimension(e);
      case ExpressionKind::Apply: return check_apply(e);
      default: break;
    }
    // While types are being found, an operand of unknown type must not cause an error.
    if (scope_.all_typed || !unknown_below(*e)) {
      set_type(e);
    } else {
      bool comparison =
          e->kind == ExpressionKind::Binary && e->op >= Operator::Less && e->op <= Operator::Or;
      bool truth = comparison || (e->kind == ExpressionKind::Unary && e->op == Operator::Not);
      e->adaptable = !truth;
      e->constant.reset();
      e->type = Halide::Bool();
      if (truth) return;
      for (const ExpressionPtr& operand : e->operands) {
        const bool condition = e->kind == ExpressionKind::Ternary && operand == e->operands[0];
        if (condition) continue;
        bool replaces = e->adaptable && !operand->adaptable;
        if (replaces || operand->adaptable == e->adaptable) {
          e->type = replaces ? operand->type : promote(e->type, operand->type);
          e->adaptable = operand->adaptable;
        }
      }
    }
  }

 private:
  /// Whether a read inside, outside of subscripts, has no type yet.
  bool unknown_below(const Expression& e) const {
    if (e.binding == Binding::Tensor && e.kind != ExpressionKind::Dimension)
      return !scope_.tensors.at(e.name).typed;
    if (e.binding == Binding::Let) return unknown_below(*scope_.lets.at(e.name));
    if (e.kind == ExpressionKind::Cast) return false;
    for (const ExpressionPtr& operand : e.operands) {
      if (unknown_below(*operand)) return true;
    }
    return false;
  }

  void bind(Expression* e, Binding binding, Type type) {
    e->binding = binding;
    e->type = type;
    e->adaptable = false;
    e->constant.reset();
    e->let.reset();
  }

  [[noreturn]] static void refuse_index_in_bounds(const Expression& e, const std::string& index) {
    throw LanguageError(e.where, "the bounds of a range cannot depend on index ", index,
                        "; they are made of sizes, scalars and integers. What a term of a "
                        "reduction depends on is a condition, as in S(i) +=! j <= i ? A(j) : 0");
  }

  /// Scalars of other types are not known before the run.
  static void refuse_in_bounds(const Expression& e, const std::string& scalar, const Type& type) {
    if (type.is_int_or_uint() && !type.is_bool()) return;
    throw LanguageError(e.where, "the bounds of a range cannot depend on ", scalar,
                        ", a scalar of type ", type_name(type),
                        "; they are made of sizes, integer scalars and integers");
  }

  /// Of a let with this value.
  void check_let_in_bounds(const Expression& e, const Expression& value) const {
    walk(value, [&](const Expression& part) {
      if (part.binding == Binding::Index) refuse_index_in_bounds(e, part.name);
      if (part.binding == Binding::Scalar) refuse_in_bounds(e, part.name, part.type);
      if (part.binding == Binding::Let) check_let_in_bounds(e, *scope_.lets.at(part.name));
      if (part.binding == Binding::Tensor && part.kind != ExpressionKind::Dimension)
        refuse_in_bounds(e, scope_.tensors.at(part.name));
    });
  }

  void check_name(Expression* e) {
    const std::string& name = e->name;
    if (auto let = scope_.lets.find(name); let != scope_.lets.end()) {
      scope_.used_lets.insert(name);
      if (in_bounds_) check_let_in_bounds(*e, *let->second);
      const Expression& value = *let->second;
      bind(e, Binding::Let, value.type);
      // As if the value stood here.
      e->constant = value.constant;
      e->adaptable = value.adaptable;
      if (value.adaptable && !value.constant) e->let = clone(let->second);
      return;
    }
    if (scope_.indices.count(name)) {
      if (in_bounds_) refuse_index_in_bounds(*e, name);
      return bind(e, Binding::Index, Halide::Int(32));
    }
    if (scope_.sizes.count(name)) return bind(e, Binding::Size, Halide::Int(32));
    auto scalar = scope_.scalars.find(name);
    if (scalar != scope_.scalars.end()) {
      const Type& type = scalar->second.type;
      if (in_bounds_) refuse_in_bounds(*e, name, type);
      return bind(e, Binding::Scalar, type);
    }
    auto tensor = scope_.tensors.find(name);
    if (tensor != scope_.tensors.end()) return bind_read(e, tensor->second);
    if (name == "true" || name == "false") return bind(e, Binding::Truth, Halide::Bool());
    if (in_bounds_) {
      throw LanguageError(e->where, "undefined variable ", name,
                          " used here: it is no size and no scalar; the bounds of a range are made "
                          "of sizes, scalars and integers",
                          did_you_mean(name, scope_.visible_names()));
    }
    scope_.declare_index({name, e->where});
    bind(e, Binding::Index, Halide::Int(32));
  }

  void refuse_in_bounds(const Expression& e, const TensorInfo& tensor) const {
    if (!in_bounds_) return;
    throw LanguageError(
        e.where, "the bounds of a range cannot read tensors; ",
        tensor.rank ? concat(e.name, ".0 is a size of ", e.name, ", and bounds") : "they",
        " are made of sizes, scalars and integers");
  }

  void bind_read(Expression* e, const TensorInfo& tensor) {
    refuse_in_bounds(*e, tensor);
    if (tensor.rank != e->operands.size()) {
      throw LanguageError(
          e->where, "expected ", plural(tensor.rank, "dimension"), " but found ",
          plural(e->operands.size(), "dimension"), ": ", e->name, " has ", tensor.rank,
          e->operands.empty() ? concat("; write ", e->name, "(", example_indices(tensor.rank), ")")
                              : "");
    }
    for (const ExpressionPtr& operand : e->operands) check_subscript(*operand, &scope_);
    if (!tensor.input && !tensor.returned && tensor.first_statement > scope_.position) {
      throw LanguageError(e->where, "undefined variable ", e->name,
                          " used here: it is first assigned at line ", tensor.where.line(),
                          ", after this statement");
    }
    Type so_far = tensor.has_literal ? tensor.literal_type : Halide::Int(32);
    bind(e, Binding::Tensor, tensor.typed ? tensor.type : so_far);
    e->adaptable = !tensor.typed;
  }

  void check_dimension(Expression* e) {
    if (scope_.scalars.count(e->name)) {
      throw LanguageError(e->where, e->name, " is a scalar and has no dimension ", e->dimension);
    }
    auto tensor = scope_.tensors.find(e->name);
    if (tensor == scope_.tensors.end() ||
        (!tensor->second.input && tensor->second.first_statement >= scope_.position)) {
      throw LanguageError(
          e->where, "undefined variable ", e->name, " used here",
          tensor == scope_.tensors.end()
              ? concat(": it is no tensor", did_you_mean(e->name, scope_.visible_names()))
              : ": its sizes are not known before it is assigned");
    }
    if (static_cast<size_t>(e->dimension) >= tensor->second.rank) {
      throw LanguageError(e->where, e->name, " has no dimension ", e->dimension,
                          "; its dimensions are counted from 0 and it has ", tensor->second.rank);
    }
    bind(e, Binding::Tensor, Halide::Int(32));
  }

  bool is_known(const std::string& name) const {
    return find_builtin(name) || scope_.scalars.count(name) || scope_.tensors.count(name);
  }

  [[noreturn]] void refuse_unknown(const Expression& e) const {
    std::vector<std::string> names = scope_.visible_names();
    std::vector<std::string> builtins = all_builtin_names();
    names.insert(names.end(), builtins.begin(), builtins.end());
    throw LanguageError(e.where, "undefined variable ", e.name,
                        " used here: it is no tensor and no built-in function",
                        function_instead(e.name, did_you_mean(e.name, names)));
  }

  void check_apply(Expression* e) {
    if (find_builtin(e->name)) {
      e->binding = Binding::Builtin;
      if (in_bounds_ && find_builtin(e->name)->name != std::string("abs")) {
        throw LanguageError(e->where,
                            "the bounds of a range are made of sizes, scalars and integers; ",
                            e->name, " is a function of floating-point numbers");
      }
      if (scope_.all_typed || !unknown_below(*e)) return set_type(e);
      // Whatever the operand turns out to be, the result is no literal.
      bind(e, Binding::Builtin, Halide::Float(32));
      for (const ExpressionPtr& operand : e->operands) {
        if (!operand->adaptable && operand->type.is_float()) e->type = operand->type;
      }
      return;
    }
    auto scalar = scope_.scalars.find(e->name);
    if (scalar != scope_.scalars.end()) {
      if (!e->operands.empty()) {
        throw LanguageError(
            e->where, "expected 0 dimensions but found ", e->operands.size(), ": ", e->name,
            " is a scalar, since its declaration has no sizes; read it as ", e->name,
            ", or declare a tensor, as in ", type_name(scalar->second.type), "(",
            example_sizes(e->operands.size()), ") ", e->name);
      }
      return bind(e, Binding::Scalar, scalar->second.type);
    }
    auto tensor = scope_.tensors.find(e->name);
    bind_read(e, tensor->second);
  }

  Scope& scope_;
  bool in_bounds_;
};

}  // namespace

void resolve(Expression* expression, Scope* scope) { Resolver(scope, false).check(expression); }

void resolve_subscript(Expression* subscript, Scope* scope) {
  resolve(subscript, scope);
  check_subscript(*subscript, scope);
}

void resolve_bound(Expression* bound, Scope* scope) {
  Resolver(scope, true).check(bound);
  if (scope->all_typed) expect_index_value(*bound, "the bound of a range");
  specialize_scalars(*bound, scope);
}

}  // namespace tc::lang
