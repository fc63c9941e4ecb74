#include <cstdint>
#include <vector>

#include "codegen/names.h"
#include "codegen/workarounds/passes.h"

namespace tc::codegen {
namespace {

// Nodes from which on a sequence is cut: some seven sums of a hundred elements, unrolled. 48 of
// these took LLVM 6.2 s as one sequence, and 1.3 s cut so: no model of the processor knows that.
constexpr int64_t kMost = 4000;
// In loops, where a block of results in registers with what is unrolled around it stays whole.
constexpr int64_t kMostInLoops = 16000;

constexpr char kAddress[] = "tc.address";

/// Nodes of a statement, and whether it has loops.
class Measure : public IRGraphVisitor {
 public:
  int64_t nodes = 0;
  bool loops = false;

 private:
  using IRGraphVisitor::visit;
  void include(const Expr& e) override {
    ++nodes;
    IRGraphVisitor::include(e);
  }
  void visit(const For* op) override {
    loops = true;
    IRGraphVisitor::visit(op);
  }
  void visit(const Call* op) override {
    // LLVM gets a call for every lane.
    if (!op->is_intrinsic()) nodes += op->type.lanes();
    IRGraphVisitor::visit(op);
  }
};

class SplitBlocks : public IRMutator {
 public:
  Stmt split(const Stmt& stmt) {
    Stmt result = mutate(stmt);
    if (branches_ == 0) return result;
    // Named outside of tasks, which have contexts of their own (see define_launch).
    Expr context = ir::make_variable("__user_context", Halide::type_of<const void*>());
    return LetStmt::make(kAddress, reinterpret(Halide::UInt(64), context), result);
  }

 private:
  using IRMutator::visit;

  Stmt visit(const For* op) override {
    ScopedValue<int64_t> most(most_, kMostInLoops);
    return IRMutator::visit(op);
  }
  Stmt visit(const Block* op) override {
    std::vector<Stmt> result, straight;
    int64_t nodes = 0;
    auto close = [&] {
      if (nodes > most_) straight = {in_branch(Block::make(straight))};
      result.insert(result.end(), straight.begin(), straight.end());
      straight.clear();
      nodes = 0;
    };
    Stmt rest = op;
    while (rest.defined()) {
      const auto* block = rest.as<Block>();
      Stmt each = block ? block->first : rest;
      rest = block ? block->rest : Stmt();
      Measure measure;
      each.accept(&measure);
      if (measure.loops) {
        close();
        result.push_back(mutate(each));
        continue;
      }
      straight.push_back(mutate(each));
      nodes += measure.nodes;
      if (nodes > most_) close();
    }
    close();
    return Block::make(result);
  }

  Stmt in_branch(const Stmt& stmt) {
    // No address is that small, which LLVM does not know.
    Expr small = make_const(Halide::UInt(64), ++branches_);
    return IfThenElse::make(ir::make_variable(kAddress, Halide::UInt(64)) != small, stmt);
  }
  int64_t branches_ = 0, most_ = kMost;
};

}  // namespace

Stmt split_blocks(const Stmt& stmt) { return SplitBlocks().split(stmt); }

}  // namespace tc::codegen
