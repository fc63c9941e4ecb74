#include "lang/sema.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "lang/builtins.h"
#include "lang/expression_types.h"
#include "lang/roles.h"
#include "lang/suggest.h"
#include "lang/types.h"

namespace tc::lang {
namespace {

struct TensorInfo {
  size_t rank = 0;
  bool input = false, returned = false, annotated = false;
  Type type;
  /// False until a statement or annotation decides the type; reads then adapt like literals.
  bool typed = false;
  Type literal_type;  ///< of the literals assigned so far, while not typed
  bool has_literal = false;
  int first_statement = -1;
  SourceRange where;
};

class Checker {
 public:
  Checker(Function* function, std::vector<std::string>* warnings)
      : function_(*function), warnings_(*warnings) {}

  ir::Program run() {
    program_.name = function_.name.name;
    declare_parameters();
    declare_targets();
    // A tensor's type may be decided by a later statement (`C(i) = 0` before `C(i) += A(i)`), so
    // statements are first walked until no more types are found, and then checked.
    for (size_t typed = 0; walk_statements() > typed;) typed = count_typed();
    for (auto& [name, tensor] : tensors_) {
      if (!tensor.typed) tensor.type = tensor.has_literal ? tensor.literal_type : Halide::Int(32);
      tensor.typed = true;
    }
    final_ = true;
    walk_statements();
    finish_signature();
    return std::move(program_);
  }

 private:
  /// Checks every statement in order; how many tensors have a type then.
  size_t walk_statements() {
    for (auto& entry : tensors_) entry.second.has_literal = false;
    for (size_t i = 0; i < function_.statements.size(); ++i) {
      position_ = static_cast<int>(i);
      check_statement(&function_.statements[i]);
    }
    return count_typed();
  }

  size_t count_typed() const {
    return std::count_if(tensors_.begin(), tensors_.end(),
                         [](const auto& entry) { return entry.second.typed; });
  }

  // ---- declarations

  void expect_free_name(const Identifier& id) {
    if (find_builtin(id.name) || id.name == "min" || id.name == "max") {
      throw LanguageError(id.where, concat("'", id.name,
                                           "' is a built-in function and cannot be "
                                           "redefined; choose another name"));
    }
    if (find_type(id.name)) {
      throw LanguageError(id.where, concat("'", id.name, "' is a type and cannot be a name"));
    }
  }

  [[noreturn]] void already_defined(const Identifier& id, const std::string& as) {
    throw LanguageError(id.where,
                        concat(id.name, " already defined as ", as, "; choose another name"));
  }

  void declare_size(const DimensionSize& size) {
    if (size.name.empty()) return;
    Identifier id{size.name, size.where};
    expect_free_name(id);
    if (program_.scalars.count(size.name)) already_defined(id, "a scalar");
    if (sizes_.insert(size.name).second) program_.sizes.push_back(size.name);
  }

  void declare_parameters() {
    for (const Declaration& p : function_.parameters) {
      Identifier id{p.name, p.name_where};
      expect_free_name(id);
      if (tensors_.count(p.name) || program_.scalars.count(p.name)) already_defined(id, "an input");
      program_.parameters.push_back({p.name, p.dimensions.empty()});
      if (p.dimensions.empty()) {
        if (sizes_.count(p.name)) already_defined(id, "a size");
        program_.scalars[p.name] = {p.name, p.type, false, p.name_where};
        continue;
      }
      ir::Tensor tensor{p.name, p.type, ir::TensorRole::Input, {}, p.name_where};
      for (const DimensionSize& size : p.dimensions) {
        declare_size(size);
        tensor.sizes.push_back(size.name.empty()
                                   ? Halide::Internal::make_const(Halide::Int(32), size.constant)
                                   : ir::make_variable(size.name));
        if (size.name.empty() && !fits(size.constant, Halide::Int(32))) {
          throw LanguageError(size.where, concat("size ", size.constant, " does not fit 32 bits"));
        }
      }
      program_.tensors[p.name] = tensor;
      TensorInfo& info = tensors_[p.name];
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
      auto found = tensors_.find(id.name);
      if ((found != tensors_.end() && found->second.input) || program_.scalars.count(id.name)) {
        throw LanguageError(id.where, concat("TC inputs are immutable: ", id.name,
                                             " is an input; assign a new name instead"));
      }
      if (statement.indices.empty() && sizes_.count(id.name)) already_defined(id, "a size");
      TensorInfo& info = tensors_[id.name];
      if (info.first_statement < 0) {
        info.first_statement = static_cast<int>(i);
        info.rank = statement.indices.size();
        info.where = id.where;
      } else if (info.rank != statement.indices.size()) {
        throw LanguageError(
            statement.where,
            concat("expected ", info.rank, " dimensions but found ", statement.indices.size(),
                   " dimensions: ", id.name, " has ", info.rank,
                   " where it is first assigned, at line ", info.where.line()));
      }
    }
    for (const Declaration& returned : function_.returns) declare_returned(returned);
  }

