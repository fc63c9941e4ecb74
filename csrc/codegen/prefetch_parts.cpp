#include "codegen/prefetch_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "codegen/copies.h"
#include "codegen/hidden_zero.h"
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
// (measured: 500 products of 26 x 72 x 26, parts of 7.3 KiB, 1.21 times faster; 1024 images of 8 x
// 28 x 28, 24.5 KiB each, 1.2 times, of 4 x 56 x 56, 49 KiB each, not at all; panels of 256 KiB of
// a product of 258 x 1024 x 1024 up to 1.03 times slower).
constexpr int64_t kMostBytes = 64 * 1024;
// The same of a part in runs that lie so far apart, in lines: the second cache takes it (measured:
// 16 images of 512 x 14 x 14 by twos, 1.2 times faster from runs of 784 bytes on than from pages;
// how many at most is a choice, no measurement).
constexpr int64_t kMostRunLines = 4096, kFarBytes = 512;
// Of a run. Longer ones are taken for rows that processors follow themselves, without a
// measurement.
constexpr int64_t kMostLines = 8;

/// How often and how far a loop moves a place; nothing where it does not step forwards, a known
/// number of times.
std::optional<Part::Walk> walk_along(const Expr& place, const AroundLoop& loop,
                                     const AroundLoops& around) {
  auto step = ir::step_along(place, loop.name);
  if (!step || *step < 0) return std::nullopt;
  if (*step == 0) return Part::Walk{1, 0};
  auto extent = loop.extent.defined() ? around.most(loop.extent) : std::nullopt;
  if (!extent || *extent < 1) return std::nullopt;
  return Part::Walk{*extent, *step};
}

/// Places that are reached from the places of one iteration of loops around them.
struct Reach {
  Expr start;         ///< where all loops begin that are inside
  int64_t width = 1;  ///< from there to behind the last one

  /// False where the places do not grow with the loop by a known number.
  bool walk(const AroundLoop& loop, const AroundLoops& around) {
    auto found = walk_along(start, loop, around);
    if (!found || found->step == 0) return found.has_value();
    width += found->step * (found->extent - 1);
    start = substitute(loop.name, loop.min, start);
    return true;
  }
};

/// Places that are reached in runs, by the loops that lead from one run to another.
class Runs {
 public:
  Runs(const Load& load, const Expr& start)
      : line_(kLineBytes / load.type.bytes()), part_{load.type, load.name, start, 1, {}} {}

  /// False where the loop does not step forwards, a known number of times.
  bool walk(const AroundLoop& loop, const AroundLoops& around) {
    auto found = walk_along(part_.start, loop, around);
    if (!found || found->step == 0) return found.has_value();
    part_.start = substitute(loop.name, loop.min, part_.start);
    part_.walks.push_back(*found);
    std::sort(part_.walks.begin(), part_.walks.end(),
              [](const Part::Walk& a, const Part::Walk& b) { return a.step < b.step; });
    // Runs that share lines, or the next ones, are one.
    while (!part_.walks.empty() && part_.walks.front().step < part_.width + line_) {
      part_.width += part_.walks.front().step * (part_.walks.front().extent - 1);
      part_.walks.erase(part_.walks.begin());
    }
    return true;
  }

  /// What an iteration of the loop reads that the one before it does not, where that is in far runs
  /// and not too much.
  std::optional<Part> read_anew(const AroundLoop& loop) const {
    auto step = ir::step_along(part_.start, loop.name);
    if (!step || *step <= 1 || part_.walks.empty()) return std::nullopt;
    if (part_.walks.front().step * part_.type.bytes() < kFarBytes) return std::nullopt;
    Part part = part_;
    if (*step < part.width) {
      part.start = part.start + static_cast<int>(part.width - *step);
      part.width = *step;
    }
    int64_t lines = part.width / line_ + 1;
    if (lines > kMostLines) return std::nullopt;
    for (const Part::Walk& walk : part.walks) lines *= walk.extent;
    if (lines > kMostRunLines) return std::nullopt;
    return part;
  }

 private:
  int64_t line_;  ///< elements
  Part part_;
};

/// Elements of buffers that the body of a loop reads, at places that are known before it.
class FindReads : public IRVisitor {
 public:
  struct Read {
    const Load* load;
    std::vector<AroundLoop> points;  ///< loops in the body, outermost first
  };
  std::map<std::string, Read> reads;
  std::set<std::string> prefetches;  ///< buffers that it prefetches itself

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
  void visit(const Variable* op) override {
    if (op->type.is_handle()) prefetches.insert(op->name);
  }
  std::vector<AroundLoop> points_;
};

