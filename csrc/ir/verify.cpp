#include "ir/verify.h"

#include "base/error.h"
#include "ir/program.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

class Verify : public IRVisitor {
 public:
  explicit Verify(const std::set<std::string>& buffers) : buffers_(buffers) {}

 private:
  using IRVisitor::visit;

  void visit(const Variable* op) override {
    TC_INTERNAL_CHECK(bound_.count(op->name), "the variable ", op->name,
                      " is used outside its loop");
  }
  void visit(const For* op) override {
    op->min.accept(this);
    op->extent.accept(this);
    bind(op->name, [&] { op->body.accept(this); });
  }
  void visit(const LetStmt* op) override {
    op->value.accept(this);
    bind(op->name, [&] { op->body.accept(this); });
  }
  void visit(const Let* op) override {
    op->value.accept(this);
    bind(op->name, [&] { op->body.accept(this); });
  }
  void visit(const Allocate* op) override {
    for (const Expr& extent : op->extents) extent.accept(this);
    TC_INTERNAL_CHECK(buffers_.insert(op->name).second, "the buffer ", op->name,
                      " is allocated over another of its name");
    op->body.accept(this);
    buffers_.erase(op->name);
  }
  void visit(const Load* op) override {
    check_access(op->name, op->index);
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    check_access(op->name, op->index);
    IRVisitor::visit(op);
  }
  void visit(const Call* op) override {
    TC_INTERNAL_CHECK(read_name(op).empty(), "a read of ", read_name(op), " was not lowered");
    IRVisitor::visit(op);
  }

  void check_access(const std::string& buffer, const Expr& index) {
    TC_INTERNAL_CHECK(buffers_.count(buffer), "the buffer ", buffer, " does not exist");
    Type type = index.type();
    TC_INTERNAL_CHECK(type.is_int() && (type.bits() == 32 || type.bits() == 64), "the index of ",
                      buffer, " is no 32- or 64-bit integer");
  }
  template <class Visit>
  void bind(const std::string& name, Visit visit) {
    TC_INTERNAL_CHECK(bound_.insert(name).second, "the loop or let ", name,
                      " hides another of its name");
    visit();
    bound_.erase(name);
  }

  std::set<std::string> buffers_, bound_;
};

}  // namespace

void verify(const Stmt& stmt, const std::set<std::string>& buffers) {
  Verify verifier(buffers);
  stmt.accept(&verifier);
}

}  // namespace tc::ir
