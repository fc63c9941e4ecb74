#include "ir/reads.h"

namespace tc::ir {
namespace {

using Halide::Internal::Call;

class CountReads : public Halide::Internal::IRVisitor {
 public:
  int count = 0;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    if (!read_name(op).empty()) ++count;
    IRVisitor::visit(op);
  }
};

class ReplaceRead : public Halide::Internal::IRMutator {
 public:
  ReplaceRead(const Expr& from, const Expr& to) : from_(from), to_(to) {}

 private:
  using IRMutator::visit;
  Expr visit(const Call* op) override {
    return Halide::Internal::equal(op, from_) ? to_ : IRMutator::visit(op);
  }
  const Expr from_, to_;
};

}  // namespace

bool has_data(const Expr& e) { return count_reads(e) > 0; }

int count_reads(const Expr& e) {
  CountReads count;
  e.accept(&count);
  return count.count;
}

Expr replace_read(const Expr& e, const Expr& from, const Expr& to) {
  return ReplaceRead(from, to).mutate(e);
}

}  // namespace tc::ir
