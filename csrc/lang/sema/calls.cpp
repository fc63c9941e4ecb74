#include "lang/sema/calls.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/notes.h"
#include "base/suggest.h"
#include "lang/sema/builtins.h"
#include "lang/sema/expansion.h"
#include "lang/sema/expression_types.h"
#include "lang/sema/scope.h"
#include "lang/sema/types.h"
#include "lang/syntax/expressions.h"
#include "lang/syntax/fresh_names.h"
#include "lang/syntax/instead.h"

namespace tc::lang {
namespace {

/// The value of an expression of numbers alone.
std::optional<Constant> value_of_numbers(const ExpressionPtr& e) {
  const bool names = any(*e, [](const Expression& node) {
    return node.kind == ExpressionKind::Name || node.kind == ExpressionKind::Dimension ||
           node.kind == ExpressionKind::Apply;
  });
  if (names) return std::nullopt;
  const std::function<void(Expression*)> check = [&](Expression* node) {
    for (const ExpressionPtr& operand : node->operands) check(operand.get());
    set_type(node);
  };
  const ExpressionPtr copy = clone(e);
  check(copy.get());
  return copy->constant;
}

/// What takes the place of a scalar of the callee.
struct ScalarArgument {
  ExpressionPtr value;  ///< of the parameter's type
  /// The same without a cast, where everything else is an int32 as well; null where there is none.
  ExpressionPtr among_int32;
};

/// One call being replaced.
class Inlining {
 public:
  Inlining(Function* caller, const Function& callee, const TreeStatement& call,
           std::set<std::string>* taken, FreshNames* names)
      : caller_(*caller), callee_(clone(callee)), call_(call), taken_(*taken), names_(*names) {
    names_.take(callee_);
    check_counts();
    bind_parameters();
    bind_result_sizes();
    for (size_t i = 0; i < callee_.returns.size(); ++i) {
      const Declaration& returned = callee_.returns[i];
      const std::string& target = call_.targets[i].name;
      // The callee reads its argument as it was, whatever of its result it has written by then.
      tensors_[returned.name] = is_argument(target) ? fresh(target + "_result") : target;
      if (returned.typed) types_[returned.name] = returned.type;
    }
    for (const TreeStatement& statement : callee_.statements) {
      const std::string& name = statement.target.name;
      if (!tensors_.count(name)) tensors_[name] = fresh(callee_.name.name + "_" + name);
    }
  }

  std::vector<TreeStatement> run() {
    std::vector<TreeStatement> statements;
    std::map<std::string, size_t> last;  // the statement that writes a tensor last
    std::map<std::string, Expansion> scalars;
    for (const auto& [name, argument] : scalars_) scalars[name] = expand(*argument.value, {});
    for (size_t i = 0; i < callee_.returns.size(); ++i) {
      const Declaration& returned = callee_.returns[i];
      const std::string& target = call_.targets[i].name;
      const std::string& result = tensors_.at(returned.name);
      if (const auto rank = rank_of_initial_contents(returned.name); rank && result != target)
        statements.push_back(initial_contents(result, target, *rank));
    }
    for (TreeStatement& statement : callee_.statements) {
      expect_small(statement, scalars, call_.where);
      // Indices and lets keep their names unless the caller has something of that name.
      locals_.clear();
      lets_.clear();
      for (const WhereClause& clause : statement.clauses)
        if (clause.kind == ClauseKind::Let) lets_.insert(clause.name.name);
      for (Identifier& index : statement.indices) {
        if (!index.name.empty()) index.name = local(index.name);
      }
      for (WhereClause& clause : statement.clauses) {
        if (clause.kind != ClauseKind::Exists) clause.name.name = local(clause.name.name);
      }
      auto type = types_.find(statement.target.name);
      bool position = ir::is_position(statement.reduction);
      if (type != types_.end() && !position) statement.value = cast(statement.value, type->second);
      std::string target = tensors_.at(statement.target.name);
      statement.target.name = target;
      statement.target.where = call_.where;
      statement.where = call_.where;
      statement.inlined = true;
      rename(statement.value.get());
      for (const ExpressionPtr& subscript : statement.subscripts)
        if (subscript) rename(subscript.get(), is_int32(*subscript));
      for (const WhereClause& clause : statement.clauses) {
        const bool range = clause.kind == ClauseKind::Range;
        rename(clause.first.get(), range && is_int32(*clause.first));
        if (clause.last) rename(clause.last.get(), is_int32(*clause.last));
      }
      statements.push_back(statement);
      if (type != types_.end() && position) {
        // What is compared has another type than the position, so that goes by way of a temporary.
        statements.back().target.name = fresh(target + "_index");
        statements.push_back(converted(statements.back(), target, type->second));
      }
      last[target] = statements.size() - 1;
    }
    for (size_t i = 0; i < callee_.returns.size(); ++i) {
      const std::string& target = call_.targets[i].name;
      auto written = last.find(tensors_.at(callee_.returns[i].name));
      if (written != last.end() && written->first != target)
        statements.push_back(copied(statements[written->second], target));
    }
    return statements;
  }

