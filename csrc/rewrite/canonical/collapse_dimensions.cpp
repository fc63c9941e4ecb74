#include "rewrite/canonical/collapse_dimensions.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/accesses.h"
#include "ir/expressions/simplify.h"
#include "ir/visit.h"

namespace tc::ir {
namespace {

/// Iterators i and j = i + 1 of one statement.
using IteratorPair = std::pair<size_t, size_t>;  // statement, position of i in its domain
/// Dimensions d and d + 1 of one tensor.
using DimensionPair = std::pair<std::string, size_t>;

/// Accesses of a statement, what is written first, and the variables it uses outside of direct
/// subscripts.
struct Uses {
  std::vector<MemoryAccess> accesses;
  std::set<std::string> free;

  explicit Uses(const Statement& statement) {
    add(statement.tensor, statement.subscripts);
    add(statement.value);
    if (statement.guard.defined()) add(statement.guard);
  }

 private:
  void add(const std::string& tensor, const std::vector<Expr>& subscripts) {
    accesses.push_back({tensor, subscripts});
    for (const Expr& subscript : subscripts)
      if (!subscript.as<Variable>()) add(subscript);
  }
  void add(const Expr& e) {
    visit(
        e, [&](const Variable* op, Visitor&) { free.insert(op->name); },
        [&](const Call* op, Visitor& self) {
          read_name(op).empty() ? self.inside(op) : add(read_name(op), op->args);
        });
  }
};

/// The indices of the text that an iterator stands for.
std::string indices_of(const Iterator& iterator) {
  return iterator.meaning.empty() ? iterator.name
                                  : iterator.meaning.substr(0, iterator.meaning.rfind(" as one"));
}

/// Puts the value of iterators with one iteration into the sums that they are part of, so that
/// input(n, c, h + kh, w + kw) is input(n, c, h, w) for a filter of 1 x 1.
void drop_single_iterations(Statement& statement) {
  std::map<std::string, Expr> values;
  for (const Iterator& it : statement.domain)
    if (as_const_int(it.extent) == 1 && as_const_int(it.min)) values[it.name] = it.min;
  auto drop = [&](Expr& e) {
    e = mutate(e, [&](const Call* op, Mutator& self) {
      if (read_name(op).empty()) return self.inside(op);
      return map_arguments(op, op->type, [&](const Expr& subscript) {
        return subscript.as<Variable>() ? subscript
                                        : simplify_integers(substitute(values, subscript), {});
      });
    });
  };
  drop(statement.value);
  for (Expr& subscript : statement.subscripts) drop(subscript);
}

class Collapser {
 public:
  Collapser(Program& program, Layouts& layouts) : program_(program), layouts_(layouts) {
    for (const Statement& statement : program.statements) uses_.emplace_back(statement);
  }

  /// Merges one set of pairs that depend on each other; false when there is none.
  bool step() {
    for (size_t s = 0; s < program_.statements.size(); ++s)
      for (size_t i = 0; i + 1 < program_.statements[s].domain.size(); ++i) {
        iterators_.clear();
        dimensions_.clear();
        if (require({s, i})) {
          merge();
          return true;
        }
      }
    return false;
  }

 private:
  /// Whether the pair can be merged; collects everything that must be merged with it.
  bool require(const IteratorPair& pair) {
    if (!iterators_.insert(pair).second) return true;
    const Statement& statement = program_.statements[pair.first];
    if (pair.second + 1 >= statement.domain.size()) return false;
    const Iterator& i = statement.domain[pair.second];
    const Iterator& j = statement.domain[pair.second + 1];
    if (i.reduction != j.reduction ||
        extent_of(i) * extent_of(j) > std::numeric_limits<int32_t>::max())
      return false;
    const Uses& uses = uses_[pair.first];
    if (statement.counts) return require_pairs(uses.accesses.front(), i, j);
    if (uses.free.count(i.name) || uses.free.count(j.name)) return false;
    return std::all_of(uses.accesses.begin(), uses.accesses.end(),
                       [&](const MemoryAccess& access) { return require_pairs(access, i, j); });
  }

  /// Whether an access has the two iterators side by side only, in dimensions that can be merged.
  bool require_pairs(const MemoryAccess& access, const Iterator& i, const Iterator& j) {
    for (size_t d = 0; d < access.subscripts.size(); ++d) {
      bool is_i = is_variable(access.subscripts[d], i.name),
           is_j = is_variable(access.subscripts[d], j.name);
      if (is_j && (d == 0 || !is_variable(access.subscripts[d - 1], i.name))) return false;
      if (!is_i) continue;
      if (d + 1 >= access.subscripts.size() || !is_variable(access.subscripts[d + 1], j.name) ||
          !require_dimensions({access.tensor, d}))
        return false;
    }
    return true;
  }

