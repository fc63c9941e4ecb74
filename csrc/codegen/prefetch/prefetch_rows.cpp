#include "codegen/prefetch/prefetch_rows.h"

#include <optional>
#include <vector>

#include "base/memory.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::Stmt;

// Lines that an iteration prefetches at most; where a piece of the row would be larger, most of it
// would not be read (measured: a product of 512 x 512 x 4096 whose rows of 16 KiB are put in order,
// in an order that keeps to 256 bytes for a while, in 13.7 ms without and 11.1 with).
constexpr int64_t kMostLines = 2;

/// Takes a vector of places apart into what is the same for all lanes, added to `base`, and what
/// data says, which `row` must not move. False where it is something else.
bool split(const Expr& index, const std::string& row, Expr& base) {
  if (const auto* add = index.as<Add>())
    return split(add->a, row, base) && split(add->b, row, base);
  if (const auto* broadcast = index.as<Broadcast>(); broadcast && !ir::has_load(index)) {
    base = base + broadcast->value;
    return true;
  }
  return ir::has_load(index) && !expr_uses_var(index, row);
}

/// The vectors that a loop's body picks out of the buffers.
class FindPicks : public IRVisitor {
 public:
  explicit FindPicks(const std::set<std::string>& buffers) : buffers_(buffers) {}
  std::vector<const Load*> picks;
  bool innermost = true;

 private:
  using IRVisitor::visit;
  void visit(const For*) override { innermost = false; }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    if (op->type.is_vector() && buffers_.count(op->name) && !op->index.as<Ramp>() &&
        ir::has_load(op->index))
      picks.push_back(op);
  }
  const std::set<std::string>& buffers_;
};

class PrefetchRows : public IRMutator {
 public:
  explicit PrefetchRows(const std::set<std::string>& buffers) : buffers_(buffers) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    FindPicks find(buffers_);
    op->body.accept(&find);
    std::vector<Stmt> stmts;
    if (find.innermost && !rows_.empty())
      for (const Load* pick : find.picks) ask(op, *pick, stmts);
    if (!stmts.empty()) return ir::prepend(op, stmts);
    rows_.push_back(op->name);
    Stmt result = IRMutator::visit(op);
    rows_.pop_back();
    return result;
  }

  /// What is beyond the last row is prefetched as well, which no program notices: as a rule another
  /// task reads it next.
  void ask(const For* op, const Load& pick, std::vector<Stmt>& stmts) const {
    const std::string& row = rows_.back();
    Expr base = 0;
    auto extent = as_const_int(op->extent);
    if (!extent || *extent < 1 || !split(pick.index, row, base)) return;
    Expr next = substitute(row, ir::make_variable(row) + 1, base);
    auto step = ir::step_along(base, row);
    if (!step || *step < 1) return;
    const int64_t line = kLineBytes / pick.type.element_of().bytes();
    const int64_t lines = (*step + *extent * line - 1) / (*extent * line);
    if (lines > kMostLines) return;
    Expr done = ir::make_variable(op->name) - op->min;
    for (int64_t l = 0; l < lines; ++l) {
      Expr place = next + done * static_cast<int>(*step) / static_cast<int>(*extent) +
                   static_cast<int>(l * line);
      stmts.push_back(ir::make_prefetch(pick.type, pick.name, simplify(place)));
    }
  }

  const std::set<std::string>& buffers_;
  std::vector<std::string> rows_;  ///< loops around the visited statement
};

}  // namespace

Stmt prefetch_rows(const Stmt& stmt, const std::set<std::string>& buffers) {
  return buffers.empty() ? stmt : PrefetchRows(buffers).mutate(stmt);
}

}  // namespace tc::codegen
