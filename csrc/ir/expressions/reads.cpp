#include "ir/expressions/reads.h"

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

std::set<std::string> names_read(const Expr& e) {
  CollectReads collect;
  e.accept(&collect);
  std::set<std::string> names;
  for (const Call* read : collect.reads) names.insert(read_name(read));
  return names;
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

bool reads(const Expr& e, const std::string& name) {
  CollectReads collect;
  e.accept(&collect);
  return std::any_of(collect.reads.begin(), collect.reads.end(),
                     [&](const Call* read) { return read_name(read) == name; });
}

std::optional<CopiedRead> find_copied(const Statement& statement) {
  const auto* read = statement.value.as<Call>();
  if (!read || read_name(read).empty() || statement.reduction != Reduction::None ||
      statement.guard.defined() || is_scatter(statement) ||
      statement.domain.size() != statement.subscripts.size() ||
      read->args.size() != statement.subscripts.size())
    return std::nullopt;
  CopiedRead copied{read_name(read), {}};
  for (size_t d = 0; d < read->args.size(); ++d) {
    auto offset = Halide::Internal::as_const_int(
        Halide::Internal::simplify(read->args[d] - statement.subscripts[d]));
    if (!offset) return std::nullopt;
    copied.offsets.push_back(*offset);
  }
  return copied;
}

Expr replace_read(const Expr& e, const Expr& from, const Expr& to) {
  return ReplaceRead(from, to).mutate(e);
}

}  // namespace tc::ir
