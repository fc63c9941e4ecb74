#include "rewrite/canonical/order_reductions.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "ir/accesses.h"

namespace tc::ir {
namespace {

/// How far an operand moves along each reduction that moves it, in elements.
struct Operand {
  std::map<std::string, int64_t> strides;
  int64_t elements = 1;
};

std::vector<Operand> find_operands(const Program& program, const Layouts& layouts,
                                   const Statement& statement, const std::string& except) {
  std::vector<Operand> operands;
  for (const MemoryAccess& access : accesses(program, statement)) {
    if (access.write || access.tensor == except) continue;
    const Layout& layout = layouts.at(access.tensor);
    Operand operand;
    for (int64_t size : layout.sizes) operand.elements *= size;
    for (const Iterator& it : statement.domain) {
      if (!it.reduction || extent_of(it) < 2) continue;
      auto stride = stride_along(access, layout, it.name);
      if (stride && *stride != 0) operand.strides[it.name] = std::abs(*stride);
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

/// Whether the operand moves along several reductions, and the faster the further inside they are.
bool lies_in_order(const Operand& operand, const Statement& statement) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const Iterator& it : statement.domain) {
    auto found = operand.strides.find(it.name);
    if (found == operand.strides.end()) continue;
    if (found->second > last) return false;
    last = found->second;
  }
  return operand.strides.size() > 1;
}

/// The order of the operand that moves along most reductions, of several the largest.
void order_by(const std::vector<Operand>& operands, Statement& statement) {
  Operand most;
  for (const Operand& operand : operands)
    if (std::pair(operand.strides.size(), operand.elements) >
        std::pair(most.strides.size(), most.elements))
      most = operand;
  auto stride = [&](const Iterator& it) {
    auto found = most.strides.find(it.name);
    return found == most.strides.end() ? std::numeric_limits<int64_t>::max() : found->second;
  };
  std::vector<Iterator> reductions = reduced_indices(statement);
  std::stable_sort(reductions.begin(), reductions.end(),
                   [&](const Iterator& a, const Iterator& b) { return stride(a) > stride(b); });
  auto next = reductions.begin();
  for (Iterator& it : statement.domain)
    if (it.reduction) it = *next++;
}

}  // namespace

void order_reductions(const Program& program, const Layouts& layouts, Statement& statement,
                      const std::string& except) {
  order_by(find_operands(program, layouts, statement, except), statement);
}

void order_reductions(Program& program, const Layouts& layouts) {
  for (Statement& statement : program.statements) {
    const std::vector<Operand> operands = find_operands(program, layouts, statement, {});
    auto any = [&](auto holds) { return std::any_of(operands.begin(), operands.end(), holds); };
    if (any([](const Operand& o) { return o.strides.size() > 1; }) &&
        !any([&](const Operand& o) { return lies_in_order(o, statement); }))
      order_by(operands, statement);
  }
}

}  // namespace tc::ir