 private:
  /// Gives a result or a scalar the type that the callee declares for it: the caller has no place
  /// for that.
  static ExpressionPtr cast(const ExpressionPtr& value, Type type) {
    ExpressionPtr node = lang::cast(type, value);
    node->where = value->where;
    return node;
  }

  /// target(i, j) = source(i, j), with these indices.
  TreeStatement copied(const std::string& source, const std::vector<std::string>& indices,
                       const std::string& target) const {
    auto placed = [&](ExpressionPtr e) {
      e->where = call_.where;
      return e;
    };
    TreeStatement statement;
    std::vector<ExpressionPtr> subscripts;
    for (const std::string& index : indices) {
      statement.indices.push_back({index, call_.where});
      subscripts.push_back(placed(name(index)));
    }
    statement.target = {target, call_.where};
    statement.operator_where = call_.where;
    statement.value = placed(access(source, subscripts));
    statement.where = call_.where;
    statement.inlined = true;
    return statement;
  }

  std::string index_of_dimension(size_t d) const { return names_.index("v" + std::to_string(d)); }

  /// target(i, j) = source(i, j), where the source is what a statement writes.
  TreeStatement copied(const TreeStatement& source, const std::string& target) const {
    std::vector<std::string> indices;
    for (size_t d = 0; d < source.indices.size(); ++d) {
      const std::string& index = source.indices[d].name;
      // A dimension that is scattered over has none.
      indices.push_back(index.empty() ? index_of_dimension(d) : index);
    }
    return copied(source.target.name, indices, target);
  }

  /// target(i, j) = type(source(i, j))
  TreeStatement converted(const TreeStatement& source, const std::string& target, Type type) {
    TreeStatement statement = copied(source, target);
    statement.value = cast(statement.value, type);
    return statement;
  }

  /// result(i, j) = target(i, j): what the callee's result starts from.
  TreeStatement initial_contents(const std::string& result, const std::string& target,
                                 size_t rank) const {
    std::vector<std::string> indices;
    for (size_t d = 0; d < rank; ++d) indices.push_back(index_of_dimension(d));
    return copied(target, indices, result);
  }

  /// The rank of a result of the callee that is read, or accumulated into without `!`, before it is
  /// assigned; nothing of others.
  std::optional<size_t> rank_of_initial_contents(const std::string& result) const {
    std::optional<size_t> rank;
    for (const TreeStatement& statement : callee_.statements)
      if (statement.target.name == result) rank = statement.indices.size();
    const auto reads = [&](const ExpressionPtr& e) {
      return e && any(*e, [&](const Expression& node) {
               // The bare name of what has dimensions is that of a size.
               return node.name == result && (node.kind == ExpressionKind::Apply ||
                                              (node.kind == ExpressionKind::Name && rank == 0));
             });
    };
    for (const TreeStatement& statement : callee_.statements) {
      bool read = reads(statement.value) ||
                  std::any_of(statement.subscripts.begin(), statement.subscripts.end(), reads);
      for (const WhereClause& clause : statement.clauses)
        read = read || (clause.kind == ClauseKind::Let && reads(clause.first));
      if (read) return rank;
      if (statement.target.name != result) continue;
      const bool accumulates = statement.reduction != ir::Reduction::None &&
                               !statement.initializes && !ir::is_position(statement.reduction);
      return accumulates ? rank : std::nullopt;
    }
    return std::nullopt;
  }

