#include "ir/forward_copies.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "ir/reads.h"

namespace tc::ir {
namespace {

using Halide::Internal::Call;
using Halide::Internal::Variable;

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
  const std::string& name = statement.subscripts[dimension].as<Variable>()->name;
  return *std::find_if(statement.domain.begin(), statement.domain.end(),
                       [&](const Iterator& iterator) { return iterator.name == name; });
}

/// Where along every dimension of the tensor the statement begins to copy it, if it does no more
/// than that.
std::optional<std::vector<int64_t>> find_offsets(const Statement& statement,
                                                 const std::string& tensor) {
  const auto* read = statement.value.as<Call>();
  if (!read || read_name(read) != tensor || statement.reduction != Reduction::None ||
      !writes_plainly(statement) || statement.domain.size() != statement.subscripts.size() ||
      read->args.size() != statement.subscripts.size())
    return std::nullopt;
  std::vector<int64_t> offsets;
  for (size_t d = 0; d < read->args.size(); ++d) {
    auto offset = Halide::Internal::as_const_int(
        Halide::Internal::simplify(read->args[d] - statement.subscripts[d]));
    if (!offset) return std::nullopt;
    offsets.push_back(*offset);
  }
  return offsets;
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

class RenameReads : public Halide::Internal::IRMutator {
 public:
  RenameReads(const std::string& from, const Tensor& to) : from_(from), to_(to) {}

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    return read_name(op) == from_ ? read(to_, op->args) : IRMutator::visit(op);
  }
  const std::string& from_;
  const Tensor& to_;
};

/// The statement for the copied part, in the copy's tensor.
Statement compute_copied(Statement statement, const Statement& copy, const Tensor& target,
                         const std::vector<int64_t>& offsets) {
  const std::string tensor = statement.tensor;
  std::map<std::string, Expr> moved;
  for (size_t d = 0; d < offsets.size(); ++d) {
    const std::string name = iterator_of(statement, d).name;
    for (Iterator& iterator : statement.domain)
      if (iterator.name == name) iterator.extent = iterator_of(copy, d).extent;
    if (offsets[d] != 0) moved[name] = make_variable(name) + static_cast<int>(offsets[d]);
  }
  // What it reads of its own result lies where it writes.
  RenameReads rename(tensor, target);
  const Expr own = read(target, statement.subscripts), mark = make_variable("tc.own", target.type);
  Expr value = replace_read(rename.mutate(statement.value), own, mark);
  value = Halide::Internal::substitute(moved, value);
  statement.value = Halide::Internal::substitute("tc.own", own, value);
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
  auto offsets = find_offsets(copy, name);
  if (!offsets) return false;
  // Nobody else may know of the copy before it is made.
  for (size_t s = 0; s < readers[0]; ++s)
    if (program.statements[s].tensor == copy.tensor || reads(program.statements[s], copy.tensor))
      return false;
  for (size_t s : writers)
    if (!computes(program.statements[s], name, copy, *offsets)) return false;
  for (size_t s : writers)
    program.statements[s] = compute_copied(program.statements[s], copy, target, *offsets);
  program.statements.erase(program.statements.begin() + static_cast<long>(readers[0]));
  program.tensors.erase(name);
  return true;
}

}  // namespace

Program forward_copies(Program program) {
  std::vector<std::string> temporaries;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == TensorRole::Temporary) temporaries.push_back(name);
  for (const std::string& name : temporaries) try_forward(program, name);
  return program;
}

}  // namespace tc::ir
