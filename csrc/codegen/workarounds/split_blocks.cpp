#include "codegen/workarounds/split_blocks.h"

#include <cstdint>
#include <vector>

#include "codegen/names.h"
#include "ir/visit.h"

namespace tc::codegen {
namespace {

// Nodes from which on a sequence is cut: some seven sums of a hundred elements, unrolled. 48 of
// these took LLVM 6.2 s as one sequence, and 1.3 s cut so: no model of the processor knows that.
constexpr int64_t kMostNodes = 4000;
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

}  // namespace

Stmt split_blocks(const Stmt& stmt) {
  int64_t branches = 0, most = kMostNodes;
  auto in_branch = [&](const Stmt& body) {
    // No address is that small, which LLVM does not know.
    Expr small = make_const(Halide::UInt(64), ++branches);
    return IfThenElse::make(ir::make_variable(kAddress, Halide::UInt(64)) != small, body);
  };
  const Stmt split = ir::mutate(
      stmt,
      [&](const For* op, ir::Mutator& self) {
        ScopedValue<int64_t> most_inside(most, kMostInLoops);
        return self.inside(op);
      },
      [&](const Block* op, ir::Mutator& self) {
        std::vector<Stmt> result, straight;
        int64_t nodes = 0;
        auto close = [&] {
          if (nodes > most) straight = {in_branch(Block::make(straight))};
          result.insert(result.end(), straight.begin(), straight.end());
          straight.clear();
          nodes = 0;
        };
        for (Stmt rest = op; rest.defined();) {
          const auto* block = rest.as<Block>();
          Stmt each = block ? block->first : rest;
          rest = block ? block->rest : Stmt();
          Measure measure;
          each.accept(&measure);
          if (measure.loops) {
            close();
            result.push_back(self.mutate(each));
            continue;
          }
          straight.push_back(self.mutate(each));
          nodes += measure.nodes;
          if (nodes > most) close();
        }
        close();
        return Block::make(result);
      });
  if (branches == 0) return split;
  // Named outside of tasks, which have contexts of their own (see define_launch).
  Expr context = ir::make_variable("__user_context", Halide::type_of<const void*>());
  return LetStmt::make(kAddress, reinterpret(Halide::UInt(64), context), split);
}

}  // namespace tc::codegen
