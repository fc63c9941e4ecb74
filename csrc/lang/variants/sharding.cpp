#include "lang/variants/sharding.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lang/sema/roles.h"
#include "lang/syntax/expressions.h"

namespace tc::lang {
namespace {

using Dimension = std::pair<std::string, int>;  // of a tensor

/// The dimensions that plain indices walk together.
class Groups {
 public:
  explicit Groups(const Function& function) {
    for (const Declaration& parameter : function.parameters) declare(parameter);
    for (const Declaration& result : function.returns) declare(result);
    for (const TreeStatement& statement : function.statements) look(statement);
    for (const SameSize& same : function.same_sizes) agree(same);
  }

  /// All groups that may be split.
  std::vector<std::set<Dimension>> found() {
    std::map<Dimension, std::set<Dimension>> members;
    for (const auto& entry : parent_) members[root(entry.first)].insert(entry.first);
    for (const Dimension& dimension : whole_) members.erase(root(dimension));
    std::vector<std::set<Dimension>> result;
    for (auto& entry : members) result.push_back(std::move(entry.second));
    return result;
  }

 private:
  Dimension root(const Dimension& dimension) {
    Dimension& above = parent_.emplace(dimension, dimension).first->second;
    return above == dimension ? dimension : above = root(above);
  }
  void join(const Dimension& a, const Dimension& b) { parent_[root(a)] = root(b); }
  void keep_whole(const Dimension& dimension) {
    root(dimension);
    whole_.insert(dimension);
  }

  void declare(const Declaration& declaration) {
    for (size_t d = 0; d < declaration.dimensions.size(); ++d) {
      Dimension dimension(declaration.name, static_cast<int>(d));
      const std::string& size = declaration.dimensions[d].name;
      if (size.empty())
        keep_whole(dimension);
      else
        join(dimension, by_size_.emplace(size, dimension).first->second);
    }
  }

  /// What a called definition declares holds for the parts as well.
  void agree(const SameSize& same) {
    const Dimension dimension(same.tensor, static_cast<int>(same.dimension));
    if (same.other.empty())
      keep_whole(dimension);
    else
      join(dimension, {same.other, static_cast<int>(same.other_dimension)});
  }

  void look(const TreeStatement& statement) {
    places_.clear();
    uneven_.clear();
    for (size_t d = 0; d < statement.indices.size(); ++d) {
      Dimension dimension(statement.target.name, static_cast<int>(d));
      if (const Expression* subscript = statement.scattered(d)) {
        keep_whole(dimension);
        look(*subscript);
      } else {
        places_[statement.indices[d].name].push_back(dimension);
      }
    }
    look(*statement.value);
    for (const WhereClause& clause : statement.clauses)
      if (clause.kind != ClauseKind::Range) look(*clause.first);
    for (const WhereClause& clause : statement.clauses)
      if (clause.kind == ClauseKind::Range) look_at_range(clause);
    // An index that is not walked, in an exists or in a let that is not used, makes no terms.
    std::set<std::string> walked;
    for (const Identifier& index : statement.indices) walked.insert(index.name);
    for (const Identifier& index : statement.reduction_indices) walked.insert(index.name);
    for (const auto& [index, dimensions] : places_)
      for (const Dimension& dimension : dimensions) {
        join(dimension, dimensions.front());
        if (uneven_.count(index) || !walked.count(index)) keep_whole(dimension);
      }
  }

  /// An index that runs over all of a dimension runs over the part that is there.
  void look_at_range(const WhereClause& clause) {
    const Expression& last = *clause.last;
    auto size = by_size_.find(last.name);
    auto places = places_.find(clause.name.name);
    if (is_constant(*clause.first, 0) && last.kind == ExpressionKind::Name &&
        last.binding == Binding::Size && size != by_size_.end() && places != places_.end()) {
      places->second.push_back(size->second);
      return;
    }
    uneven_.insert(clause.name.name);
    look(*clause.first);
    look(last);
  }

  void look(const Expression& e) {
    if (e.binding == Binding::Index) uneven_.insert(e.name);
    if (e.binding == Binding::Size && by_size_.count(e.name)) keep_whole(by_size_.at(e.name));
    if (e.kind == ExpressionKind::Dimension) keep_whole({e.name, e.dimension});
    for (size_t d = 0; d < e.operands.size(); ++d) {
      const Expression& operand = *e.operands[d];
      Dimension dimension(e.name, static_cast<int>(d));
      if (is_access(e) && operand.binding == Binding::Index) {
        places_[operand.name].push_back(dimension);
        continue;
      }
      if (is_access(e)) keep_whole(dimension);
      look(operand);
    }
  }

  std::map<Dimension, Dimension> parent_;
  std::set<Dimension> whole_;  ///< that must not be split
  std::map<std::string, Dimension> by_size_;
  // Of the statement that is looked at: where its indices are subscripts, and which are more.
  std::map<std::string, std::vector<Dimension>> places_;
  std::set<std::string> uneven_;
};

bool is_collective(ir::Reduction reduction) {
  return reduction == ir::Reduction::Sum || reduction == ir::Reduction::Product ||
         reduction == ir::Reduction::Min || reduction == ir::Reduction::Max;
}

/// One group, split.
class Splitter {
 public:
  Splitter(const Definition& definition, const std::set<Dimension>& group)
      : definition_(definition), function_(*definition.tree) {
    for (const auto& [tensor, dimension] : group) {
      valid_ = valid_ && !split_.count(tensor);  // along two dimensions at once
      split_[tensor] = dimension;
    }
  }

