#include "codegen/workarounds/nested_truncations.h"

#include <utility>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

constexpr char kTruncated[] = "tc.truncated";

class Hide : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    const auto* inner = op->is_intrinsic(Call::bitwise_not) ? op->args[0].as<Call>() : nullptr;
    if (!inner || !inner->is_intrinsic(Call::bitwise_not)) return IRMutator::visit(op);
    found_ = false;
    Expr value = mutate(inner->args[0]);
    if (!std::exchange(found_, true)) return op;
    return Call::make(op->type, kTruncated, {value}, Call::PureExtern);
  }
  bool found_ = false;  ///< a truncation in what was walked through last
};

class Show : public IRMutator {
 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    return op->name == kTruncated ? ~~mutate(op->args[0]) : IRMutator::visit(op);
  }
};

}  // namespace

Stmt hide_nested_truncations(const Stmt& stmt) { return Hide().mutate(stmt); }

Stmt show_nested_truncations(const Stmt& stmt) { return Show().mutate(stmt); }

}  // namespace tc::codegen