  /// Whether an argument reads a tensor, whole or at an element.
  bool is_argument(const std::string& tensor) const {
    const auto reads = [&](const Expression& e) {
      return (e.kind == ExpressionKind::Name || e.kind == ExpressionKind::Apply) &&
             e.name == tensor;
    };
    return std::any_of(call_.arguments.begin(), call_.arguments.end(),
                       [&](const ExpressionPtr& e) { return any(*e, reads); });
  }

  void check_counts() const {
    if (call_.targets.size() != callee_.returns.size()) {
      throw LanguageError(call_.where, callee_.name.name, " returns ",
                          plural(callee_.returns.size(), "tensor"), " but ", call_.targets.size(),
                          call_.targets.size() == 1 ? " is" : " are", " assigned");
    }
    for (size_t i = 0; i < call_.targets.size(); ++i)
      for (size_t earlier = 0; earlier < i; ++earlier)
        if (call_.targets[i].name == call_.targets[earlier].name)
          already_defined(call_.targets[i], concat("result ", callee_.returns[earlier].name, " of ",
                                                   callee_.name.name));
    if (call_.arguments.size() != callee_.parameters.size()) {
      throw LanguageError(call_.where, callee_.name.name, " expected ",
                          plural(callee_.parameters.size(), "input"), " but found ",
                          plural(call_.arguments.size(), "input"));
    }
  }

  void bind_parameters() {
    for (size_t i = 0; i < callee_.parameters.size(); ++i) {
      const Declaration& parameter = callee_.parameters[i];
      const ExpressionPtr& argument = call_.arguments[i];
      if (parameter.dimensions.empty()) {
        expect_known(*argument);
        scalars_[parameter.name] = scalar_argument(argument, parameter);
        continue;
      }
      if (argument->kind != ExpressionKind::Name) {
        throw LanguageError(argument->where, "parameter ", parameter.name, " of ",
                            callee_.name.name, " is a tensor, so its argument is the name of one");
      }
      tensors_[parameter.name] = argument->name;
      caller_.wanted_types.push_back(
          {callee_.name.name, parameter.name, argument->name, parameter.type, call_.where});
      declare(parameter, argument->name, &sizes_);
    }
  }

  /// An argument as a value of its parameter's type.
  ScalarArgument scalar_argument(const ExpressionPtr& argument,
                                 const Declaration& parameter) const {
    const Type type = parameter.type;
    const std::optional<Constant> number = value_of_numbers(argument);
    if (!number) return {plain_type(*argument) == type ? argument : cast(argument, type), nullptr};
    expect_fits(*number, *argument, parameter);
    // By itself a number takes the type of what it meets.
    const bool whole = !number->is_float && type == Halide::Int(32);
    return {cast(argument, type), whole ? argument : nullptr};
  }

  void expect_fits(const Constant& number, const Expression& argument,
                   const Declaration& parameter) const {
    const Type type = parameter.type;
    if (type.is_float() || type.is_bool()) return;
    const double real = number.as_double();
    const bool in_64_bits = !number.is_float || std::fabs(real) < std::ldexp(1.0, 63);
    const int64_t value =
        number.is_float && in_64_bits ? static_cast<int64_t>(real) : number.integer;
    if (in_64_bits && fits(value, type)) return;
    const std::string text(argument.where.str()), wanted = type_name(type);
    throw LanguageError(argument.where, text, " does not fit ", wanted, ", the type of parameter ",
                        parameter.name, " of ", callee_.name.name,
                        number.is_float
                            ? "; pass a smaller number"
                            : concat("; write ", wanted, "(", text, ") if it is to wrap around"));
  }

