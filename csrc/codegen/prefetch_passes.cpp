#include "codegen/prefetch_passes.h"

#include <cstdlib>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Shorter rows lie in one page with the next ones; longer ones would push out each other.
constexpr int64_t kShortest = 512, kLongest = 16 << 10;
// Vectors of one row that an iteration reads at most (codegen/vector_reductions).
constexpr int64_t kMostVectors = 16;
// That an iteration prefetches at most.
constexpr int64_t kMostLines = 8;

/// Elements side by side that a loop reads in all its iterations.
struct Row {
  const Load* load = nullptr;
  Expr start;
  int64_t length = 0;
};

/// The rows that a loop walks through from end to end.
class FindRows : public IRVisitor {
 public:
  FindRows(const For* loop, const std::set<std::string>& buffers) : buffers_(buffers) {
    loop->accept(this);
  }
  std::vector<Row> rows;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    loops_.push_back(op);
    IRVisitor::visit(op);
    loops_.pop_back();
  }
  void visit(const LetStmt* op) override {
    bound_.push(op->name);
    IRVisitor::visit(op);
  }
  void visit(const Let* op) override {
    bound_.push(op->name);
    IRVisitor::visit(op);
  }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    // The other loop knows none of the names of this one.
    if (!buffers_.count(op->name) || op->type.is_vector() || ir::has_load(op->index) ||
        expr_uses_vars(op->index, bound_))
      return;
    Row row{op, op->index, 1};
    for (size_t l = loops_.size(); l-- > 0;) {
      auto extent = as_const_int(loops_[l]->extent);
      auto step = ir::step_along(row.start, loops_[l]->name);
      // Several vectors that an iteration reads lie between.
      if (!extent || !step || *step < row.length || *step > kMostVectors * row.length) return;
      row.length += *step * (*extent - 1);
      row.start = substitute(loops_[l]->name, loops_[l]->min, row.start);
    }
    for (const Row& known : rows) {
      auto distance = as_const_int(simplify(row.start - known.start));
      if (known.load->name == op->name && distance && std::abs(*distance) < row.length) return;
    }
    rows.push_back(row);
  }

  const std::set<std::string>& buffers_;
  std::vector<const For*> loops_;
  Scope<> bound_;
};

/// The loops of a body that run one after the other.
void collect_loops(const Stmt& stmt, std::vector<const For*>& loops) {
  if (const auto* block = stmt.as<Block>()) {
    collect_loops(block->first, loops);
    collect_loops(block->rest, loops);
  } else if (const auto* let = stmt.as<LetStmt>()) {
    collect_loops(let->body, loops);
  } else if (const auto* allocate = stmt.as<Allocate>()) {
    collect_loops(allocate->body, loops);
  } else if (const auto* choice = stmt.as<IfThenElse>();
             choice && choice->condition.as<Variable>()) {
    collect_loops(choice->then_case, loops);  // of the two forms of a row (codegen/stream_rows)
  } else if (const auto* loop = stmt.as<For>(); loop && loop->for_type == ForType::Serial) {
    loops.push_back(loop);
  }
}

class PrefetchPasses : public IRMutator {
 public:
  explicit PrefetchPasses(const std::set<std::string>& buffers) : buffers_(buffers) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op == replaced_) return replacement_;
    std::vector<const For*> loops;
    if (op->for_type == ForType::Serial) collect_loops(op->body, loops);
    if (loops.size() < 2) return IRMutator::visit(op);
    const For* asking = loops[1];
    std::vector<Stmt> stmts;
    for (const Row& row : FindRows(loops[0], buffers_).rows) ask(row, op->name, *asking, stmts);
    if (stmts.empty()) return IRMutator::visit(op);
    replaced_ = asking;
    replacement_ = ir::prepend(asking, stmts);
    return IRMutator::visit(op);
  }

  /// What is beyond the last row is prefetched as well, which no program notices: as a rule another
  /// task reads it next.
  static void ask(const Row& row, const std::string& rows, const For& asking,
                  std::vector<Stmt>& stmts) {
    const int64_t bytes = row.load->type.bytes();
    auto step = ir::step_along(row.start, rows);
    auto extent = as_const_int(asking.extent);
    if (!step || *step < row.length || !extent || row.length * bytes < kShortest ||
        row.length * bytes > kLongest)
      return;
    const int64_t lines = (row.length * bytes + kLineBytes - 1) / kLineBytes;
    const int64_t each = (lines + *extent - 1) / *extent;
    if (each > kMostLines) return;
    const int64_t line = kLineBytes / bytes;
    // Places beyond the last row may exceed 32 bits.
    const ir::Type wide = Halide::Int(64);
    Expr done = Halide::cast(wide, ir::make_variable(asking.name) - asking.min);
    Expr next = Halide::cast(wide, row.start) + done * make_const(wide, each * line);
    for (int64_t l = 0; l < each; ++l)
      stmts.push_back(ir::make_prefetch(row.load->type, row.load->name,
                                        next + make_const(wide, *step + l * line)));
  }

  const std::set<std::string>& buffers_;
  const For* replaced_ = nullptr;
  Stmt replacement_;
};

}  // namespace

Stmt prefetch_passes(const Stmt& stmt, const std::set<std::string>& buffers) {
  return buffers.empty() ? stmt : PrefetchPasses(buffers).mutate(stmt);
}

}  // namespace tc::codegen
