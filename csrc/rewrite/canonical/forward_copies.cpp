#include "rewrite/canonical/forward_copies.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/expressions/reads.h"
#include "ir/visit.h"

namespace tc::ir {

namespace {

/// Whether all dimensions of the left-hand side are iterators of their own.
bool writes_plainly(const Statement& statement) {
  if (is_scatter(statement) || statement.guard.defined()) return false;
  std::set<std::string> seen;
  return std::all_of(statement.subscripts.begin(), statement.subscripts.end(),
                     [&](const Expr& subscript) {
                       const auto* variable = subscript.as<Variable>();
                       return variable && seen.insert(variable->name).second;
                     });
}

const Iterator& iterator_of(const Statement& statement, size_t dimension) {
  return *find_index(statement.domain, statement.subscripts[dimension].as<Variable>()->name);
}

/// Whether the statement computes all that is copied, and reads of the tensor no more than the
/// element that it writes.
bool computes(const Statement& statement, const std::string& tensor, const Statement& copy,
              const std::vector<int64_t>& offsets) {
  if (!writes_plainly(statement)) return false;
  for (const Call* read : reads_of(statement)) {
    if (read_name(read) == copy.tensor) return false;
    if (read_name(read) != tensor) continue;
    for (size_t d = 0; d < read->args.size(); ++d)
      if (!equal(read->args[d], statement.subscripts[d])) return false;
  }
  for (size_t d = 0; d < offsets.size(); ++d) {
    const int64_t copied = extent_of(iterator_of(copy, d));
    if (offsets[d] < 0 || offsets[d] + copied > extent_of(iterator_of(statement, d))) return false;
  }
  return true;
}

/// The statement for the copied part, in the copy's tensor.
Statement compute_copied(Statement statement, const Statement& copy, const Tensor& target,
                         const std::vector<int64_t>& offsets) {
  std::map<std::string, Expr> moved;
  for (size_t d = 0; d < offsets.size(); ++d) {
    const std::string name = iterator_of(statement, d).name;
    for (Iterator& iterator : statement.domain)
      if (iterator.name == name) iterator.extent = iterator_of(copy, d).extent;
    if (offsets[d] != 0) moved[name] = make_variable(name) + static_cast<int>(offsets[d]);
  }
  // Reads of the element that the statement writes are of the copy's.
  const Expr own = read(target, statement.subscripts);
  statement.value = mutate(
      statement.value,
      [&](const Call* op, Mutator& self) {
        return read_name(op) == statement.tensor ? own : self.inside(op);
      },
      [&](const Variable* op, Mutator&) {
        auto found = moved.find(op->name);
        return found == moved.end() ? Expr(op) : found->second;
      });
  statement.tensor = copy.tensor;
  return statement;
}

bool try_forward(Program& program, const std::string& name) {
  std::vector<size_t> writers, readers;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    if (statement.tensor == name)
      writers.push_back(s);
    else if (reads(statement, name))
      readers.push_back(s);
  }
  if (writers.empty() || readers.size() != 1 || readers[0] < writers.back()) return false;
  const Statement copy = program.statements[readers[0]];
  const Tensor& target = program.tensor(copy.tensor);
  if (target.type != program.tensor(name).type || target.role == TensorRole::InOut) return false;
  const auto copied = find_copied(copy);
  if (!copied || copied->tensor != name || !writes_plainly(copy)) return false;
  // Nobody else may know of the copy before it is made.
  for (size_t s = 0; s < readers[0]; ++s)
    if (program.statements[s].tensor == copy.tensor || reads(program.statements[s], copy.tensor))
      return false;
  for (size_t s : writers)
    if (!computes(program.statements[s], name, copy, copied->offsets)) return false;
  for (size_t s : writers)
    program.statements[s] = compute_copied(program.statements[s], copy, target, copied->offsets);
  program.statements.erase(program.statements.begin() + static_cast<long>(readers[0]));
  program.tensors.erase(name);
  return true;
}

}  // namespace

void forward_copies(Program& program) {
  std::vector<std::string> temporaries;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == TensorRole::Temporary) temporaries.push_back(name);
  for (const std::string& name : temporaries) try_forward(program, name);
}

}  // namespace tc::ir
