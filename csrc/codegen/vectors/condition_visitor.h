// A visitor that knows what conditions keep from being evaluated.
#pragma once

#include "ir/halide.h"

namespace tc::codegen {

/// Counts the choices around what it visits. What one of them keeps from being read must not be
/// read in front of it.
class ConditionVisitor : public Halide::Internal::IRVisitor {
 protected:
  using IRVisitor::visit;
  void visit(const Halide::Internal::Select* op) override { inside(op); }
  void visit(const Halide::Internal::IfThenElse* op) override { inside(op); }
  void visit(const Halide::Internal::Call* op) override {
    op->is_intrinsic(Halide::Internal::Call::if_then_else) ? inside(op) : IRVisitor::visit(op);
  }

  int conditions_ = 0;

 private:
  template <class Node>
  void inside(const Node* op) {
    Halide::Internal::ScopedValue<int> conditions(conditions_, conditions_ + 1);
    IRVisitor::visit(op);
  }
};

}  // namespace tc::codegen