  /// What an argument names has to be the caller's: the callee's indices are not for it to see.
  void expect_known(const Expression& e) const {
    if (e.kind == ExpressionKind::Name && !taken_.count(e.name) && e.name != "true" &&
        e.name != "false")
      throw LanguageError(e.where, "undefined variable ", e.name,
                          did_you_mean(e.name, {taken_.begin(), taken_.end()}));
    for (const ExpressionPtr& operand : e.operands) expect_known(*operand);
  }

  void bind_result_sizes() {
    // A name that no input has stands for the size where it stands first.
    std::map<std::string, ExpressionPtr> sizes = sizes_;
    for (size_t i = 0; i < callee_.returns.size(); ++i)
      declare(callee_.returns[i], call_.targets[i].name, &sizes);
  }

  /// Notes that the dimensions of the caller's tensor have the sizes that the callee declares. A
  /// name that stands at one first is its size.
  void declare(const Declaration& declared, const std::string& tensor,
               std::map<std::string, ExpressionPtr>* sizes) {
    for (size_t d = 0; d < declared.dimensions.size(); ++d) {
      const DimensionSize& size = declared.dimensions[d];
      SameSize same;
      same.callee = callee_.name.name;
      same.parameter = declared.name;
      same.tensor = tensor;
      same.dimension = d;
      same.where = call_.where;
      if (size.name.empty()) {
        same.size = std::to_string(size.constant);
        same.constant = size.constant;
      } else {
        auto [known, is_first] = sizes->emplace(size.name, nullptr);
        if (is_first) {
          known->second = std::make_shared<Expression>();
          known->second->kind = ExpressionKind::Dimension;
          known->second->name = tensor;
          known->second->dimension = static_cast<int>(d);
          continue;
        }
        same.size = size.name;
        same.other = known->second->name;
        same.other_dimension = static_cast<size_t>(known->second->dimension);
      }
      caller_.same_sizes.push_back(std::move(same));
    }
  }

  /// The type of an argument where that needs no look at anything computed; of numbers alone the
  /// one that they take among values of int32.
  std::optional<Type> plain_type(const Expression& e) const {
    switch (e.kind) {
      case ExpressionKind::Number:
        if (e.constant && !e.constant->is_float) return Halide::Int(32);
        return std::nullopt;
      case ExpressionKind::Dimension: return Halide::Int(32);
      case ExpressionKind::Name:
        for (const Declaration& parameter : caller_.parameters) {
          if (parameter.dimensions.empty() && parameter.name == e.name) return parameter.type;
          for (const DimensionSize& size : parameter.dimensions)
            if (size.name == e.name) return Halide::Int(32);
        }
        return std::nullopt;
      case ExpressionKind::Unary:
      case ExpressionKind::Binary: {
        std::optional<Type> type = plain_type(*e.operands[0]);
        for (const ExpressionPtr& operand : e.operands)
          if (plain_type(*operand) != type) return std::nullopt;
        // Comparisons give bool, whose arithmetic gives int32.
        bool truths = is_comparison(e) || e.op == Operator::Not || e.op == Operator::And ||
                      e.op == Operator::Or || (type && type->is_bool());
        return truths ? std::nullopt : type;
      }
      default: return std::nullopt;
    }
  }

  /// A name that nothing in the caller or the callee has: their indices and lets count, too.
  std::string fresh(const std::string& wanted) {
    return *taken_.insert(names_.fresh(wanted)).first;
  }

  std::string local(const std::string& name) {
    auto [at, inserted] = locals_.emplace(name, name);
    if (inserted && taken_.count(name)) at->second = fresh(name);
    return at->second;
  }

  /// Whether an expression of the callee is made of indices, sizes, scalars and numbers alone, all
  /// of them int32.
  bool is_int32(const Expression& e) const {
    switch (e.kind) {
      case ExpressionKind::Number: return e.constant && !e.constant->is_float;
      case ExpressionKind::Dimension: return true;
      case ExpressionKind::Name: {
        if (sizes_.count(e.name)) return true;
        for (const Declaration& parameter : callee_.parameters)
          if (parameter.name == e.name) return parameter.type == Halide::Int(32);
        return !tensors_.count(e.name) && !lets_.count(e.name);
      }
      case ExpressionKind::Unary: return e.op == Operator::Negate && is_int32(*e.operands[0]);
      case ExpressionKind::Binary: {
        if (!is_int32(*e.operands[0]) || !is_int32(*e.operands[1])) return false;
        if (e.op == Operator::Divide || e.op == Operator::Remainder)
          return is_divisor(*e.operands[1]);
        return e.op == Operator::Add || e.op == Operator::Subtract || e.op == Operator::Multiply;
      }
      default: return false;
    }
  }

