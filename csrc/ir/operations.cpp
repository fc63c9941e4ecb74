#include "ir/operations.h"

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/scan.h"
#include "machine/operation_costs.h"

namespace tc::ir {
namespace {

class Visitor : public IRVisitor {
 public:
  explicit Visitor(const std::function<void(const Operation&)>& each) : each_(each) {}

 private:
  using IRVisitor::visit;
  void tell(OperationKind kind, const std::string& name, const BaseExprNode* op) {
    each_({kind, name, op->type, op, of_indices_});
  }
  template <class Node>
  void count(OperationKind kind, const char* name, const Node* op) {
    tell(kind, name, op);
    IRVisitor::visit(op);
  }
  void visit(const Add* op) override { count(OperationKind::Arithmetic, "+", op); }
  void visit(const Sub* op) override { count(OperationKind::Arithmetic, "-", op); }
  void visit(const Mul* op) override { count(OperationKind::Arithmetic, "*", op); }
  void visit(const Div* op) override { count(OperationKind::Arithmetic, "/", op); }
  void visit(const Mod* op) override { count(OperationKind::Arithmetic, "%", op); }
  void visit(const Min* op) override { count(OperationKind::Arithmetic, "min", op); }
  void visit(const Max* op) override { count(OperationKind::Arithmetic, "max", op); }
  void visit(const LT* op) override { count(OperationKind::Comparison, "comparison", op); }
  void visit(const LE* op) override { count(OperationKind::Comparison, "comparison", op); }
  void visit(const GT* op) override { count(OperationKind::Comparison, "comparison", op); }
  void visit(const GE* op) override { count(OperationKind::Comparison, "comparison", op); }
  void visit(const EQ* op) override { count(OperationKind::Comparison, "comparison", op); }
  void visit(const NE* op) override { count(OperationKind::Comparison, "comparison", op); }
  void visit(const Select* op) override { choose(op); }
  void visit(const Cast* op) override {
    const Type from = op->value.type(), to = op->type;
    const bool brain = from.is_bfloat() || to.is_bfloat();
    const bool half = !brain && (from == Halide::Float(16) || to == Halide::Float(16));
    count(OperationKind::Conversion, brain ? "bfloat16" : half ? "half" : "conversion", op);
  }
  void visit(const Call* op) override {
    if (auto scan = find_scan(op)) return scan_value(scan->scan, scan->term).accept(this);
    if (find_choice(op)) return choose(op);
    if (!read_name(op).empty()) return tell(OperationKind::Read, read_name(op), op);
    const std::string function = math_name(op);
    tell(function.empty() ? OperationKind::Other : OperationKind::Function,
         function.empty() ? "?" : function, op);
    IRVisitor::visit(op);
  }
  template <class Node>
  void choose(const Node* op) {
    const Choice choice = *find_choice(op);
    const bool by_data = has_data(choice.condition);
    tell(OperationKind::Choice, by_data ? "?" : "choice", op);
    const bool outside = of_indices_;
    of_indices_ = outside || !by_data;
    choice.condition.accept(this);
    of_indices_ = outside;
    choice.yes.accept(this);
    choice.no.accept(this);
  }

  const std::function<void(const Operation&)>& each_;
  bool of_indices_ = false;
};

}  // namespace

void for_each_operation(const Expr& value, const std::function<void(const Operation&)>& each) {
  Visitor visitor(each);
  value.accept(&visitor);
}

bool is_cheap(const std::string& function) {
  return machine::operation_cost(function).instructions < machine::kFewInstructions;
}

int64_t count_instructions(const Expr& value) {
  int64_t count = 1;
  for_each_operation(value, [&](const Operation& operation) {
    if (operation.kind == OperationKind::Read || operation.kind == OperationKind::Comparison)
      return;
    const bool emulated = operation.kind != OperationKind::Function && operation.type.is_float() &&
                          operation.type.bits() < 32;
    count += emulated ? machine::kEmulatedInstructions
                      : machine::operation_cost(operation.name).instructions;
  });
  return count;
}

}  // namespace tc::ir
