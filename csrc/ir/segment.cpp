#include "ir/segment.h"

#include <set>

#include "base/passes.h"
#include "ir/expressions/reads.h"

namespace tc::ir {

namespace {

const Pass kCutProgram("kernel", "cut_program");

double bytes_of(const Tensor& tensor) {
  double bytes = tensor.type.bytes();
  for (const Expr& size : tensor.sizes) bytes *= static_cast<double>(*as_const_int(size));
  return bytes;
}

/// For every statement of [first, end) the bytes that those from `first` on in front of it write
/// and that it or one behind it reads.
std::vector<double> bytes_handed_on(const Program& program, size_t first, size_t end) {
  struct Life {
    size_t written = 0, read = 0;
  };
  std::map<std::string, Life> lives;
  for (size_t s = first; s < end; ++s) {
    const Statement& statement = program.statements[s];
    for (const Call* call : reads_of(statement))
      if (auto life = lives.find(read_name(call)); life != lives.end()) life->second.read = s;
    auto [life, added] = lives.emplace(statement.tensor, Life{s, s});
    if (!added) life->second.read = s;
  }
  std::vector<double> changes(end - first + 1, 0), handed;
  for (const auto& [name, life] : lives) {
    const double bytes = bytes_of(program.tensor(name));
    changes[life.written + 1 - first] += bytes;
    changes[life.read + 1 - first] -= bytes;
  }
  double held = 0;
  for (size_t s = first; s < end; ++s) handed.push_back(held += changes[s - first]);
  return handed;
}

}  // namespace

Program segment(const Program& program, size_t first, size_t last) {
  if (first == 0 && last + 1 == program.statements.size()) return program;
  std::set<std::string> read, written, written_before, touched_elsewhere;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    const bool mine = s >= first && s <= last;
    for (const Call* call : reads_of(statement))
      (mine ? read : touched_elsewhere).insert(read_name(call));
    (mine ? written : touched_elsewhere).insert(statement.tensor);
    if (s < first) written_before.insert(statement.tensor);
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

std::vector<size_t> find_cuts(const Program& program, size_t first, size_t end, size_t most) {
  std::vector<size_t> cuts;
  if (end - first <= most) return cuts;
  run_always(kCutProgram, [&] {
    const std::vector<double> handed = bytes_handed_on(program, first, end);
    for (size_t begin = first; end - begin > most;) {
      size_t best = begin + most;
      for (size_t cut = best; cut-- > begin + most / 2;)
        if (handed[cut - first] < handed[best - first]) best = cut;
      cuts.push_back(best);
      begin = best;
    }
  });
  return cuts;
}

}  // namespace tc::ir
