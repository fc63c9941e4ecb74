#include "codegen/prefetch_panels.h"

#include <algorithm>
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

// Rows that processors do not expect: further apart than half a page. Steps between asking for a
// row and reading it. Both measured with products of 24 and 43 x 768 x 2304 (rows of 9 KiB) on a
// core with 2 MiB of second-level cache: 0.70 ms without, 0.57 with rows asked for 8 or 16 steps
// ahead, 0.60 with 4; with the next part too, 0.49.
constexpr int64_t kFarBytes = kPageBytes / 2, kStepsAhead = 8;
// Of a row that is asked for. Wider ones are no blocks of results in registers.
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

class PrefetchPanels : public IRMutator {
 public:
  explicit PrefetchPanels(const std::set<std::string>& large) : large_(large) {}

 private:
  using IRMutator::visit;

  /// A loop around the visited statement, or a name that is computed from one.
  struct Loop {
    std::string name;
    Expr min, extent;
    bool serial = false;
  };

  Stmt visit(const LetStmt* op) override {
    loops_.push_back({op->name, Expr(), Expr(), false});
    Stmt result = IRMutator::visit(op);
    loops_.pop_back();
    return result;
  }
  Stmt visit(const For* op) override {
    const bool serial = op->for_type == ForType::Serial;
    const int64_t serial_before = serial_loops_;
    loops_.push_back({op->name, op->min, op->extent, serial});
    Stmt result = IRMutator::visit(op);
    if (serial && serial_loops_ == serial_before) result = ask_in(op);
    if (serial) ++serial_loops_;
    loops_.pop_back();
    return result;
  }

  /// The innermost serial loop with what its steps ask for.
  Stmt ask_in(const For* op) const {
    FindRows find;
    op->body.accept(&find);
    std::vector<Stmt> stmts;
    for (const Row& row : find.rows) ask(row, op->name, stmts);
    if (stmts.empty()) return op;
    stmts.push_back(op->body);
    return ir::make_for(op->name, op->min, op->extent, op->for_type, Block::make(stmts));
  }

  void ask(const Row& row, const std::string& loop, std::vector<Stmt>& stmts) const {
    const int64_t bytes = row.load->type.bytes();
    const int64_t lines = (row.width * bytes + kLineBytes - 1) / kLineBytes;
    auto step = ir::step_along(row.start, loop);
    if (lines > kMostLines || !step || std::abs(*step) * bytes < kFarBytes) return;
    Expr ahead = wide(row.start) + make_const(Halide::Int(64), *step * kStepsAhead);
    for (int64_t l = 0; l < lines; ++l) stmts.push_back(line_of(row, ahead, l, 1));
    // Where rows begin anywhere in a line, they end in one more.
    if (*step * bytes % kLineBytes != 0)
      stmts.push_back(ir::make_prefetch(row.load->type, row.load->name,
                                        simplify(ahead + static_cast<int>(row.width - 1)), 1));
    if (large_.count(row.load->name)) ask_for_next(row, lines, stmts);
  }

  /// What lies behind a buffer may have a place that 32 bits do not hold.
  static Expr wide(const Expr& place) { return Halide::cast(Halide::Int(64), place); }

  static Stmt line_of(const Row& row, const Expr& start, int64_t line, int cache) {
    const int64_t elements = kLineBytes / row.load->type.bytes();
    return ir::make_prefetch(row.load->type, row.load->name,
                             simplify(start + static_cast<int>(line * elements)), cache);
  }

  /// What is beyond the last part is asked for as well, which no program notices.
  void ask_for_next(const Row& row, int64_t lines, std::vector<Stmt>& stmts) const {
    // From the inside: loops from row to row, then those that read the same rows again.
    Expr start = row.start, done = 0;
    int64_t iterations = 1, rows = 1, span = row.width;
    std::vector<std::pair<const Loop*, int64_t>> walked;  ///< loops from row to row, their steps
    bool again = false;
    auto loop = loops_.rbegin();
    for (; loop != loops_.rend(); ++loop) {
      const bool moves = expr_uses_var(start, loop->name);
      if (moves && (again || !loop->serial)) break;
      if (!loop->serial) continue;
      auto extent = as_const_int(loop->extent), min = as_const_int(loop->min);
      if (!extent || !min || *min != 0) return;
      done = done + ir::make_variable(loop->name) * static_cast<int>(iterations);
      iterations *= *extent;
      if (!moves) {
        again = true;
        continue;
      }
      auto step = ir::step_along(start, loop->name);
      if (!step || *step < 0) return;
      walked.emplace_back(&*loop, *step);
      rows *= *extent;
      span += (*extent - 1) * *step;
      start = substitute(loop->name, 0, start);
    }
    if (loop == loops_.rend()) return;
    auto step = ir::step_along(start, loop->name);
    const int64_t each = iterations / rows;  ///< steps for a row of the next part
    if (!step || (*step != row.width && *step < span) || each < 2) return;
    Expr next = wide(substitute(loop->name, ir::make_variable(loop->name) + 1, start));
    Expr number = done / static_cast<int>(each);
    Expr now = done % static_cast<int>(each) == 0 && number < static_cast<int>(rows);
    for (const auto& [walk, distance] : walked) {
      Expr at = number;
      const auto extent = static_cast<int>(*as_const_int(walk->extent));
      if (walk != walked.back().first) {
        at = number % extent;
        number = number / extent;
      }
      next = next + wide(at) * make_const(Halide::Int(64), distance);
    }
    std::vector<Stmt> asked;
    for (int64_t l = 0; l < lines; ++l) asked.push_back(line_of(row, next, l, 2));
    stmts.push_back(IfThenElse::make(simplify(now), Block::make(asked)));
  }

  const std::set<std::string>& large_;
  std::vector<Loop> loops_;
  int64_t serial_loops_ = 0;  ///< left so far
};

}  // namespace

Stmt prefetch_panels(const Stmt& stmt, const std::set<std::string>& large) {
  return PrefetchPanels(large).mutate(stmt);
}

}  // namespace tc::codegen
