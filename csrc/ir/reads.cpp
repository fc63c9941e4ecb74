#include "ir/reads.h"

#include <algorithm>

namespace tc::ir {
namespace {

using Halide::Internal::Call;

class CollectReads : public Halide::Internal::IRVisitor {
 public:
  std::vector<const Call*> reads;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    if (!read_name(op).empty()) reads.push_back(op);
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
  CollectReads collect;
  e.accept(&collect);
  return static_cast<int>(collect.reads.size());
}

std::vector<const Call*> reads_of(const Statement& statement) {
  CollectReads collect;
  statement.value.accept(&collect);
  for (const Expr& subscript : statement.subscripts) subscript.accept(&collect);
  if (statement.guard.defined()) statement.guard.accept(&collect);
  return collect.reads;
}

bool reads(const Statement& statement, const std::string& name) {
  const std::vector<const Call*> all = reads_of(statement);
  return std::any_of(all.begin(), all.end(),
                     [&](const Call* read) { return read_name(read) == name; });
}

Expr replace_read(const Expr& e, const Expr& from, const Expr& to) {
  return ReplaceRead(from, to).mutate(e);
}

}  // namespace tc::ir
