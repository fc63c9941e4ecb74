#include "lang/sema/sema.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/notes.h"
#include "base/suggest.h"
#include "lang/sema/builtins.h"
#include "lang/sema/expansion.h"
#include "lang/sema/expression_types.h"
#include "lang/sema/resolve.h"
#include "lang/sema/roles.h"
#include "lang/sema/scope.h"
#include "lang/sema/suspects.h"
#include "lang/sema/types.h"

namespace tc::lang {
namespace {

class Checker {
 public:
  Checker(Function* function, std::vector<std::string>* warnings)
      : function_(*function), warnings_(*warnings) {}

  ir::Program run() {
    program_.name = function_.name.name;
    expect_free_name(function_.name);
    declare_parameters();
    declare_targets();
    // A tensor's type may be decided by a later statement (`C(i) = 0` before `C(i) += A(i)`), so
    // statements are first walked until no more types are found, and then checked.
    for (size_t typed = 0; walk_statements() > typed;) typed = count_typed();
    for (auto& [name, tensor] : scope_.tensors) {
      if (!tensor.typed) tensor.type = tensor.has_literal ? tensor.literal_type : Halide::Int(32);
      tensor.typed = true;
    }
    scope_.all_typed = true;
    walk_statements();
    finish_signature();
    warn_of_suspects(function_, &warnings_);
    return std::move(program_);
  }

 private:
  /// Checks every statement in order; how many tensors have a type then.
  size_t walk_statements() {
    for (auto& entry : scope_.tensors) entry.second.has_literal = false;
    for (size_t i = 0; i < function_.statements.size(); ++i) {
      scope_.position = static_cast<int>(i);
      check_statement(&function_.statements[i]);
    }
    return count_typed();
  }

  size_t count_typed() const {
    return std::count_if(scope_.tensors.begin(), scope_.tensors.end(),
                         [](const auto& entry) { return entry.second.typed; });
  }

  // ---- declarations

  void check_size(const DimensionSize& size) {
    if (size.name.empty()) {
      if (fits(size.constant, Halide::Int(32))) return;
      throw LanguageError(size.where, "size ", size.constant, " does not fit 32 bits");
    }
    Identifier id{size.name, size.where};
    expect_free_name(id);
    const auto scalar = scope_.scalars.find(size.name);
    if (scalar == scope_.scalars.end()) return;
    if (!scalar->second.type.is_int_or_uint()) already_defined(id, "a scalar");
    throw LanguageError(size.where, size.name,
                        " already defined as a scalar, and sizes are those of tensors; give a "
                        "result that many elements by the range of an index, as in where i in 0:",
                        size.name, ", or choose another name");
  }

  void declare_parameters() {
    for (const Declaration& p : function_.parameters) {
      Identifier id{p.name, p.name_where};
      p.dimensions.empty() ? expect_free_value_name(id) : expect_free_name(id);
      if (scope_.tensors.count(p.name) || scope_.scalars.count(p.name))
        already_defined(id, "an input");
      program_.parameters.push_back({p.name, p.dimensions.empty()});
      if (p.dimensions.empty()) {
        if (scope_.sizes.count(p.name)) already_defined(id, "a size");
        scope_.scalars[p.name] = {p.name, p.type};
        continue;
      }
      ir::Tensor tensor{p.name, p.type, ir::TensorRole::Input, {}, p.name_where};
      for (const DimensionSize& size : p.dimensions) {
        check_size(size);
        if (!size.name.empty() && scope_.sizes.insert(size.name).second)
          program_.sizes.push_back(size.name);
        tensor.sizes.push_back(size.name.empty()
                                   ? Halide::Internal::make_const(Halide::Int(32), size.constant)
                                   : ir::make_variable(size.name));
      }
      program_.tensors[p.name] = tensor;
      TensorInfo& info = scope_.tensors[p.name];
      info.rank = p.dimensions.size();
      info.input = info.typed = true;
      info.type = p.type;
      info.where = p.name_where;
    }
  }

