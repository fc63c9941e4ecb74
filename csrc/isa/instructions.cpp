#include "isa/instructions.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/notes.h"
#include "ir/scan.h"
#include "lang/lowering/definition.h"

namespace tc::isa {
namespace {

using namespace Halide::Internal;
using ir::Expr;

/// Any number will do.
constexpr int64_t kLanes = 16;

void read_text(Instruction& instruction) {
  const auto definition = lang::parse(instruction.text).definitions.back();
  const ir::Program general = lang::infer_ranges(*definition, {});
  std::map<std::string, int64_t> sizes;
  for (const std::string& name : general.sizes) sizes[name] = kLanes;
  const ir::Program program = ir::specialize(general, sizes);
  TC_INTERNAL_CHECK(program.statements.size() == 1, instruction.name, " has ",
                    program.statements.size(), " statements");
  instruction.statement = program.statements[0];
  for (const ir::Parameter& parameter : program.parameters)
    instruction.operands.push_back(parameter.name);
  for (const ir::Iterator& iterator : instruction.statement.domain)
    if (iterator.reduction) instruction.terms *= ir::extent_of(iterator);
}

bool is_read(const Expr& e) {
  const auto* call = e.as<Call>();
  return e.as<Load>() || (call && !ir::read_name(call).empty());
}

/// Compares trees, and finds what stands in the place of an instruction's operands.
class Isomorphism {
 public:
  explicit Isomorphism(const Instruction& instruction)
      : instruction_(instruction), found_(instruction.operands.size()) {}

  bool match(const Expr& pattern, const Expr& value) {
    if (pattern.type() != value.type()) return false;
    if (const auto* read = pattern.as<Call>()) return bind(ir::read_name(read), value);
    if (const auto* cast = pattern.as<Cast>()) {
      const auto* other = value.as<Cast>();
      return other && match(cast->value, other->value);
    }
    if (pattern.as<Add>()) return match_either<Add>(pattern, value);
    if (pattern.as<Mul>()) return match_either<Mul>(pattern, value);
    return Halide::Internal::equal(pattern, value);
  }
  const std::vector<Expr>& found() const { return found_; }

 private:
  bool bind(const std::string& operand, const Expr& value) {
    const auto place =
        std::find(instruction_.operands.begin(), instruction_.operands.end(), operand);
    if (place == instruction_.operands.end() || !is_read(value)) return false;
    Expr& bound = found_[static_cast<size_t>(place - instruction_.operands.begin())];
    if (bound.defined()) return Halide::Internal::equal(bound, value);
    bound = value;
    return true;
  }

  template <class Operator>
  bool match_either(const Expr& pattern, const Expr& value) {
    const auto *p = pattern.as<Operator>(), *v = value.as<Operator>();
    if (!v) return false;
    const std::vector<Expr> before = found_;
    if (match(p->a, v->a) && match(p->b, v->b)) return true;
    found_ = before;
    return match(p->a, v->b) && match(p->b, v->a);
  }

  const Instruction& instruction_;
  std::vector<Expr> found_;
};

}  // namespace

const std::vector<Instruction>& instructions() {
  // Halide's expressions are not destroyed at the end of the process.
  static const auto& all = *[] {
    auto* found = new std::vector<Instruction>(dot_products());
    for (Instruction& instruction : *found) read_text(instruction);
    return found;
  }();
  return all;
}

const Instruction* find_instruction(const std::string& name) {
  for (const Instruction& instruction : instructions())
    if (instruction.name == name) return &instruction;
  return nullptr;
}

std::string known_instructions() {
  std::vector<std::string> names;
  for (const Instruction& instruction : instructions()) names.push_back(instruction.name);
  return join(names);
}

std::optional<std::vector<Expr>> match_value(const Instruction& instruction, const Expr& value) {
  Isomorphism isomorphism(instruction);
  if (!isomorphism.match(instruction.statement.value, value)) return std::nullopt;
  return isomorphism.found();
}

const Instruction* match(const ir::Statement& statement) {
  if (statement.reduction != ir::Reduction::Sum || statement.guard.defined() ||
      ir::is_scan(statement) || ir::is_scatter(statement))
    return nullptr;
  for (const Instruction& instruction : instructions())
    if (instruction.statement.value.type() == statement.value.type() &&
        match_value(instruction, statement.value))
      return &instruction;
  return nullptr;
}

bool fits_register(const Instruction& instruction, int64_t along_lanes, int64_t along_terms) {
  return (along_lanes == instruction.terms || along_lanes == 0) &&
         (along_terms == 1 || along_terms == 0);
}

}  // namespace tc::isa