  void declare_returned(const Declaration& returned) {
    Identifier id{returned.name, returned.name_where};
    expect_free_name(id);
    if (std::count(program_.outputs.begin(), program_.outputs.end(), id.name)) {
      already_defined(id, "a returned tensor");
    }
    auto found = tensors_.find(id.name);
    if ((found != tensors_.end() && found->second.input) || program_.scalars.count(id.name)) {
      already_defined(id, "an input, and TC inputs are immutable");
    }
    if (found == tensors_.end()) {
      throw LanguageError(id.where, concat("undefined variable ", id.name,
                                           " used here: it is returned, but no statement assigns "
                                           "it",
                                           did_you_mean(id.name, assigned_names())));
    }
    TensorInfo& info = found->second;
    info.returned = true;
    program_.outputs.push_back(id.name);
    if (!returned.typed) return;
    info.annotated = info.typed = true;
    info.type = returned.type;
    if (returned.dimensions.size() != info.rank) {
      throw LanguageError(returned.where, concat("tensor ", id.name, " defined with ", info.rank,
                                                 " dimensions but declared as an output with ",
                                                 returned.dimensions.size(), " dimensions"));
    }
  }

  std::vector<std::string> assigned_names() const {
    std::vector<std::string> names;
    for (const TreeStatement& statement : function_.statements) {
      names.push_back(statement.target.name);
    }
    return names;
  }

  std::vector<std::string> visible_names() const {
    std::vector<std::string> names(sizes_.begin(), sizes_.end());
    for (const auto& entry : tensors_) names.push_back(entry.first);
    for (const auto& entry : program_.scalars) names.push_back(entry.first);
    for (const auto& entry : lets_) names.push_back(entry.first);
    return names;
  }

  // ---- statements

  void check_statement(TreeStatement* statement) {
    indices_.clear();
    lets_.clear();
    used_lets_.clear();
    ranged_.clear();
    for (const Identifier& index : statement->indices) {
      if (indices_.count(index.name)) {
        already_defined(index, "an index of this left-hand side");
      }
      declare_index(index);
    }
    // The names that get a range are indices wherever they stand in the statement.
    for (const WhereClause& clause : statement->clauses) {
      if (clause.kind != ClauseKind::Range) continue;
      if (!indices_.count(clause.name.name)) declare_index(clause.name);
      if (!ranged_.insert(clause.name.name).second) {
        already_defined(clause.name, "an index with a range in this where clause");
      }
    }
    find_undefined(*statement);
    for (WhereClause& clause : statement->clauses) check_clause(&clause);
    check_expression(statement->value.get());
    find_reduction_indices(statement);
    check_assignment(statement);
    if (final_) warn_unused_lets(*statement);
  }

  void declare_index(const Identifier& id) {
    // An index is never applied to arguments, so it may be called j0 although a function is.
    if (!find_builtin(id.name)) expect_free_name(id);
    if (sizes_.count(id.name)) already_defined(id, "a size");
    if (program_.scalars.count(id.name)) already_defined(id, "a scalar");
    auto tensor = tensors_.find(id.name);
    if (tensor != tensors_.end()) already_defined(id, "a tensor");
    indices_.insert(id.name);
  }

