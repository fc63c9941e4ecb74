#include "codegen/private_temporaries.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Up to these sizes a buffer goes on the stack, and a private one is of use for the caches.
constexpr int64_t kStackBytes = 16 << 10, kCacheBytes = 1 << 20;

/// The loops that all accesses of each buffer have in common, outermost first.
class FindLoops : public IRVisitor {
 public:
  std::map<std::string, std::vector<const For*>> loops;
  std::map<std::string, ir::Type> types;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    stack_.push_back(op);
    IRVisitor::visit(op);
    stack_.pop_back();
  }
  void visit(const Load* op) override {
    access(op->name, op->type);
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    access(op->name, op->value.type());
    IRVisitor::visit(op);
  }
  void access(const std::string& name, ir::Type type) {
    types[name] = type;
    auto [found, fresh] = loops.emplace(name, stack_);
    if (fresh) return;
    std::vector<const For*>& common = found->second;
    size_t length = 0;
    while (length < std::min(common.size(), stack_.size()) && common[length] == stack_[length])
      ++length;
    common.resize(length);
  }
  std::vector<const For*> stack_;
};

/// Whether an iteration of a loop writes a slice of a buffer before it reads of it, and stays
/// inside.
class CheckIteration : public IRVisitor {
 public:
  CheckIteration(std::string buffer, const For* loop) : buffer_(std::move(buffer)) {
    loop->body.accept(this);
    if (!covered_) possible = false;
  }

  bool possible = true;
  Expr base;           ///< where the slice begins
  int64_t length = 1;  ///< elements

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    if (!possible) return;
    inner_.push_back(op);
    Expr last = simplify(op->min + op->extent - 1);
    ScopedBinding<Interval> bind(bounds_, op->name, Interval(op->min, last));
    IRVisitor::visit(op);
    inner_.pop_back();
    if (writer_ == op) covered_ = true;
  }
  void visit(const IfThenElse* op) override {
    ++conditions_;
    IRVisitor::visit(op);
    --conditions_;
  }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    if (op->name != buffer_ || !possible) return;
    // While the slice is being written only the element just written is known.
    if (!covered_ && !(writing_.defined() && inner_ == writers_ && equal(op->index, writing_)))
      possible = false;
    else
      check_inside(op->index);
  }
  void visit(const Store* op) override {
    IRVisitor::visit(op);
    if (op->name != buffer_ || !possible) return;
    if (!covered_ && !writing_.defined())
      cover(op->index);
    else
      check_inside(op->index);
  }

  /// The first store: its loops must run through the slice.
  void cover(const Expr& index) {
    possible = conditions_ == 0;
    base = index;
    std::vector<std::pair<int64_t, int64_t>> steps;  // step, extent
    Expr walk = make_zero(index.type());
    for (const For* loop : inner_) {
      auto extent = as_const_int(loop->extent);
      auto step = ir::step_along(index, loop->name);
      if (!extent || !step || *step < 0 || !as_const_int(loop->min)) {
        possible = false;
        return;
      }
      base = substitute(loop->name, loop->min, base);
      if (*step == 0 || *extent == 1) continue;
      steps.emplace_back(*step, *extent);
      Expr position = Halide::cast(index.type(), ir::make_variable(loop->name) - loop->min);
      walk = walk + position * make_const(index.type(), *step);
    }
    std::sort(steps.begin(), steps.end());
    for (const auto& [step, extent] : steps) {
      if (step != length) possible = false;
      length *= extent;
    }
    base = simplify(base);
    writing_ = index;
    writers_ = inner_;
    writer_ = inner_.empty() ? nullptr : inner_.front();
    if (inner_.empty()) covered_ = true;
    check_inside(index);
  }

  void check_inside(const Expr& index) {
    Expr position = simplify(index - base);
    Interval range = bounds_of_expr_in_scope(position, bounds_);
    auto low = range.has_lower_bound() ? as_const_int(simplify(range.min)) : std::nullopt;
    auto high = range.has_upper_bound() ? as_const_int(simplify(range.max)) : std::nullopt;
    if (!low || !high || *low < 0 || *high >= length) possible = false;
  }

  const std::string buffer_;
  std::vector<const For*> inner_, writers_;
  Scope<Interval> bounds_;
  const For* writer_ = nullptr;
  Expr writing_;
  int conditions_ = 0;
  bool covered_ = false;
};