class PrefetchParts : public InnermostLoops {
 public:
  PrefetchParts(const std::set<std::string>& buffers, const std::set<std::string>& stored)
      : buffers_(buffers), stored_(stored) {}

 private:
  using InnermostLoops::visit;
  Stmt visit(const For* op) override {
    const size_t copies_before = copies_.size();
    if (around_.loops().empty()) stored_here_ = ir::stored_buffers(op);
    Stmt result = InnermostLoops::visit(op);
    copies_.resize(copies_before);
    return result;
  }
  Stmt visit(const ProducerConsumer* op) override {
    auto copy = find_copy(op);
    if (!copy) return IRMutator::visit(op);
    const std::string& name = copy->load->name;
    if (buffers_.count(name) && !stored_.count(name)) copies_.push_back(*copy);
    return op;
  }

  /// The loop of a register tile with what its steps prefetch.
  Stmt visit_innermost(const For* op) const override {
    if (!in_tile()) return op;
    FindReads find;
    op->body.accept(&find);
    std::vector<Stmt> stmts;
    for (const auto& [name, read] : find.reads) {
      if (!buffers_.count(name)) continue;
      std::vector<AroundLoop> inside = {around_.loops().back()};
      inside.insert(inside.end(), read.points.begin(), read.points.end());
      const Expr index = reveal(read.load->index);
      // What the kernel writes is in a cache when it is read, but for what is large and written by
      // loops of its own.
      const bool dense = !stored_.count(name) && ask(find_dense(*read.load, index, inside), stmts);
      if (!dense && !find.prefetches.count(name) && !stored_here_.count(name))
        for (const Part& part : find_runs(*read.load, index, inside))
          if (ask(part, stmts)) break;
    }
    for (const Copy& copy : copies_) {
      if (!find.reads.count(copy.store->name)) continue;
      std::vector<AroundLoop> inside;
      for (const CopyLoop& loop : copy.loops) inside.push_back({loop.name, loop.min, loop.extent});
      ask(find_dense(*copy.load, copy.load->index, inside), stmts);
    }
    return ir::prepend(op, stmts);
  }

  /// Whether anything is prefetched.
  bool ask(const std::optional<Part>& part, std::vector<Stmt>& stmts) const {
    if (!part) return false;
    Stmt prefetches = prefetch_next_part(*part, around_, 0);
    if (prefetches.defined()) stmts.push_back(prefetches);
    return prefetches.defined();
  }

  /// The largest part in one piece that is small enough: of the loops around, those further out
  /// move it less often, which leaves more time until the next one is read.
  std::optional<Part> find_dense(const Load& load, const Expr& index,
                                 const std::vector<AroundLoop>& inside) const {
    Reach reach{index};
    for (size_t l = inside.size(); l-- > 0;)
      if (!reach.walk(inside[l], around_)) return std::nullopt;
    std::optional<Part> part;
    const std::vector<AroundLoop>& loops = around_.loops();
    for (size_t l = loops.size(); l-- > 0;) {
      auto step = ir::step_along(reach.start, loops[l].name);
      const int64_t bytes = reach.width * load.type.bytes();
      // The next one may lie elsewhere: short ones are runs. Bounds of reach are loose where tiles
      // at the ends are smaller.
      const bool whole = step && (*step <= reach.width || bytes >= kPageBytes);
      if (whole && *step > 1 && reach.width <= 2 * *step && bytes <= kMostBytes)
        part = Part{load.type, load.name, reach.start, std::min(*step, reach.width), {}};
      if (!reach.walk(loops[l], around_)) break;
    }
    return part;
  }

  /// Parts in runs, the largest first.
  std::vector<Part> find_runs(const Load& load, const Expr& index,
                              const std::vector<AroundLoop>& inside) const {
    Runs runs(load, index);
    for (size_t l = inside.size(); l-- > 0;)
      if (!runs.walk(inside[l], around_)) return {};
    std::vector<Part> parts;
    const std::vector<AroundLoop>& loops = around_.loops();
    for (size_t l = loops.size(); l-- > 0;) {
      if (auto found = runs.read_anew(loops[l])) parts.insert(parts.begin(), *found);
      if (!runs.walk(loops[l], around_)) break;
    }
    return parts;
  }

  const std::set<std::string>& buffers_;
  const std::set<std::string>& stored_;
  std::set<std::string> stored_here_;  ///< in the outermost loop that is visited
  std::vector<Copy> copies_;           ///< out of the buffers, in the loops around
};

}  // namespace

Stmt prefetch_parts(const Stmt& stmt, const std::set<std::string>& buffers) {
  if (buffers.empty()) return stmt;
  const std::set<std::string> stored = ir::stored_buffers(stmt);
  return PrefetchParts(buffers, stored).mutate(stmt);
}

}  // namespace tc::codegen
