#include "codegen/workarounds/nested_truncations.h"

#include <utility>

#include "codegen/names.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

constexpr char kTruncated[] = "tc.truncated";

}  // namespace

Stmt hide_nested_truncations(const Stmt& stmt) {
  bool found = false;  // in what was walked through last
  return ir::mutate(stmt, [&](const Call* op, ir::Mutator& self) -> Expr {
    const auto* inner = op->is_intrinsic(Call::bitwise_not) ? op->args[0].as<Call>() : nullptr;
    if (!inner || !inner->is_intrinsic(Call::bitwise_not)) return self.inside(op);
    found = false;
    Expr value = self.mutate(inner->args[0]);
    if (!std::exchange(found, true)) return op;
    return Call::make(op->type, kTruncated, {value}, Call::PureExtern);
  });
}

Stmt show_nested_truncations(const Stmt& stmt) {
  return ir::mutate_graph(stmt, [](const Call* op, ir::Mutator& self) {
    return op->name == kTruncated ? ~~self.mutate(op->args[0]) : self.inside(op);
  });
}

}  // namespace tc::codegen
