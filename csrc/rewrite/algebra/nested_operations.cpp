#include "rewrite/algebra/nested_operations.h"

#include <utility>

#include "machine/limits.h"
#include "rewrite/algebra/inner_sums.h"
#include "rewrite/algebra/nest_sums.h"

namespace tc::ir {

std::vector<Statement> nested(std::vector<Statement> statements, Program program, Layouts layouts,
                              const CpuMachine& machine) {
  program.statements = std::move(statements);
  nest_sums(program, layouts, machine);
  return std::move(program.statements);
}

double operations_of(const std::vector<Statement>& statements) {
  double operations = 0;
  for (const Statement& statement : statements)
    operations += points_of(statement.domain) * static_cast<double>(factors_of(statement).size()) +
                  points_of(kept_indices(statement)) * machine::kElementOperations;
  return operations;
}

}  // namespace tc::ir
