#include "rewrite/canonical/inline_temporaries.h"

#include <algorithm>
#include <set>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/operations.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::ir {

namespace {

/// A read of a tensor, with the number of the statement it stands in.
struct Use {
  size_t statement = 0;
  const Call* read = nullptr;
};

/// The index that a condition leaves one value; empty where it is no such condition.
std::string find_fixed(const Expr& condition) {
  const auto* equal = condition.as<EQ>();
  if (!equal) return {};
  const auto* variable = equal->a.as<Variable>();
  const bool swapped = !variable;
  if (swapped) variable = equal->b.as<Variable>();
  return variable && is_const(swapped ? equal->a : equal->b) ? variable->name : std::string();
}

/// Indices that conditions around a read leave one value.
class FixedIndices {
 public:
  FixedIndices(const Expr& value, const Call* read) : read_(read) { look(value, {}); }

  std::set<std::string> found;

 private:
  void look(const Expr& e, const std::set<std::string>& around) {
    const auto choose = [&](const Choice& choice) {
      look(choice.condition, around);
      std::set<std::string> inside = around;
      for (const Expr& condition : list_conditions(choice.condition))
        inside.insert(find_fixed(condition));
      look(choice.yes, inside);
      look(choice.no, around);
    };
    visit(
        e, [&](const Select* op, Visitor&) { choose(*find_choice(op)); },
        [&](const Call* op, Visitor& self) {
          if (op == read_) found = around;
          const auto choice = find_choice(op);
          choice ? choose(*choice) : self.inside(op);
        });
  }
  const Call* const read_;
};

/// Whether the read's subscripts are distinct iterators and name every iterator of the statement,
/// so that no element is computed twice. One that it does not name may also be a short one that a
/// choice around it leaves one value, where the definition is cheap: both sides of a choice may be
/// evaluated.
bool visits_once(const Statement& statement, const Call* read, const Statement& definition) {
  std::set<std::string> named;
  for (const Expr& subscript : read->args) {
    const auto* variable = subscript.as<Variable>();
    if (!variable || !named.insert(variable->name).second) return false;
  }
  std::set<std::string> fixed;
  if (count_functions(definition.value) == 0) fixed = FixedIndices(statement.value, read).found;
  return std::all_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& it) {
    const auto extent = as_const_int(it.extent);
    return named.count(it.name) || is_const_one(it.extent) ||
           (extent && *extent <= machine::kWrittenTerms && fixed.count(it.name));
  });
}

/// With the definition's value in the place of its reads.
Expr put_in_place(const Statement& definition, const Expr& e) {
  return mutate(e, [&](const Call* op, Mutator& self) {
    if (read_name(op) != definition.tensor) return self.inside(op);
    std::map<std::string, Expr> values;
    // A subscript may read it, too.
    for (size_t d = 0; d < op->args.size(); ++d)
      values[definition.domain[d].name] = self.mutate(op->args[d]);
    return substitute(values, definition.value);
  });
}

bool try_inline(Program& program, const std::string& name) {
  size_t definition = 0;
  int writers = 0;
  std::vector<Use> uses;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    if (statement.tensor == name) definition = s, ++writers;
    for (const Call* read : reads_of(statement))
      if (read_name(read) == name) uses.push_back({s, read});
  }
  if (writers != 1 || uses.empty() || uses.front().statement <= definition) return false;
  const Statement source = program.statements[definition];
  if (!is_definition(source)) return false;
  const bool once =
      uses.size() == 1 && visits_once(program.statements[uses[0].statement], uses[0].read, source);
  if (!once && !find_copied(source)) return false;
  // The use may itself overwrite what the value reads, as long as it does so element by element;
  // leaving those alone keeps the in-place rule of the source simple.
  for (size_t s = definition + 1; s <= uses.back().statement; ++s)
    if (reads(source, program.statements[s].tensor)) return false;

  for (size_t s = definition + 1; s <= uses.back().statement; ++s)
    for_each_expression(program.statements[s], [&](Expr& e) { e = put_in_place(source, e); });
  program.statements.erase(program.statements.begin() + static_cast<long>(definition));
  program.tensors.erase(name);
  return true;
}

}  // namespace

void inline_temporaries(Program& program) {
  std::vector<std::string> temporaries;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == TensorRole::Temporary) temporaries.push_back(name);
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::string& name : temporaries)
      if (program.tensors.count(name) && try_inline(program, name)) changed = true;
  }
}

}  // namespace tc::ir
