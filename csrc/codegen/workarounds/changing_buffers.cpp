#include "codegen/workarounds/changing_buffers.h"

#include <map>
#include <string>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

class FindStores : public IRVisitor {
 public:
  std::map<std::string, Halide::Parameter> parameters;

 private:
  using IRVisitor::visit;
  void visit(const Store* op) override {
    parameters[op->name] = op->param;
    IRVisitor::visit(op);
  }
};

class SetParameters : public IRMutator {
 public:
  explicit SetParameters(const std::map<std::string, Halide::Parameter>& parameters)
      : parameters_(parameters) {}

 private:
  using IRMutator::visit;
  Expr visit(const Load* op) override {
    auto found = parameters_.find(op->name);
    if (found == parameters_.end()) return IRMutator::visit(op);
    return Load::make(op->type, op->name, mutate(op->index), op->image, found->second,
                      mutate(op->predicate), op->alignment);
  }
  const std::map<std::string, Halide::Parameter>& parameters_;
};

std::map<std::string, Halide::Parameter> stored(const Stmt& stmt) {
  FindStores find;
  stmt.accept(&find);
  return find.parameters;
}

}  // namespace

Stmt forget_parameters(const Stmt& stmt) {
  std::map<std::string, Halide::Parameter> parameters = stored(stmt);
  for (auto& [name, parameter] : parameters) parameter = Halide::Parameter();
  return SetParameters(parameters).mutate(stmt);
}

Stmt recall_parameters(const Stmt& stmt) {
  std::map<std::string, Halide::Parameter> parameters = stored(stmt);
  return SetParameters(parameters).mutate(stmt);
}

}  // namespace tc::codegen