  /// Dividing by a number that is 0 is refused, by a value that is 0 it is not.
  bool is_divisor(const Expression& e) const {
    if (e.kind != ExpressionKind::Name) return e.kind == ExpressionKind::Number;
    const auto scalar = scalars_.find(e.name);
    if (scalar == scalars_.end() || !scalar->second.among_int32) return true;
    return value_of_numbers(scalar->second.among_int32)->integer != 0;
  }

  /// `among_int32`: what stands around the expression up to a subscript or bound is all int32.
  void rename(Expression* e, bool among_int32 = false) {
    const bool reads = e->kind == ExpressionKind::Apply && !find_builtin(e->name);
    for (const ExpressionPtr& operand : e->operands)
      rename(operand.get(), reads ? is_int32(*operand) : among_int32);
    // Positions are those of the call: the text of the callee may be another one by now.
    e->where = call_.where;
    bool applied = e->kind == ExpressionKind::Apply || e->kind == ExpressionKind::Dimension;
    if (!applied && e->kind != ExpressionKind::Name) return;
    if (applied && e->kind == ExpressionKind::Apply && find_builtin(e->name)) return;
    if (!applied) {
      if (auto local_name = locals_.find(e->name); local_name != locals_.end()) {
        e->name = local_name->second;
        return;
      }
      if (auto size = sizes_.find(e->name); size != sizes_.end()) return replace(e, size->second);
    }
    if (auto scalar = scalars_.find(e->name); scalar != scalars_.end()) {
      const ScalarArgument& argument = scalar->second;
      return replace(e,
                     among_int32 && argument.among_int32 ? argument.among_int32 : argument.value);
    }
    if (auto tensor = tensors_.find(e->name); tensor != tensors_.end()) {
      e->name = tensor->second;
    } else if (!applied && e->name != "true" && e->name != "false") {
      e->name = local(e->name);  // a reduction index
    }
  }

  void replace(Expression* e, const ExpressionPtr& by) {
    SourceRange where = e->where;
    *e = *clone(by);
    e->where = where;
  }

