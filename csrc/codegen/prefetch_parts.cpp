#include "codegen/prefetch_parts.h"

#include <map>
#include <optional>
#include <vector>

#include "codegen/copies.h"
#include "codegen/next_part.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Of a part. A core has some 16 buffers for lines on their way to its first cache; operands that
// are read from the second one wait for these, while lines from memory hold them for long
// (measured: 500 products of 26 x 72 x 26, parts of 7.3 KiB, 1.21 times faster; panels of 256 KiB
// of a product of 258 x 1024 x 1024 up to 1.03 times slower).
constexpr int64_t kMostBytes = 16 * 1024;

/// Places that are reached from the places of one iteration of loops around them.
struct Reach {
  Expr start;         ///< where all loops begin that are inside
  int64_t width = 1;  ///< from there to behind the last one

  /// False where the places do not grow with the loop by a known number.
  bool walk(const AroundLoop& loop, const AroundLoops& around) {
    auto step = ir::step_along(start, loop.name);
    if (!step || *step < 0) return false;
    if (*step == 0) return true;
    auto extent = loop.extent.defined() ? around.most(loop.extent) : std::nullopt;
    if (!extent || *extent < 1) return false;
    width += *step * (*extent - 1);
    start = substitute(loop.name, loop.min, start);
    return true;
  }
};

/// Elements of buffers that the body of a loop reads, at places that are known before it.
class FindReads : public IRVisitor {
 public:
  struct Read {
    const Load* load;
    std::vector<AroundLoop> points;  ///< loops in the body, outermost first
  };
  std::map<std::string, Read> reads;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    points_.push_back({op->name, op->min, op->extent});
    IRVisitor::visit(op);
    points_.pop_back();
  }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    if (!ir::has_load(op->index)) reads.try_emplace(op->name, Read{op, points_});
  }
  std::vector<AroundLoop> points_;
};

class PrefetchParts : public InnermostLoops {
 public:
  explicit PrefetchParts(const std::set<std::string>& buffers) : buffers_(buffers) {}

 private:
  using InnermostLoops::visit;
  Stmt visit(const For* op) override {
    const size_t copies_before = copies_.size();
    Stmt result = InnermostLoops::visit(op);
    copies_.resize(copies_before);
    return result;
  }
  Stmt visit(const ProducerConsumer* op) override {
    auto copy = find_copy(op);
    if (!copy) return IRMutator::visit(op);
    if (buffers_.count(copy->load->name)) copies_.push_back(*copy);
    return op;
  }

  /// The loop of a register tile with what its steps ask for.
  Stmt visit_innermost(const For* op) const override {
    if (!in_tile()) return op;
    FindReads find;
    op->body.accept(&find);
    std::vector<Stmt> stmts;
    for (const auto& [name, read] : find.reads) {
      if (!buffers_.count(name)) continue;
      std::vector<AroundLoop> inside = {around_.loops().back()};
      inside.insert(inside.end(), read.points.begin(), read.points.end());
      ask(*read.load, read.load->index, inside, stmts);
    }
    for (const Copy& copy : copies_) {
      if (!find.reads.count(copy.store->name)) continue;
      std::vector<AroundLoop> inside;
      for (const CopyLoop& loop : copy.loops) inside.push_back({loop.name, loop.min, loop.extent});
      ask(*copy.load, copy.load->index, inside, stmts);
    }
    return ir::prepend(op, stmts);
  }

  /// The largest part that is small enough: of the loops around, those further out move it less
  /// often, which leaves more time until the next one is read.
  void ask(const Load& load, const Expr& index, const std::vector<AroundLoop>& inside,
           std::vector<Stmt>& stmts) const {
    Reach reach{index};
    for (size_t l = inside.size(); l-- > 0;)
      if (!reach.walk(inside[l], around_)) return;
    std::optional<Part> part;
    const std::vector<AroundLoop>& loops = around_.loops();
    for (size_t l = loops.size(); l-- > 0;) {
      auto step = ir::step_along(reach.start, loops[l].name);
      // Bounds of reach are loose where tiles at the ends are smaller.
      if (step && *step > 1 && *step <= reach.width && reach.width <= 2 * *step &&
          reach.width * load.type.bytes() <= kMostBytes)
        part = Part{load.type, load.name, reach.start, *step, {}};
      if (!reach.walk(loops[l], around_)) break;
    }
    if (!part) return;
    Stmt asked = ask_for_next_part(*part, around_, 0);
    if (asked.defined()) stmts.push_back(asked);
  }

  const std::set<std::string>& buffers_;
  std::vector<Copy> copies_;  ///< out of the buffers, in the loops around
};

}  // namespace

Stmt prefetch_parts(const Stmt& stmt, const std::set<std::string>& buffers) {
  if (buffers.empty()) return stmt;
  // What the kernel writes is in a cache when it is read.
  std::set<std::string> read_only = buffers;
  for (const std::string& name : ir::stored_buffers(stmt)) read_only.erase(name);
  return PrefetchParts(read_only).mutate(stmt);
}

}  // namespace tc::codegen