  void check_clause(WhereClause* clause) {
    switch (clause->kind) {
      case ClauseKind::Range:
        in_bounds_ = true;
        for (const ExpressionPtr& bound : {clause->first, clause->last}) {
          check_expression(bound.get());
          if (final_) expect_integer(*bound, "the bound of a range");
          specialize_scalars(*bound);
        }
        in_bounds_ = false;
        return;
      case ClauseKind::Let:
        expect_free_name(clause->name);
        if (lets_.count(clause->name.name)) already_defined(clause->name, "a let of this clause");
        if (indices_.count(clause->name.name)) already_defined(clause->name, "an index");
        if (sizes_.count(clause->name.name)) already_defined(clause->name, "a size");
        if (program_.scalars.count(clause->name.name)) already_defined(clause->name, "a scalar");
        if (tensors_.count(clause->name.name)) already_defined(clause->name, "a tensor");
        check_expression(clause->first.get());
        lets_[clause->name.name] = clause->first;
        return;
      case ClauseKind::Exists: check_expression(clause->first.get()); return;
    }
  }

  void warn_unused_lets(const TreeStatement& statement) {
    for (const WhereClause& clause : statement.clauses) {
      if (clause.kind == ClauseKind::Let && !used_lets_.count(clause.name.name)) {
        warn(&warnings_, clause.name.where,
             concat(clause.name.name, " is not used in this statement"));
      }
    }
  }

  /// Whether a bare name is none of those declared, so that it stands for an index.
  bool is_new_index(const std::string& name) const {
    return !sizes_.count(name) && !tensors_.count(name) && !program_.scalars.count(name) &&
           name != "true" && name != "false";
  }

