#include "codegen/prefetch_panels.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "codegen/next_part.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Steps between prefetching a row and reading it (measured with products of 24 and 43 x 768 x 2304,
// rows of 9 KiB, on a core with 2 MiB of second-level cache: 0.70 ms without, 0.57 with 8 or 16
// steps, 0.60 with 4; with the next part too, 0.49).
constexpr int64_t kStepsAhead = 8;
// Rows that processors do not expect are further apart: in any loop, and in those of register
// tiles, which leave the time to prefetch more.
constexpr int64_t kFarBytes = kPageBytes / 2, kFarBytesOfTiles = 512;
// What the loop of a tile walks through in rows closer together, from which on the first cache does
// not keep it for the next block of results (measured: 256 filters of 1024 x 14 x 14, whose rows of
// two lines lie 784 bytes apart, in 2.54 instead of 3.01 ms; 512 of 2048 x 7 x 7 in 2.53 instead
// of 2.91; a panel of 8 KiB 1.03 times slower).
constexpr int64_t kLongWalk = 16 * 1024;
// Of a row that is prefetched. Wider ones are no blocks of results in registers.
constexpr int64_t kMostLines = 8;

/// Elements side by side that a step reads.
struct Row {
  const Load* load = nullptr;
  Expr start;
  int64_t width = 1;
};

/// The rows that the body of a loop reads: one of each buffer, at places that are known before it.
class FindRows : public IRVisitor {
 public:
  std::vector<Row> rows;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    points_.push_back(op);
    IRVisitor::visit(op);
    points_.pop_back();
  }
  void visit(const LetStmt* op) override { bind(op); }
  void visit(const Let* op) override { bind(op); }
  template <class Binding>
  void bind(const Binding* op) {
    bound_.push(op->name);
    IRVisitor::visit(op);
    bound_.pop(op->name);
  }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    bool known = std::any_of(rows.begin(), rows.end(),
                             [&](const Row& row) { return row.load->name == op->name; });
    if (known || ir::has_load(op->index) || expr_uses_vars(op->index, bound_)) return;
    Row row{op, op->index, 1};
    for (size_t l = points_.size(); l-- > 0;) {
      const For* loop = points_[l];
      auto step = ir::step_along(row.start, loop->name);
      auto extent = as_const_int(loop->extent);
      if (!step || !extent) return;
      if (*step != 0 && *step != row.width) return;
      if (*step != 0) row.width *= *extent;
      row.start = substitute(loop->name, loop->min, row.start);
    }
    if (row.width > 1) rows.push_back(row);
  }
  std::vector<const For*> points_;  ///< loops in the body, unrolled or vectors
  Scope<> bound_;                   ///< names of the body's own
};

class PrefetchPanels : public InnermostLoops {
 public:
  explicit PrefetchPanels(const std::set<std::string>& large) : large_(large) {}

 private:
  /// The loop with what its steps prefetch.
  Stmt visit_innermost(const For* op) const override {
    FindRows find;
    op->body.accept(&find);
    std::vector<Stmt> stmts;
    for (const Row& row : find.rows) ask(row, op, stmts);
    return ir::prepend(op, stmts);
  }

  void ask(const Row& row, const For* loop, std::vector<Stmt>& stmts) const {
    const int64_t bytes = row.load->type.bytes();
    const int64_t lines = (row.width * bytes + kLineBytes - 1) / kLineBytes;
    auto step = ir::step_along(row.start, loop->name);
    if (lines > kMostLines || !step || !waits(row, *step, lines)) return;
    // What lies behind a buffer may have a place that 32 bits do not hold.
    Expr ahead =
        Halide::cast(Halide::Int(64), row.start) + make_const(Halide::Int(64), *step * kStepsAhead);
    auto prefetch = [&](int64_t element) {
      stmts.push_back(ir::make_prefetch(row.load->type, row.load->name,
                                        simplify(ahead + static_cast<int>(element))));
    };
    for (int64_t l = 0; l < lines; ++l) prefetch(l * (kLineBytes / bytes));
    // Where rows begin anywhere in a line, they end in one more.
    if (*step * bytes % kLineBytes != 0) prefetch(row.width - 1);
    if (large_.count(row.load->name)) prefetch_next(row, stmts);
  }

  /// Whether a loop waits for rows of so many lines that lie so far apart.
  bool waits(const Row& row, int64_t step, int64_t lines) const {
    const int64_t bytes = std::abs(step) * row.load->type.bytes();
    if (bytes >= kFarBytes) return true;
    if (!in_tile() || bytes < kLineBytes || (step == row.width && !is_read_again(row)))
      return false;
    if (bytes >= kFarBytesOfTiles) return true;
    const int64_t steps = count_steps(row, step);
    return steps >= 2 * kStepsAhead && steps * lines * kLineBytes >= kLongWalk;
  }

  /// Of the innermost loop, and of those around it that go on where it ends (measured: 128 filters
  /// of 128 x 56 x 56, 3 x 3 by twos, whose columns are the innermost loop, 1.06 times faster).
  int64_t count_steps(const Row& row, int64_t step) const {
    int64_t steps = 1;
    const std::vector<AroundLoop>& loops = around_.loops();
    for (auto loop = loops.rbegin(); loop != loops.rend() && loop->serial; ++loop) {
      auto extent = as_const_int(loop->extent);
      if (!extent || ir::step_along(row.start, loop->name) != step * steps) break;
      steps *= *extent;
    }
    return steps;
  }

  /// Whether an iteration of some serial loop around reads the same rows as the one before it.
  bool is_read_again(const Row& row) const {
    const std::vector<AroundLoop>& loops = around_.loops();
    return std::any_of(loops.begin(), loops.end(), [&](const AroundLoop& loop) {
      return loop.serial && !expr_uses_var(row.start, loop.name);
    });
  }

  /// The rows that lie beside those that the loop and the ones around it walk over, if these are
  /// read several times.
  void prefetch_next(const Row& row, std::vector<Stmt>& stmts) const {
    Part part{row.load->type, row.load->name, row.start, row.width, {}};
    const std::vector<AroundLoop>& loops = around_.loops();
    for (auto loop = loops.rbegin(); loop != loops.rend() && loop->serial; ++loop) {
      if (!expr_uses_var(part.start, loop->name)) break;
      auto extent = as_const_int(loop->extent);
      auto step = ir::step_along(part.start, loop->name);
      if (!extent || *extent < 1 || !step || *step < 0) return;
      part.walks.push_back({*extent, *step});
      part.start = substitute(loop->name, loop->min, part.start);
    }
    Stmt prefetches = prefetch_next_part(part, around_, 2);
    if (prefetches.defined()) stmts.push_back(prefetches);
  }

  const std::set<std::string>& large_;
};

}  // namespace

Stmt prefetch_panels(const Stmt& stmt, const std::set<std::string>& large) {
  return PrefetchPanels(large).mutate(stmt);
}

}  // namespace tc::codegen