  /// Left-hand sides, and what the return list says of them.
  void declare_targets() {
    for (size_t i = 0; i < function_.statements.size(); ++i) {
      const TreeStatement& statement = function_.statements[i];
      const Identifier& id = statement.target;
      expect_free_name(id);
      auto found = scope_.tensors.find(id.name);
      if ((found != scope_.tensors.end() && found->second.input) || scope_.scalars.count(id.name)) {
        throw LanguageError(id.where, "TC inputs are immutable: ", id.name,
                            " is an input; assign a new name instead");
      }
      if (statement.indices.empty() && scope_.sizes.count(id.name)) already_defined(id, "a size");
      TensorInfo& info = scope_.tensors[id.name];
      if (info.first_statement < 0) {
        info.first_statement = static_cast<int>(i);
        info.rank = statement.indices.size();
        info.where = id.where;
      } else if (info.rank != statement.indices.size()) {
        throw LanguageError(statement.where, "expected ", plural(info.rank, "dimension"),
                            " but found ", plural(statement.indices.size(), "dimension"), ": ",
                            id.name, " has ", info.rank, " where it is first assigned, at line ",
                            info.where.line());
      }
    }
    for (const Declaration& returned : function_.returns) declare_returned(returned);
  }

  void declare_returned(const Declaration& returned) {
    Identifier id{returned.name, returned.name_where};
    expect_free_name(id);
    if (std::count(program_.outputs.begin(), program_.outputs.end(), id.name))
      already_defined(id, "a returned tensor");
    auto found = scope_.tensors.find(id.name);
    if ((found != scope_.tensors.end() && found->second.input) || scope_.scalars.count(id.name))
      already_defined(id, "an input, and TC inputs are immutable");
    if (found == scope_.tensors.end()) {
      std::vector<std::string> assigned;
      for (const TreeStatement& statement : function_.statements)
        assigned.push_back(statement.target.name);
      throw LanguageError(id.where, "undefined variable ", id.name,
                          " used here: it is returned, but no statement assigns it",
                          did_you_mean(id.name, assigned));
    }
    TensorInfo& info = found->second;
    info.returned = true;
    program_.outputs.push_back(id.name);
    if (!returned.typed) return;
    info.annotated = info.typed = true;
    info.type = returned.type;
    if (returned.dimensions.size() != info.rank) {
      std::string type = type_name(returned.type);
      if (info.rank) type += "(" + example_sizes(info.rank) + ")";
      throw LanguageError(returned.where, "tensor ", id.name, " defined with ",
                          plural(info.rank, "dimension"), " but declared as an output with ",
                          plural(returned.dimensions.size(), "dimension"),
                          "; declare as many sizes as it has indices, as in ", type, " ", id.name,
                          ", or return ", id.name, " alone");
    }
    for (const DimensionSize& size : returned.dimensions) check_size(size);
  }

  // ---- statements

  void check_statement(TreeStatement* statement) {
    scope_.indices.clear();
    scope_.lets.clear();
    scope_.used_lets.clear();
    expect_small(*statement);
    for (size_t d = 0; d < statement->indices.size(); ++d) {
      const Identifier& index = statement->indices[d];
      if (statement->scattered(d)) continue;
      if (scope_.indices.count(index.name))
        already_defined(index, "an index of this left-hand side");
      scope_.declare_index(index);
    }
    // The names that get a range are indices wherever they stand in the statement.
    std::set<std::string> ranged;
    for (const WhereClause& clause : statement->clauses) {
      if (clause.kind != ClauseKind::Range) continue;
      if (!scope_.indices.count(clause.name.name)) scope_.declare_index(clause.name);
      if (!ranged.insert(clause.name.name).second)
        already_defined(clause.name, "an index with a range in this where clause");
    }
    find_undefined(*statement);
    for (WhereClause& clause : statement->clauses) check_clause(&clause);
    for (const ExpressionPtr& subscript : statement->subscripts) {
      if (subscript) resolve_subscript(subscript.get(), &scope_);
    }
    resolve(statement->value.get(), &scope_);
    find_reduction_indices(statement);
    check_assignment(statement);
    if (!scope_.all_typed) return;
    expect_finite_literals(*statement->value);
    for (const WhereClause& clause : statement->clauses)
      if (clause.kind == ClauseKind::Let && !clause.first->adaptable)
        expect_finite_literals(*clause.first);
    expect_small(*statement);
    for (const WhereClause& clause : statement->clauses)
      if (clause.kind == ClauseKind::Let && !scope_.used_lets.count(clause.name.name))
        warn(&warnings_, clause.name.where, clause.name.name, " is not used in this statement");
  }