  /// A new name that neither stands in a subscript nor has a range could never get one, so it was
  /// not meant to be an index.
  void find_undefined(const TreeStatement& statement) {
    std::set<std::string> ranged(indices_);
    std::vector<Identifier> names;
    std::function<void(const Expression&, bool)> visit = [&](const Expression& e, bool subscript) {
      if (e.kind == ExpressionKind::Name && is_new_index(e.name)) {
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
      if (clause.kind == ClauseKind::Let) ranged.insert(clause.name.name);
      if (clause.kind == ClauseKind::Let) {
        // Where a let stands in a subscript, what it mentions does.
        visit(*clause.first, true);
      } else if (clause.kind == ClauseKind::Exists) {
        visit(*clause.first, false);
      }
    }
    visit(*statement.value, false);
    for (const Identifier& name : names) {
      if (!ranged.count(name.name)) undefined(name);
    }
  }

  /// Calls `visit` for every index the expression mentions, lets included.
  void visit_indices(const Expression& e, const std::function<void(const Expression&)>& visit) {
    if (e.kind == ExpressionKind::Name) {
      if (e.binding == Binding::Index) visit(e);
      if (e.binding == Binding::Let) visit_indices(*lets_.at(e.name), visit);
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

  [[noreturn]] void undefined(const Identifier& id) {
    throw LanguageError(id.where,
                        concat("undefined variable ", id.name,
                               " used here: it is no size, tensor or "
                               "scalar, and as an index it would need a range, from a subscript it "
                               "stands in or from a where clause",
                               did_you_mean(id.name, visible_names())));
  }

  void check_assignment(TreeStatement* statement) {
    TensorInfo& tensor = tensors_.at(statement->target.name);
    Expression& value = *statement->value;
    if (statement->reduction == ir::Reduction::None && !statement->reduction_indices.empty()) {
      const Identifier& index = statement->reduction_indices.back();
      std::string left = statement->target.name + index_list(statement->indices);
      throw LanguageError(
          index.where, concat("this statement includes reduction variable '", index.name,
                              "' but does not "
                              "specify a reduction. To sum over ",
                              index.name, " write ", left,
                              " +=! ... ; "
                              "*=!, min=! and max=! are the others. If it is no index, declare it",
                              did_you_mean(index.name, visible_names())));
    }
    if (!tensor.typed) {
      if (value.adaptable) {
        tensor.literal_type =
            tensor.has_literal ? promote(tensor.literal_type, value.type) : value.type;
        tensor.has_literal = true;
        return;
      }
      tensor.type = value.type;
      if (tensor.has_literal && tensor.literal_type.is_float() && !value.type.is_float()) {
        tensor.type = tensor.literal_type;
      }
      tensor.typed = true;
      return;
    }
    if (!final_) return;
    bool literal = value.adaptable && (!value.type.is_float() || tensor.type.is_float());
    if (literal) {
      adapt(&value, tensor.type);
    } else if (!converts(value.type, tensor.type)) {
      throw LanguageError(
          value.where,
          concat("attempting to assign type ", type_name(value.type), " to narrower type ",
                 type_name(tensor.type), " of ", statement->target.name,
                 " without an explicit "
                 "cast; write ",
                 type_name(tensor.type), "(...) around the right-hand side",
                 tensor.annotated ? " or widen the type in the return list" : ""));
    }
  }

  static std::string index_list(const std::vector<Identifier>& indices) {
    if (indices.empty()) return "";
    std::string text = "(";
    for (size_t i = 0; i < indices.size(); ++i) text += (i ? ", " : "") + indices[i].name;
    return text + ")";
  }

  // ---- expressions

  void check_expression(Expression* e) {
    for (const ExpressionPtr& operand : e->operands) check_expression(operand.get());
    switch (e->kind) {
      case ExpressionKind::Name: return check_name(e);
      case ExpressionKind::Dimension: return check_dimension(e);
      case ExpressionKind::Apply: return check_apply(e);
      default: break;
    }
    // While types are being found, an operand of unknown type must not cause an error.
    if (final_ || !unknown_below(*e)) {
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
        bool replaces = e->adaptable && !operand->adaptable;
        if (replaces || operand->adaptable == e->adaptable) {
          e->type = replaces ? operand->type : promote(e->type, operand->type);
          e->adaptable = operand->adaptable;
        }
      }
    }
  }

  /// Whether a read inside, outside of subscripts, has no type yet.
  bool unknown_below(const Expression& e) const {
    if (e.binding == Binding::Tensor && e.kind != ExpressionKind::Dimension) {
      return !tensors_.at(e.name).typed;
    }
    if (e.binding == Binding::Let) return unknown_below(*lets_.at(e.name));
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
  }

  void check_name(Expression* e) {
    const std::string& name = e->name;
    if (auto let = lets_.find(name); let != lets_.end()) {
      used_lets_.insert(name);
      bind(e, Binding::Let, let->second->type);
      if (let->second->constant) {
        e->constant = let->second->constant;
        e->adaptable = true;
      }
      return;
    }
    if (indices_.count(name)) {
      if (in_bounds_) {
        throw LanguageError(e->where, concat("the bounds of a range cannot depend on index ", name,
                                             "; they are made of sizes, scalars and integers"));
      }
      return bind(e, Binding::Index, Halide::Int(32));
    }
    if (sizes_.count(name)) return bind(e, Binding::Size, Halide::Int(32));
    auto scalar = program_.scalars.find(name);
    if (scalar != program_.scalars.end()) return bind(e, Binding::Scalar, scalar->second.type);
    auto tensor = tensors_.find(name);
    if (tensor != tensors_.end()) {
      expect_rank(*e, tensor->second, 0);
      return bind_read(e, tensor->second);
    }
    if (name == "true" || name == "false") return bind(e, Binding::Truth, Halide::Bool());
    if (in_bounds_) undefined({name, e->where});
    declare_index({name, e->where});
    bind(e, Binding::Index, Halide::Int(32));
  }

  void bind_read(Expression* e, const TensorInfo& tensor) {
    if (in_bounds_) {
      throw LanguageError(e->where,
                          "the bounds of a range cannot read tensors; they are made of "
                          "sizes, scalars and integers");
    }
    if (!tensor.input && !tensor.returned && tensor.first_statement > position_) {
      throw LanguageError(e->where, concat("undefined variable ", e->name,
                                           " used here: it is "
                                           "first assigned at line ",
                                           tensor.where.line(), ", after this statement"));
    }
    Type so_far = tensor.has_literal ? tensor.literal_type : Halide::Int(32);
    bind(e, Binding::Tensor, tensor.typed ? tensor.type : so_far);
    e->adaptable = !tensor.typed;
  }

  void expect_rank(const Expression& e, const TensorInfo& tensor, size_t rank) {
    if (tensor.rank == rank) return;
    throw LanguageError(e.where, concat("expected ", tensor.rank, " dimensions but found ", rank,
                                        " dimensions: ", e.name, " has ", tensor.rank,
                                        tensor.rank == 1 ? " dimension" : " dimensions"));
  }

  void check_dimension(Expression* e) {
    auto tensor = tensors_.find(e->name);
    if (tensor == tensors_.end() ||
        (!tensor->second.input && tensor->second.first_statement >= position_)) {
      throw LanguageError(
          e->where,
          concat("undefined variable ", e->name, " used here",
                 tensor == tensors_.end() ? did_you_mean(e->name, visible_names())
                                          : ": its sizes are not known before it is assigned"));
    }
    if (static_cast<size_t>(e->dimension) >= tensor->second.rank) {
      throw LanguageError(
          e->where, concat(e->name, " has no dimension ", e->dimension,
                           "; its dimensions are counted from 0 and it has ", tensor->second.rank));
    }
    bind(e, Binding::Tensor, Halide::Int(32));
  }

  void check_apply(Expression* e) {
    if (find_builtin(e->name)) {
      e->binding = Binding::Builtin;
      if (in_bounds_ && find_builtin(e->name)->name != std::string("abs")) {
        throw LanguageError(e->where,
                            "the bounds of a range are made of sizes, scalars and "
                            "integers");
      }
      if (final_ || !unknown_below(*e)) return set_type(e);
      // Whatever the operand turns out to be, the result is no literal.
      bind(e, Binding::Builtin, Halide::Float(32));
      for (const ExpressionPtr& operand : e->operands) {
        if (!operand->adaptable && operand->type.is_float()) e->type = operand->type;
      }
      return;
    }
    auto scalar = program_.scalars.find(e->name);
    if (scalar != program_.scalars.end()) {
      TensorInfo info;
      expect_rank(*e, info, e->operands.size());
      return bind(e, Binding::Scalar, scalar->second.type);
    }
    auto tensor = tensors_.find(e->name);
    if (tensor == tensors_.end()) {
      std::vector<std::string> names = visible_names();
      std::vector<std::string> builtins = all_builtin_names();
      names.insert(names.end(), builtins.begin(), builtins.end());
      throw LanguageError(e->where, concat("undefined variable ", e->name,
                                           " used here: it is no "
                                           "tensor and no built-in function",
                                           did_you_mean(e->name, names)));
    }
    expect_rank(*e, tensor->second, e->operands.size());
    for (const ExpressionPtr& operand : e->operands) {
      if (final_) expect_integer(*operand, "a subscript");
      specialize_scalars(*operand);
    }
    bind_read(e, tensor->second);
  }

  /// The integer scalars of a subscript or bound decide ranges, so a kernel is made for each value.
  void specialize_scalars(const Expression& e) {
    if (e.binding == Binding::Scalar) {
      ir::Scalar& scalar = program_.scalars.at(e.name);
      if (!scalar.type.is_float() && !scalar.type.is_bool()) scalar.specialized = true;
    }
    if (e.binding == Binding::Let) specialize_scalars(*lets_.at(e.name));
    for (const ExpressionPtr& operand : e.operands) specialize_scalars(*operand);
  }

  void finish_signature() {
    for (const auto& [name, info] : tensors_) {
      if (info.input) continue;
      ir::TensorRole role = ir::TensorRole::Temporary;
      bool initial = initial_contents_read(function_, name, &warnings_);
      if (info.returned) role = initial ? ir::TensorRole::InOut : ir::TensorRole::Output;
      if (!info.returned && initial) {
        throw LanguageError(info.where,
                            concat(name,
                                   " is read before it is assigned, but is not returned, so "
                                   "no caller can give it a value; return it, or use '=' or a "
                                   "reduction with '!' first"));
      }
      ir::Tensor tensor{name, info.type, role, std::vector<ir::Expr>(info.rank), info.where};
      program_.tensors[name] = tensor;
    }
  }

  Function& function_;
  std::vector<std::string>& warnings_;
  ir::Program program_;
  std::set<std::string> sizes_;
  std::map<std::string, TensorInfo> tensors_;
  bool final_ = false;
  int position_ = 0;  ///< of the statement being checked

  // Of the statement being checked.
  std::set<std::string> indices_, used_lets_, ranged_;
  std::map<std::string, ExpressionPtr> lets_;
  bool in_bounds_ = false;
};

}  // namespace

ir::Program check(Function* function, std::vector<std::string>* warnings) {
  return Checker(function, warnings).run();
}

}  // namespace tc::lang
