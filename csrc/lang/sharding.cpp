#include "lang/sharding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lang/expressions.h"
#include "lang/roles.h"

namespace tc::lang {
namespace {

using Dimension = std::pair<std::string, int>;  // of a tensor

bool is_access(const Expression& e) {
  return e.binding == Binding::Tensor && e.kind != ExpressionKind::Dimension;
}

/// The dimensions that plain indices walk together.
class Groups {
 public:
  explicit Groups(const Function& function) {
    for (const Declaration& parameter : function.parameters) declare(parameter);
    for (const Declaration& result : function.returns) declare(result);
    for (const TreeStatement& statement : function.statements) look(statement);
  }

  /// All groups that may be split.
  std::vector<std::set<Dimension>> found() {
    std::map<Dimension, std::set<Dimension>> members;
    std::set<Dimension> bad;
    for (const auto& entry : parent_) members[root(entry.first)].insert(entry.first);
    for (const Dimension& dimension : whole_) bad.insert(root(dimension));
    std::vector<std::set<Dimension>> result;
    for (auto& [representative, group] : members)
      if (!bad.count(representative)) result.push_back(std::move(group));
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
      if (size.empty()) {
        keep_whole(dimension);
        continue;
      }
      auto known = by_size_.emplace(size, dimension).first->second;
      join(dimension, known);
    }
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
    for (const Identifier& index : statement.auxiliary_indices) uneven_.insert(index.name);
    for (const auto& [index, dimensions] : places_)
      for (const Dimension& dimension : dimensions) {
        join(dimension, dimensions.front());
        if (uneven_.count(index)) keep_whole(dimension);
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
    walk(statement, [&](const Expression& e) {
      if (!is_access(e)) return;
      auto split = split_.find(e.name);
      if (split != split_.end()) indices.insert(e.operands.at(split->second)->name);
    });
    auto target = split_.find(statement.target.name);
    if (target != split_.end()) indices.insert(statement.indices.at(target->second).name);
    // Along two indices at once, parts would only meet parts of the same number.
    if (indices.size() > 1) return false;
    if (indices.empty() || target != split_.end()) return true;
    return is_partial(statement);
  }

  bool is_partial(const TreeStatement& statement) {
    const std::string& name = statement.target.name;
    const std::vector<std::string>& outputs = definition_.signature.outputs;
    if (!is_collective(statement.reduction) || !statement.initializes ||
        std::find(outputs.begin(), outputs.end(), name) == outputs.end() ||
        elements_read(function_, name))
      return false;
    for (const TreeStatement& other : function_.statements)
      if (&other != &statement && other.target.name == name) return false;
    partial_[name] = statement.reduction;
    return true;
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