  void check_clause(WhereClause* clause) {
    switch (clause->kind) {
      case ClauseKind::Range:
        resolve_bound(clause->first.get(), &scope_);
        resolve_bound(clause->last.get(), &scope_);
        return;
      case ClauseKind::Let:
        expect_free_value_name(clause->name);
        if (scope_.lets.count(clause->name.name))
          already_defined(clause->name, "a let of this clause");
        if (scope_.indices.count(clause->name.name)) already_defined(clause->name, "an index");
        if (scope_.sizes.count(clause->name.name)) already_defined(clause->name, "a size");
        if (scope_.scalars.count(clause->name.name)) already_defined(clause->name, "a scalar");
        if (scope_.tensors.count(clause->name.name)) already_defined(clause->name, "a tensor");
        resolve(clause->first.get(), &scope_);
        scope_.lets[clause->name.name] = clause->first;
        return;
      case ClauseKind::Exists: resolve(clause->first.get(), &scope_); return;
    }
  }

  /// A new name that neither stands in a subscript nor has a range could never get one, so it was
  /// not meant to be an index.
  void find_undefined(const TreeStatement& statement) {
    std::set<std::string> ranged(scope_.indices);
    std::vector<Identifier> names;
    std::function<void(const Expression&, bool)> visit = [&](const Expression& e, bool subscript) {
      if (e.kind == ExpressionKind::Name && scope_.is_new_index(e.name)) {
        if (subscript) ranged.insert(e.name);
        names.push_back({e.name, e.where});
      }
      bool access = e.kind == ExpressionKind::Apply && !find_builtin(e.name);
      for (size_t i = 0; i < e.operands.size(); ++i) {
        bool divisor = i == 1 && e.kind == ExpressionKind::Binary &&
                       (e.op == Operator::Divide || e.op == Operator::Remainder);
        visit(*e.operands[i], (subscript || access) && !divisor);
      }
    };
    for (const WhereClause& clause : statement.clauses) {
      if (clause.kind == ClauseKind::Range) continue;
      const bool let = clause.kind == ClauseKind::Let;
      if (let) ranged.insert(clause.name.name);
      // Where a let stands in a subscript, what it mentions does.
      visit(*clause.first, let);
    }
    for (const ExpressionPtr& subscript : statement.subscripts) {
      if (subscript) visit(*subscript, true);
    }
    visit(*statement.value, false);
    for (const Identifier& name : names) {
      if (!ranged.count(name.name)) scope_.undefined(name);
    }
  }

  /// Calls `visit` for every index the expression mentions, lets included.
  void visit_indices(const Expression& e, const std::function<void(const Expression&)>& visit) {
    if (e.kind == ExpressionKind::Name) {
      if (e.binding == Binding::Index) visit(e);
      if (e.binding == Binding::Let) visit_indices(*scope_.lets.at(e.name), visit);
      return;
    }
    for (const ExpressionPtr& operand : e.operands) visit_indices(*operand, visit);
  }

  void find_reduction_indices(TreeStatement* statement) {
    std::set<std::string> seen;
    std::vector<Identifier> mentioned;
    for (const Identifier& index : statement->indices) seen.insert(index.name);
    auto visit = [&](const Expression& e) {
      if (seen.insert(e.name).second) mentioned.push_back({e.name, e.where});
    };
    for (const ExpressionPtr& subscript : statement->subscripts) {
      if (subscript) visit_indices(*subscript, visit);
    }
    visit_indices(*statement->value, visit);
    statement->reduction_indices = mentioned;
    for (const WhereClause& clause : statement->clauses) {
      if (clause.kind != ClauseKind::Range) continue;
      if (seen.insert(clause.name.name).second) statement->reduction_indices.push_back(clause.name);
    }
    mentioned.clear();
    for (const WhereClause& clause : statement->clauses) {
      if (clause.kind == ClauseKind::Exists) visit_indices(*clause.first, visit);
    }
    statement->auxiliary_indices = mentioned;
  }

