#include "codegen/split_blocks.h"

#include <cstdint>
#include <vector>

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

// Nodes from which on a sequence is cut: some seven sums of a hundred elements, unrolled. 48 of
// these took LLVM 6.2 s as one sequence, and 1.3 s cut so.
constexpr int64_t kMost = 4000;

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
 private:
  using IRMutator::visit;

  Stmt visit(const Block* op) override {
    std::vector<Stmt> result, straight;
    int64_t nodes = 0;
    auto close = [&] {
      if (nodes > kMost) straight = {in_branch(Block::make(straight))};
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
      if (nodes > kMost) close();
    }
    close();
    return Block::make(result);
  }

  Stmt in_branch(const Stmt& stmt) {
    // No address is that small, which LLVM does not know.
    Expr context = ir::make_variable("__user_context", Halide::type_of<const void*>());
    Expr small = make_const(Halide::UInt(64), ++branches_);
    return IfThenElse::make(reinterpret(Halide::UInt(64), context) != small, stmt);
  }
  int64_t branches_ = 0;
};

}  // namespace

Stmt split_blocks(const Stmt& stmt) { return SplitBlocks().mutate(stmt); }

}  // namespace tc::codegen