/// Whether all accesses of a buffer move by the strides of its slices along the loops of these.
class CheckSlices : public IRVisitor {
 public:
  CheckSlices(std::string buffer, const poly::Slices& slices, const std::vector<const For*>& loops)
      : buffer_(std::move(buffer)), slices_(slices), loops_(loops) {
    possible = loops.size() >= slices.sizes.size();
    for (size_t d = 0; possible && d < slices.sizes.size(); ++d)
      possible = is_const_zero(loops[d]->min) && as_const_int(loops[d]->extent) == slices.sizes[d];
    if (possible) loops[0]->body.accept(this);
  }
  bool possible = true;

  /// Where the slice begins.
  Expr base(ir::Type type) const {
    Expr sum = make_zero(type);
    for (size_t d = 0; d < slices_.sizes.size(); ++d)
      sum = sum + Halide::cast(type, ir::make_variable(loops_[d]->name)) *
                      make_const(type, slices_.strides[d]);
    return sum;
  }
  Expr index;  ///< of some access

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    check(op->name, op->index);
  }
  void visit(const Store* op) override {
    IRVisitor::visit(op);
    check(op->name, op->index);
  }
  void check(const std::string& name, const Expr& at) {
    if (name != buffer_) return;
    index = at;
    for (size_t d = 0; d < slices_.sizes.size(); ++d)
      possible = possible && ir::step_along(at, loops_[d]->name) == slices_.strides[d];
  }
  const std::string buffer_;
  const poly::Slices& slices_;
  const std::vector<const For*>& loops_;
};

/// A slice of a temporary and the loop in whose body its buffer is made.
struct Private {
  std::string temporary, name;
  ir::Type type;
  Expr base;
  int64_t length;
  const For* place;
};

class MakePrivate : public IRMutator {
 public:
  explicit MakePrivate(const std::map<std::string, Private>& found) : found_(found) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    Stmt result = IRMutator::visit(op);
    const For* loop = result.as<For>();
    Stmt body = loop->body;
    for (const auto& [name, p] : found_) {
      if (p.place != op) continue;
      auto memory = p.length * p.type.bytes() <= kStackBytes ? Halide::MemoryType::Stack
                                                             : Halide::MemoryType::Heap;
      body =
          Allocate::make(p.name, p.type, memory, {static_cast<int>(p.length)}, const_true(), body);
    }
    return ir::make_for(loop->name, loop->min, loop->extent, loop->for_type, body);
  }
  Expr visit(const Load* op) override {
    auto p = found_.find(op->name);
    if (p == found_.end()) return IRMutator::visit(op);
    return ir::make_load(op->type, p->second.name, position(op->index, p->second));
  }
  Stmt visit(const Store* op) override {
    auto p = found_.find(op->name);
    if (p == found_.end()) return IRMutator::visit(op);
    return ir::make_store(p->second.name, position(op->index, p->second), mutate(op->value));
  }
  static Expr position(const Expr& index, const Private& p) {
    return Halide::cast<int>(simplify(index - p.base));
  }
  const std::map<std::string, Private>& found_;
};

}  // namespace

Stmt make_temporaries_private(const Stmt& stmt, std::set<std::string>& temporaries,
                              const std::map<std::string, poly::Slices>& slices) {
  FindLoops find;
  stmt.accept(&find);
  std::map<std::string, Private> found;
  auto take = [&](const std::string& name, const std::vector<const For*>& loops, size_t k,
                  const Expr& base, int64_t length) {
    if (length * find.types[name].bytes() > kCacheBytes) return;
    // Once for a task, or else once for an iteration of the outermost loop.
    size_t place = k;
    while (place > 0 && loops[place]->for_type != ForType::Parallel) --place;
    found[name] = {name, name + ".private", find.types[name], base, length, loops[place]};
  };
  for (const auto& [name, loops] : find.loops) {
    if (!temporaries.count(name)) continue;
    for (size_t k = loops.size(); k-- > 0 && !found.count(name);) {
      if (loops[k]->for_type != ForType::Serial && loops[k]->for_type != ForType::Parallel)
        continue;
      CheckIteration check(name, loops[k]);
      if (check.possible) take(name, loops, k, check.base, check.length);
    }
    auto slice = slices.find(name);
    if (slice == slices.end() || found.count(name)) continue;
    CheckSlices check(name, slice->second, loops);
    if (check.possible && check.index.defined())
      take(name, loops, slice->second.sizes.size() - 1, check.base(check.index.type()),
           slice->second.strides.back());
  }
  for (const auto& entry : found) temporaries.erase(entry.first);
  return found.empty() ? stmt : MakePrivate(found).mutate(stmt);
}

}  // namespace tc::codegen