  std::optional<Sharding> run() {
    for (const TreeStatement& statement : function_.statements) valid_ = valid_ && works(statement);
    Sharding result;
    bool some = false;
    for (const ir::Parameter& parameter : definition_.signature.parameters) {
      result.inputs.push_back(placement(parameter.name));
      some = some || result.inputs.back().dimension >= 0;
    }
    for (const std::string& output : definition_.signature.outputs)
      result.outputs.push_back(placement(output));
    if (!valid_ || !some) return std::nullopt;
    return result;
  }

 private:
  Placement placement(const std::string& tensor) const {
    Placement result;
    if (auto found = split_.find(tensor); found != split_.end()) result.dimension = found->second;
    if (auto found = partial_.find(tensor); found != partial_.end()) result.partial = found->second;
    return result;
  }

  /// Whether a process can do its part of a statement; notes partial results.
  bool works(const TreeStatement& statement) {
    std::set<std::string> indices;
    bool terms = false;
    walk(statement, [&](const Expression& e) {
      if (!is_access(e)) return;
      auto split = split_.find(e.name);
      if (split != split_.end()) indices.insert(e.operands.at(split->second)->name);
      terms = terms || partial_.count(e.name);
    });
    auto target = split_.find(statement.target.name);
    if (target != split_.end()) indices.insert(statement.indices.at(target->second).name);
    // Along two indices at once, parts would only meet parts of the same number.
    if (indices.size() > 1 || (terms && !indices.empty())) return false;
    if (terms) return is_linear(statement) && note_partial(statement, ir::Reduction::Sum);
    if (indices.empty() || target != split_.end()) return true;
    return is_collective(statement.reduction) && statement.initializes &&
           note_partial(statement, statement.reduction);
  }

  bool note_partial(const TreeStatement& statement, ir::Reduction reduction) {
    const std::string& name = statement.target.name;
    for (const TreeStatement& other : function_.statements) {
      if (&other != &statement && other.target.name == name) return false;
      // What later statements read is looked at when they come.
      if (&other <= &statement && reads(other, name)) return false;
    }
    partial_[name] = reduction;
    return true;
  }

  /// What the processes' values of an expression are to its value.
  enum class Share {
    Whole,  ///< equal to it
    Terms,  ///< its terms
    Other
  };

  /// Whether a statement makes of sums' terms the terms of its result.
  bool is_linear(const TreeStatement& statement) const {
    bool sums = statement.reduction == ir::Reduction::None ||
                (statement.reduction == ir::Reduction::Sum && statement.initializes);
    const Type& type = definition_.signature.tensor(statement.target.name).type;
    for (const ExpressionPtr& subscript : statement.subscripts)
      if (subscript && share(*subscript, statement) != Share::Whole) return false;
    return sums && type.is_float() && share(*statement.value, statement) == Share::Terms;
  }

  Share share(const Expression& e, const TreeStatement& statement) const {
    if (e.binding == Binding::Let) {
      for (const WhereClause& clause : statement.clauses)
        if (clause.kind == ClauseKind::Let && clause.name.name == e.name)
          return share(*clause.first, statement);
    }
    std::vector<Share> operands;
    bool whole = true;
    for (const ExpressionPtr& operand : e.operands) {
      operands.push_back(share(*operand, statement));
      whole = whole && operands.back() == Share::Whole;
    }
    auto partial = is_access(e) ? partial_.find(e.name) : partial_.end();
    if (whole && partial == partial_.end()) return Share::Whole;
    // Integers wrap around and are cut.
    if (!e.type.is_float()) return Share::Other;
    if (partial != partial_.end())
      return whole && partial->second == ir::Reduction::Sum ? Share::Terms : Share::Other;
    bool linear = false;
    if (e.kind == ExpressionKind::Cast) linear = operands[0] == Share::Terms;
    if (e.kind == ExpressionKind::Unary) linear = operands[0] == Share::Terms;
    if (e.kind == ExpressionKind::Ternary)
      linear =
          operands[0] == Share::Whole && operands[1] == Share::Terms && operands[2] == Share::Terms;
    if (e.kind == ExpressionKind::Binary) {
      bool both = operands[0] == Share::Terms && operands[1] == Share::Terms;
      bool first = operands[0] == Share::Terms && operands[1] == Share::Whole;
      bool second = operands[0] == Share::Whole && operands[1] == Share::Terms;
      if (e.op == Operator::Add || e.op == Operator::Subtract) linear = both;
      if (e.op == Operator::Multiply) linear = first || second;
      if (e.op == Operator::Divide) linear = first;
    }
    return linear ? Share::Terms : Share::Other;
  }

  const Definition& definition_;
  const Function& function_;
  std::map<std::string, int> split_;
  std::map<std::string, ir::Reduction> partial_;
  bool valid_ = true;
};

}  // namespace

std::vector<Sharding> shardings(const Definition& definition) {
  std::vector<Sharding> result;
  for (const std::set<Dimension>& group : Groups(*definition.tree).found())
    if (auto sharding = Splitter(definition, group).run()) result.push_back(std::move(*sharding));
  return result;
}

}  // namespace tc::lang
