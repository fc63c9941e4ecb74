#include "ir/segment.h"

#include <algorithm>
#include <set>

#include "ir/reads.h"

namespace tc::ir {
Program segment(const Program& program, size_t first, size_t last) {
  if (first == 0 && last + 1 == program.statements.size()) return program;
  std::set<std::string> read, written, written_before, touched_elsewhere;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    std::set<std::string> names;
    for (const Halide::Internal::Call* call : reads_of(statement)) names.insert(read_name(call));
    if (s >= first && s <= last) {
      read.insert(names.begin(), names.end());
      written.insert(statement.tensor);
    } else {
      touched_elsewhere.insert(names.begin(), names.end());
      touched_elsewhere.insert(statement.tensor);
      if (s < first) written_before.insert(statement.tensor);
    }
  }

  Program result;
  result.name = program.name;
  result.sizes = program.sizes;
  result.statements.assign(program.statements.begin() + static_cast<long>(first),
                           program.statements.begin() + static_cast<long>(last) + 1);
  for (const auto& [name, tensor] : program.tensors) {
    bool writes = written.count(name) > 0;
    if (!writes && !read.count(name)) continue;
    Tensor& mine = result.tensors[name] = tensor;
    if (!writes)
      mine.role = TensorRole::Input;
    else if (tensor.role == TensorRole::InOut || written_before.count(name))
      mine.role = TensorRole::InOut;
    else if (tensor.role == TensorRole::Output || touched_elsewhere.count(name))
      mine.role = TensorRole::Output;
    if (writes && mine.role != TensorRole::Temporary) result.outputs.push_back(name);
  }
  for (const auto& [name, scalar] : program.scalars)
    if (read.count(name)) result.scalars[name] = scalar;

  std::set<std::string> listed;
  for (const Parameter& parameter : program.parameters) {
    auto tensor = result.tensors.find(parameter.name);
    bool wanted = parameter.scalar
                      ? result.scalars.count(parameter.name) > 0
                      : tensor != result.tensors.end() && tensor->second.role == TensorRole::Input;
    if (wanted && listed.insert(parameter.name).second) result.parameters.push_back(parameter);
  }
  for (const auto& [name, tensor] : result.tensors)
    if (tensor.role == TensorRole::Input && listed.insert(name).second)
      result.parameters.push_back({name, false});
  return result;
}

}  // namespace tc::ir