  void check_assignment(TreeStatement* statement) {
    TensorInfo& tensor = scope_.tensors.at(statement->target.name);
    Expression& value = *statement->value;
    if (statement->reduction == ir::Reduction::None && !statement->reduction_indices.empty()) {
      const Identifier& index = statement->reduction_indices.back();
      std::string left = statement->target.name + index_list(statement->indices);
      throw LanguageError(index.where, "this statement includes reduction variable '", index.name,
                          "' but does not specify a reduction. To sum over ", index.name, " write ",
                          left,
                          " +=! ... ; *=!, min=!, max=!, &&=!, ||=!, argmin=! and argmax=! are the "
                          "others. If it is no index, declare it",
                          did_you_mean(index.name, scope_.visible_names()));
    }
    if (has_type_of_its_own(statement->reduction)) return check_result_type(*statement, &tensor);
    if (!tensor.typed) {
      if (value.adaptable) {
        tensor.literal_type =
            tensor.has_literal ? promote(tensor.literal_type, value.type) : value.type;
        tensor.has_literal = true;
        return;
      }
      tensor.type = value.type;
      if (tensor.has_literal && tensor.literal_type.is_float() && !value.type.is_float())
        tensor.type = tensor.literal_type;
      tensor.typed = true;
      return;
    }
    if (!scope_.all_typed) return;
    bool literal = value.adaptable && (!value.type.is_float() || tensor.type.is_float());
    if (literal) {
      const std::string& name = statement->target.name;
      const std::string type = type_name(tensor.type);
      adapt(
          &value, tensor.type,
          concat("the type of ", name, "; write ", type, "(...) around the right-hand side or ",
                 tensor.annotated  ? "widen the type in the return list"
                 : tensor.returned ? concat("declare a wider type of ", name, " in the return list")
                                   : concat("cast what gives ", name, " its type to a wider one")));
    } else if (!converts(value.type, tensor.type)) {
      throw LanguageError(value.where, "attempting to assign type ", type_name(value.type),
                          " to narrower type ", type_name(tensor.type), " of ",
                          statement->target.name, " without an explicit cast; write ",
                          type_name(tensor.type), "(...) around the right-hand side",
                          tensor.annotated ? " or widen the type in the return list" : "");
    }
  }

  static bool has_type_of_its_own(ir::Reduction reduction) {
    return ir::is_position(reduction) || reduction == ir::Reduction::And ||
           reduction == ir::Reduction::Or;
  }

  /// Of the reductions whose result does not have the type of what is reduced: `&&=` and `||=` take
  /// and give bool, positions are integers whatever is compared.
  void check_result_type(const TreeStatement& statement, TensorInfo* tensor) {
    bool position = ir::is_position(statement.reduction);
    std::string op(statement.operator_where.str());
    if (position && statement.reduction_indices.empty()) {
      throw LanguageError(statement.operator_where, op,
                          " gives the index of a value, but every index of the right-hand side is "
                          "on the left as well; leave out of ",
                          statement.target.name, index_list(statement.indices),
                          " the one to look along, or give one a range in a where clause");
    }
    Type natural = position ? Halide::Int(64) : Halide::Bool();
    if (!tensor->typed) {
      tensor->type = natural;
      tensor->typed = true;
    }
    if (!scope_.all_typed) return;
    if (!position) expect_bool(*statement.value, "the right-hand side of '" + op + "'");
    if (tensor->type == natural || (position && tensor->type == Halide::Int(32))) return;
    const std::string& name = statement.target.name;
    throw LanguageError(statement.target.where, op, " gives ",
                        position ? "an index, which is int64 or int32" : "bool", ", but ", name,
                        " has type ", type_name(tensor->type), "; ",
                        tensor->annotated
                            ? concat("declare ", type_name(natural), " in the return list")
                            : concat("assign it to another tensor first"),
                        ", and cast where it is read");
  }

  static std::string index_list(const std::vector<Identifier>& indices) {
    if (indices.empty()) return "";
    std::string text = "(";
    for (size_t i = 0; i < indices.size(); ++i) text += (i ? ", " : "") + indices[i].name;
    return text + ")";
  }

  void finish_signature() {
    program_.scalars = std::move(scope_.scalars);
    for (const auto& [name, info] : scope_.tensors) {
      if (info.input) continue;
      ir::TensorRole role = ir::TensorRole::Temporary;
      bool initial = initial_contents_read(function_, name, &warnings_);
      if (info.returned) role = initial ? ir::TensorRole::InOut : ir::TensorRole::Output;
      if (!info.returned && initial) {
        throw LanguageError(info.where, name,
                            " is read before it is assigned, but is not returned, so no caller can "
                            "give it a value; return it, or use '=' or a reduction with '!' first");
      }
      ir::Tensor tensor{name, info.type, role, std::vector<ir::Expr>(info.rank), info.where};
      program_.tensors[name] = tensor;
    }
  }

  Function& function_;
  std::vector<std::string>& warnings_;
  ir::Program program_;
  Scope scope_;
};

}  // namespace

ir::Program check(Function* function, std::vector<std::string>* warnings) {
  return Checker(function, warnings).run();
}

}  // namespace tc::lang
