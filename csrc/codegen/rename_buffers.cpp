#include "codegen/rename_buffers.h"

#include <set>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

class RenameBuffers : public IRMutator {
 private:
  using IRMutator::visit;
  std::string renamed(const std::string& name) const {
    return inside_.count(name) ? name : buffer_name(name);
  }
  Expr visit(const Load* op) override {
    return Load::make(op->type, renamed(op->name), mutate(op->index), op->image, op->param,
                      mutate(op->predicate), op->alignment);
  }
  Stmt visit(const Store* op) override {
    Expr value = mutate(op->value), index = mutate(op->index);
    return Store::make(renamed(op->name), value, index, op->param, mutate(op->predicate),
                       op->alignment);
  }
  Stmt visit(const Allocate* op) override {
    inside_.insert(op->name);
    return IRMutator::visit(op);
  }
  Expr visit(const Variable* op) override {
    if (!op->type.is_handle()) return op;
    return Variable::make(op->type, renamed(op->name));
  }
  std::set<std::string> inside_;  ///< what the statement allocates
};

}  // namespace

std::string buffer_name(const std::string& tensor) {
  bool small = !tensor.empty() && tensor[0] >= 'a' && tensor[0] <= 'z';
  return small ? tensor + ".data" : tensor;
}

Stmt rename_buffers(const Stmt& stmt) { return RenameBuffers().mutate(stmt); }

}  // namespace tc::codegen
