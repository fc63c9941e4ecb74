#include "codegen/stream_rows.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/loops.h"
#include "ir/program.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

// Of the array that a row passes through, a part after the other where it is longer.
constexpr int64_t kPartBytes = 4096;

/// Buffers that the statement asks about.
class FindStreamed : public IRVisitor {
 public:
  std::set<std::string> names;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    if (op->name == kIsResident) names.insert(op->args[0].as<Variable>()->name);
    IRVisitor::visit(op);
  }
};

/// Whether a nest of loops waits for arithmetic rather than for memory: for functions of lanes, in
/// any of its loops of vectors.
class FindFunctions : public IRVisitor {
 public:
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const For* op) override {
    const bool vector = op->for_type == ForType::Vectorized;
    if (vector) lanes_.push(op->name);
    IRVisitor::visit(op);
    if (vector) lanes_.pop(op->name);
  }
  void visit(const Call* op) override {
    static const std::set<std::string> light = {"abs",  "fabs",  "fmax", "fmin", "floor",
                                                "ceil", "trunc", "rint", "fma",  "copysign"};
    const std::string name = ir::math_name(op);
    if (!name.empty() && light.count(name) == 0 && expr_uses_vars(op, lanes_)) found = true;
    IRVisitor::visit(op);
  }
  Scope<> lanes_;
};

/// Whether lanes of a loop of vectors read what does not lie side by side: that takes instructions.
class FindLanesApart : public IRVisitor {
 public:
  explicit FindLanesApart(const std::string& loop) : loop_(loop) {}
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    auto step = ir::step_along(op->index, loop_);
    if (!step || (*step != 0 && *step != 1)) found = true;
    IRVisitor::visit(op);
  }
  const std::string& loop_;
};

class StreamRows : public IRMutator {
 public:
  StreamRows(const std::map<std::string, int64_t>& results, int64_t least_bytes)
      : results_(results), least_bytes_(least_bytes) {}

  std::set<std::string> streamed;

  /// The name of what the system says of a result's memory.
  static std::string flag(const std::string& buffer) { return buffer + ".streams"; }

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    if (op->for_type != ForType::Vectorized) return visit_nest(op);
    std::vector<const Store*> stores;
    if (!collect_stores(op->body, stores)) return op;
    auto extent = as_const_int(op->extent);
    int64_t most = kPartBytes;
    Expr streams = const_true();
    std::set<std::string> names;
    for (const Store* store : stores) {
      if (!suits(*store, *op) || !names.insert(store->name).second) return op;
      const int64_t bytes = store->value.type().bytes();
      if (extent && *extent * bytes < least_bytes_) return op;
      most = std::min(most, kPartBytes / bytes);
      streams = streams && ir::make_variable(flag(store->name), Halide::Bool());
    }
    streamed.insert(names.begin(), names.end());
    const bool parts = !extent || *extent > most;
    Stmt row = parts ? stream_parts(*op, stores, static_cast<int>(most))
                     : stream(*op, stores, op->min, op->extent, static_cast<int>(*extent));
    return IfThenElse::make(simplify(streams), row, op);
  }

  Stmt visit_nest(const For* op) {
    if (in_nest_) return IRMutator::visit(op);
    FindFunctions functions;
    op->accept(&functions);
    if (functions.found) return op;
    in_nest_ = true;
    Stmt result = IRMutator::visit(op);
    in_nest_ = false;
    return result;
  }

  /// False where a body does anything else.
  static bool collect_stores(const Stmt& body, std::vector<const Store*>& stores) {
    if (const auto* block = body.as<Block>())
      return collect_stores(block->first, stores) && collect_stores(block->rest, stores);
    stores.push_back(body.as<Store>());
    return stores.back() != nullptr;
  }

  bool suits(const Store& store, const For& loop) const {
    if (results_.count(store.name) == 0 || !is_const_one(store.predicate)) return false;
    if (ir::step_along(store.index, loop.name) != 1) return false;
    FindLanesApart lanes(loop.name);
    store.value.accept(&lanes);
    return !lanes.found;
  }

  /// Rows that are longer than the arrays.
  Stmt stream_parts(const For& loop, const std::vector<const Store*>& stores, int most) {
    const std::string part = loop.name + ".part";
    auto extent = as_const_int(loop.extent);
    Expr first = ir::make_variable(part) * most;
    Expr size = extent && *extent % most == 0 ? Expr(most) : min(Expr(most), loop.extent - first);
    Expr count = simplify((loop.extent + (most - 1)) / most);
    return ir::make_for(part, 0, count, ForType::Serial,
                        stream(loop, stores, loop.min + first, size, most));
  }

  /// The iterations from `first` on, through arrays of `most` elements.
  Stmt stream(const For& loop, const std::vector<const Store*>& stores, const Expr& first,
              const Expr& extent, int most) {
    const std::string lane = loop.name + ".streamed";
    const Expr at = first + ir::make_variable(lane);
    std::vector<Stmt> fills, copies;
    std::vector<std::pair<std::string, ir::Type>> arrays;
    for (const Store* store : stores) {
      const ir::Type type = store->value.type();
      arrays.emplace_back(concat(store->name, ".row", count_++), type);
      const std::string& array = arrays.back().first;
      fills.push_back(
          ir::make_store(array, ir::make_variable(lane), substitute(loop.name, at, store->value)));
      copies.push_back(copy(*store, substitute(loop.name, first, store->index), array,
                            Halide::cast<int64_t>(extent) * type.bytes()));
    }
    copies.insert(copies.begin(),
                  ir::make_for(lane, 0, extent, ForType::Vectorized, Block::make(fills)));
    Stmt result = Block::make(copies);
    for (const auto& [array, type] : arrays)
      result = Allocate::make(array, type, Halide::MemoryType::Stack, {most}, const_true(), result);
    return result;
  }

  /// From an array to a result's elements from `index` on.
  static Stmt copy(const Store& store, const Expr& index, const std::string& array,
                   const Expr& bytes) {
    return Evaluate::make(Call::make(Halide::Int(32), kCopyNontemporal,
                                     {ir::make_address(store.value.type(), store.name, index),
                                      ir::make_variable(array, Halide::Handle()), bytes},
                                     Call::Extern));
  }

  const std::map<std::string, int64_t>& results_;
  const int64_t least_bytes_;  ///< of a row
  int count_ = 0;
  bool in_nest_ = false;
};

}  // namespace

Stmt stream_rows(const Stmt& stmt, const std::map<std::string, int64_t>& results,
                 int64_t least_bytes) {
  if (results.empty()) return stmt;
  const std::set<std::string> loaded = ir::loaded_buffers(stmt);
  std::map<std::string, int64_t> unread;
  for (const auto& result : results)
    if (loaded.count(result.first) == 0) unread.insert(result);
  if (unread.empty()) return stmt;
  StreamRows pass(unread, least_bytes);
  Stmt streaming = pass.mutate(stmt);
  for (const std::string& name : pass.streamed) {
    Expr asked = Call::make(
        Halide::Int(32), kIsResident,
        {ir::make_variable(name, Halide::Handle()), make_const(Halide::Int(64), unread.at(name))},
        Call::Extern);
    streaming = LetStmt::make(StreamRows::flag(name), asked != 0, streaming);
  }
  return streaming;
}

std::set<std::string> streamed_buffers(const Stmt& stmt) {
  FindStreamed find;
  stmt.accept(&find);
  return find.names;
}

}  // namespace tc::codegen
