#include "plan/body_size.h"

#include "ir/program.h"

namespace tc::plan {
namespace {

using namespace Halide::Internal;

class CountOperations : public IRGraphVisitor {
 public:
  int64_t count = 1;  ///< that of the reduction

 private:
  using IRGraphVisitor::visit;
  template <class Node>
  void add(const Node* op) {
    bool emulated = op->type.is_float() && op->type.bits() < 32;
    count += emulated ? 8 : 1;
    IRGraphVisitor::visit(op);
  }
  void visit(const Add* op) override { add(op); }
  void visit(const Sub* op) override { add(op); }
  void visit(const Mul* op) override { add(op); }
  void visit(const Div* op) override { add(op); }
  void visit(const Min* op) override { add(op); }
  void visit(const Max* op) override { add(op); }
  void visit(const Select* op) override { add(op); }
  void visit(const Cast* op) override { add(op); }
  void visit(const Call* op) override {
    if (!ir::read_name(op).empty()) return;
    // Of the vector forms in codegen/vector_math, that of powers is the longest.
    count += op->is_intrinsic() ? 2 : ir::math_name(op) == "pow" ? 60 : 20;
    IRGraphVisitor::visit(op);
  }
};

}  // namespace

int64_t count_operations(const ir::Expr& value) {
  CountOperations operations;
  value.accept(&operations);
  return operations.count;
}

}  // namespace tc::plan
