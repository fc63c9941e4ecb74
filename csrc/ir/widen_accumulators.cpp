#include "ir/widen_accumulators.h"

#include <algorithm>
#include <set>

namespace tc::ir {
namespace {

using namespace Halide::Internal;

const Type kWide = Halide::Float(32);

bool is_narrow(Type type) { return type.is_float() && type.bits() < 32; }

/// The value in float. Products and sums of narrow values on the way are not rounded either.
Expr widen(const Expr& e) {
  if (const auto* op = e.as<Add>()) return widen(op->a) + widen(op->b);
  if (const auto* op = e.as<Sub>()) return widen(op->a) - widen(op->b);
  if (const auto* op = e.as<Mul>()) return widen(op->a) * widen(op->b);
  if (const auto* op = e.as<Cast>())
    if (op->value.type() == kWide) return op->value;
  return Halide::cast(kWide, e);
}

/// Whether every element is written at plain indices of its own, over its whole tensor.
bool covers_tensor(const Statement& statement, const Tensor& tensor) {
  std::set<std::string> seen;
  for (size_t d = 0; d < statement.subscripts.size(); ++d) {
    const auto* variable = statement.subscripts[d].as<Variable>();
    if (!variable || !seen.insert(variable->name).second) return false;
    auto it = std::find_if(statement.domain.begin(), statement.domain.end(),
                           [&](const Iterator& i) { return i.name == variable->name; });
    if (it == statement.domain.end() || !is_const_zero(it->min) ||
        !equal(it->extent, tensor.sizes[d]))
      return false;
  }
  return true;
}

bool reduces(const Statement& statement) {
  return std::any_of(statement.domain.begin(), statement.domain.end(),
                     [](const Iterator& it) { return it.reduction && !is_const_one(it.extent); });
}

bool should_widen(const Program& program, const Statement& statement) {
  const Tensor& tensor = program.tensor(statement.tensor);
  bool adds = statement.reduction == Reduction::Sum || statement.reduction == Reduction::Product;
  return adds && !is_scatter(statement) && is_narrow(tensor.type) && reduces(statement) &&
         !statement.guard.defined() && covers_tensor(statement, tensor);
}

/// The statement's domain without its reductions.
std::vector<Iterator> kept(const Statement& statement) {
  std::vector<Iterator> result;
  for (const Iterator& it : statement.domain)
    if (!it.reduction) result.push_back(it);
  return result;
}

}  // namespace

Program widen_accumulators(const Program& program) {
  Program result = program;
  result.statements.clear();
  for (const Statement& statement : program.statements) {
    if (!should_widen(program, statement)) {
      result.statements.push_back(statement);
      continue;
    }
    const Tensor& narrow = program.tensor(statement.tensor);
    Tensor wide = narrow;
    wide.name = narrow.name + ".wide";
    while (result.tensors.count(wide.name)) wide.name += "_";
    wide.type = kWide;
    wide.role = TensorRole::Temporary;
    result.tensors[wide.name] = wide;

    Statement copy = statement;
    copy.reduction = Reduction::None;
    copy.initializes = false;
    copy.domain = kept(statement);
    if (!statement.initializes) {
      copy.tensor = wide.name;
      copy.value = Halide::cast(kWide, read(narrow, statement.subscripts));
      result.statements.push_back(copy);
    }
    Statement sum = statement;
    sum.tensor = wide.name;
    sum.value = widen(statement.value);
    result.statements.push_back(sum);
    copy.tensor = statement.tensor;
    copy.value = Halide::cast(narrow.type, read(wide, statement.subscripts));
    result.statements.push_back(copy);
  }
  for (size_t s = 0; s < result.statements.size(); ++s)
    result.statements[s].name = "S" + std::to_string(s);
  return result;
}

}  // namespace tc::ir
