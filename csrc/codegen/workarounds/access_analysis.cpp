#include "codegen/workarounds/access_analysis.h"

#include <cstdint>

#include "codegen/names.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

// Accesses of one loop; the time goes with their square, and is a second here at worst.
constexpr int64_t kMost = 384;

constexpr char kContext[] = "tc.context";

/// Instructions of a statement that access memory, and whether it has loops.
class CountAccesses : public IRGraphVisitor {
 public:
  int64_t accesses = 0;
  bool loops = false;

 private:
  using IRGraphVisitor::visit;
  void visit(const For* op) override {
    loops = true;
    IRGraphVisitor::visit(op);
  }
  void visit(const Load* op) override {
    count(op->index);
    IRGraphVisitor::visit(op);
  }
  void visit(const Store* op) override {
    count(op->index);
    IRGraphVisitor::visit(op);
  }
  void count(const Expr& index) {
    const auto* ramp = index.as<Ramp>();
    accesses += ramp && is_const_one(ramp->stride) ? 1 : index.type().lanes();
  }
};

class StopAnalysis : public IRMutator {
 public:
  bool stops = false;

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    CountAccesses count;
    op->body.accept(&count);
    if (count.loops) return IRMutator::visit(op);
    if (op->for_type != ForType::Serial || count.accesses < kMost) return op;
    stops = true;
    return ir::prepend(op, {ir::make_prefetch(Halide::UInt(8), kContext, 0)});
  }
};

}  // namespace

Stmt stop_access_analysis(const Stmt& stmt) {
  StopAnalysis stop;
  Stmt result = stop.mutate(stmt);
  if (!stop.stops) return result;
  // Named outside of tasks, which have contexts of their own (see define_launch).
  return LetStmt::make(kContext,
                       ir::make_variable("__user_context", Halide::type_of<const void*>()), result);
}

}  // namespace tc::codegen
