#include "codegen/workarounds/access_analysis.h"

#include <cstdint>

#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

// Accesses of one loop; the time goes with their square, and was 6 s with 768. Of 291 kernels of
// ops/ and the papers 12 have a loop of so many.
constexpr int64_t kMostAccesses = 384;

constexpr char kContext[] = "tc.context";

/// Instructions that access memory; none where there are loops.
int64_t count_accesses(const Stmt& body) {
  int64_t accesses = 0;
  bool loops = false;
  auto count = [&](const auto* op, ir::Visitor& self) {
    const auto* ramp = op->index.template as<Ramp>();
    accesses += ramp && is_const_one(ramp->stride) ? 1 : op->index.type().lanes();
    self.inside(op);
  };
  ir::visit_graph(
      body, [&](const For*, ir::Visitor&) { loops = true; },
      [&](const Load* op, ir::Visitor& self) { count(op, self); },
      [&](const Store* op, ir::Visitor& self) { count(op, self); });
  return loops ? 0 : accesses;
}

}  // namespace

Stmt stop_access_analysis(const Stmt& stmt) {
  bool stops = false;
  Stmt result = ir::mutate(stmt, [&](const For* op, ir::Mutator& self) -> Stmt {
    if (op->for_type != ForType::Serial || count_accesses(op->body) < kMostAccesses)
      return self.inside(op);
    stops = true;
    const Stmt call = ir::make_prefetch(Halide::UInt(8), kContext, 0);
    return ir::make_for(op->name, op->min, op->extent, op->for_type, Block::make(call, op->body));
  });
  if (!stops) return result;
  // Named outside of tasks, which have contexts of their own (see define_launch).
  return LetStmt::make(kContext,
                       ir::make_variable("__user_context", Halide::type_of<const void*>()), result);
}

}  // namespace tc::codegen