  bool require_dimensions(const DimensionPair& pair) {
    if (!dimensions_.insert(pair).second) return true;
    const auto& [tensor, d] = pair;
    const Layout& layout = layouts_.at(tensor);
    if (layout.strides[d] != layout.strides[d + 1] * layout.sizes[d + 1]) return false;
    // Overlapping pairs would need three dimensions merged at once; the next step does that.
    if (dimensions_.count({tensor, d + 1}) || (d > 0 && dimensions_.count({tensor, d - 1})))
      return false;
    for (size_t s = 0; s < uses_.size(); ++s) {
      for (const MemoryAccess& access : uses_[s].accesses) {
        if (access.tensor != tensor) continue;
        const std::vector<Iterator>& domain = program_.statements[s].domain;
        size_t i = 0;
        while (i < domain.size() && !is_variable(access.subscripts[d], domain[i].name)) ++i;
        if (i + 1 >= domain.size() || !is_variable(access.subscripts[d + 1], domain[i + 1].name))
          return false;
        // A shorter inner loop would leave gaps in the merged one.
        if (*as_const_int(domain[i + 1].extent) != layout.sizes[d + 1]) return false;
        if (!require({s, i})) return false;
      }
    }
    return true;
  }

  void merge() {
    for (size_t s = 0; s < program_.statements.size(); ++s) {
      Statement& statement = program_.statements[s];
      statement.subscripts = merged(statement.tensor, statement.subscripts);
      for (size_t d = statement.scattered.size(); d-- > 1;)
        if (dimensions_.count({statement.tensor, d - 1}))
          statement.scattered.erase(statement.scattered.begin() + static_cast<long>(d));
      if (statement.counts) count_in_whole(statement, s);
      for_each_expression(statement, [&](Expr& e) { e = merge_reads(e); });
      for (size_t i = statement.domain.size(); i-- > 0;) {
        if (!iterators_.count({s, i})) continue;
        Iterator& outer = statement.domain[i];
        const Iterator& inner = statement.domain[i + 1];
        outer.extent = static_cast<int>(*as_const_int(outer.extent) * *as_const_int(inner.extent));
        outer.meaning = indices_of(outer) + " and " + indices_of(inner) + " as one";
        statement.domain.erase(statement.domain.begin() + static_cast<long>(i) + 1);
      }
    }
    for (auto it = dimensions_.rbegin(); it != dimensions_.rend(); ++it) {
      const auto& [name, d] = *it;
      long at = static_cast<long>(d);
      Tensor& tensor = program_.tensors.at(name);
      Layout& layout = layouts_.at(name);
      layout.sizes[d] *= layout.sizes[d + 1];
      layout.strides[d] = layout.strides[d + 1];
      layout.sizes.erase(layout.sizes.begin() + at + 1);
      layout.strides.erase(layout.strides.begin() + at + 1);
      tensor.sizes[d] = make_const(Halide::Int(32), layout.sizes[d]);
      tensor.sizes.erase(tensor.sizes.begin() + at + 1);
    }
  }

  /// The value with quotients and remainders of the merged iterators, which keep the outer one's
  /// names.
  void count_in_whole(Statement& statement, size_t s) const {
    for (size_t i = 0; i + 1 < statement.domain.size(); ++i) {
      if (!iterators_.count({s, i})) continue;
      const Iterator &outer = statement.domain[i], &inner = statement.domain[i + 1];
      Expr whole = make_variable(outer.name), length = inner.extent;
      statement.value =
          substitute({{outer.name, whole / length}, {inner.name, whole % length}}, statement.value);
    }
    statement.value = simplify_index(statement.value);
  }

  std::vector<Expr> merged(const std::string& tensor, const std::vector<Expr>& subscripts) const {
    std::vector<Expr> result;
    for (size_t d = 0; d < subscripts.size(); ++d) {
      if (d > 0 && dimensions_.count({tensor, d - 1})) {
        // Two iterators are one by the outer one's name; quotient and remainder become the whole.
        if (subscripts[d].as<Variable>()) continue;
        Expr length = static_cast<int>(layouts_.at(tensor).sizes[d]);
        result.back() = simplify_index(result.back() * length + subscripts[d]);
      } else {
        result.push_back(subscripts[d]);
      }
    }
    return result;
  }

  Expr merge_reads(const Expr& e) const {
    return mutate(e, [&](const Call* op, Mutator& self) {
      const std::string name = read_name(op);
      if (name.empty()) return self.inside(op);
      return Call::make(op->type, op->name, self.mutate(merged(name, op->args)), op->call_type);
    });
  }

  Program& program_;
  Layouts& layouts_;
  std::vector<Uses> uses_;
  std::set<IteratorPair> iterators_;
  std::set<DimensionPair> dimensions_;
};

}  // namespace

void collapse_dimensions(Program& program, Layouts& layouts) {
  for (Statement& statement : program.statements) drop_single_iterations(statement);
  while (Collapser(program, layouts).step()) {
  }
}

}  // namespace tc::ir