  Function& caller_;
  Function callee_;
  const TreeStatement& call_;
  std::set<std::string>& taken_;  ///< sizes, scalars and tensors of the caller
  FreshNames& names_;
  std::map<std::string, std::string> tensors_, locals_;
  std::set<std::string> lets_;  ///< of a statement, as the callee calls them
  std::map<std::string, ExpressionPtr> sizes_;
  std::map<std::string, ScalarArgument> scalars_;
  std::map<std::string, Type> types_;  ///< that the callee declares for its results
};

/// Definitions give whole tensors, so a call is a statement of its own.
void refuse_call_inside(const Expression& e, const std::map<std::string, Function>& known,
                        const std::set<std::string>& names) {
  if (e.kind == ExpressionKind::Apply && known.count(e.name) && !names.count(e.name) &&
      !find_builtin(e.name)) {
    throw LanguageError(e.where, e.name,
                        " is a definition, and a call of one is a statement of its own, without "
                        "indices, reductions and where clauses: T = ",
                        e.where.str(), "; then T can be read");
  }
  for (const ExpressionPtr& operand : e.operands) refuse_call_inside(*operand, known, names);
}

/// `a = f(x)`, where f is neither a tensor of the function nor a builtin, is a call.
void recognise_call(TreeStatement* statement, const std::set<std::string>& names) {
  if (statement->is_call || statement->targets.empty()) return;
  const Expression& value = *statement->value;
  if (value.kind != ExpressionKind::Apply || statement->reduction != ir::Reduction::None ||
      !statement->clauses.empty() || find_builtin(value.name) || names.count(value.name)) {
    return;
  }
  statement->is_call = true;
  // Only the name: the range of the callee's name is its first characters.
  statement->callee = {value.name, value.where};
  statement->arguments = value.operands;
}

/// Whether it is the bare name of a size, which a tensor may have as well.
bool is_size(const Function& function, const Expression& e) {
  if (e.kind != ExpressionKind::Name) return false;
  for (const Declaration& parameter : function.parameters)
    for (const DimensionSize& size : parameter.dimensions)
      if (size.name == e.name) return true;
  return false;
}

/// Arguments that the caller declares must have the rank of their parameters; of computed ones the
/// inlined statements tell.
void check_ranks(const Function& caller, const TreeStatement& call, const Function& callee) {
  for (size_t i = 0; i < call.arguments.size() && i < callee.parameters.size(); ++i) {
    const Expression& argument = *call.arguments[i];
    const Declaration& wanted = callee.parameters[i];
    if (wanted.dimensions.empty() && is_size(caller, argument)) continue;
    for (const Declaration& given : caller.parameters) {
      size_t rank = given.dimensions.size(), expected = wanted.dimensions.size();
      if (argument.kind != ExpressionKind::Name || argument.name != given.name ||
          rank == expected) {
        continue;
      }
      auto kind = [](size_t r) {
        return r ? concat("a tensor with ", plural(r, "dimension")) : std::string("a scalar");
      };
      throw LanguageError(argument.where, "parameter ", wanted.name, " of ", callee.name.name,
                          " is ", kind(expected), ", but ", given.name, " is ", kind(rank));
    }
  }
}

}  // namespace

void inline_calls(Function* function, const std::map<std::string, Function>& known) {
  std::set<std::string> names = names_of(*function);
  FreshNames fresh(*function);
  std::vector<TreeStatement> statements;
  for (TreeStatement& statement : function->statements) {
    recognise_call(&statement, names);
    if (!statement.is_call) {
      refuse_call_inside(*statement.value, known, names);
      for (const WhereClause& clause : statement.clauses)
        refuse_call_inside(*clause.first, known, names);
      statements.push_back(std::move(statement));
      continue;
    }
    auto callee = known.find(statement.callee.name);
    if (callee == known.end()) {
      std::vector<std::string> candidates;
      for (const auto& entry : known) candidates.push_back(entry.first);
      throw LanguageError(statement.callee.where, "attempting to access undefined function ",
                          statement.callee.name, did_you_mean(statement.callee.name, candidates),
                          statement.callee.name == function->name.name
                              ? ": a definition cannot call itself"
                              : ": a definition can be called by those after it in the same text",
                          function_instead(statement.callee.name, ""));
    }
    check_ranks(*function, statement, callee->second);
    if (statements.size() + callee->second.statements.size() > kMaximumStatements) {
      throw LanguageError(statement.where,
                          "with its calls replaced by the statements of what they call, ",
                          function->name.name, " has more than ", kMaximumStatements,
                          "; split it into definitions that are run one after the other");
    }
    std::vector<TreeStatement> inlined =
        Inlining(function, callee->second, statement, &names, &fresh).run();
    for (TreeStatement& each : inlined) statements.push_back(std::move(each));
  }
  function->statements = std::move(statements);
}

std::set<std::string> names_of(const Function& function) {
  std::set<std::string> names;
  for (const auto* list : {&function.parameters, &function.returns}) {
    for (const Declaration& declaration : *list) {
      names.insert(declaration.name);
      for (const DimensionSize& size : declaration.dimensions) names.insert(size.name);
    }
  }
  for (const TreeStatement& statement : function.statements) {
    names.insert(statement.target.name);
    for (const Identifier& target : statement.targets) names.insert(target.name);
  }
  return names;
}

Function clone(const Function& function) {
  Function copy = function;
  for (TreeStatement& statement : copy.statements) {
    for_each_expression(statement, [](ExpressionPtr& e) { e = clone(e); });
    for (ExpressionPtr& argument : statement.arguments) argument = clone(argument);
  }
  return copy;
}

}  // namespace tc::lang
