#include "ir/loops.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

constexpr char kPrefetch[] = "llvm.prefetch.p0";

/// Buffers that a piece of IR reads and writes.
struct Touched : IRVisitor {
  std::set<std::string> loads, stores;
  using IRVisitor::visit;
  void visit(const Load* op) override {
    loads.insert(op->name);
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    stores.insert(op->name);
    IRVisitor::visit(op);
  }
};

class WidestElement : public IRVisitor {
 public:
  int bits = 0;

 private:
  using IRVisitor::visit;
  void visit(const Load* op) override {
    bits = std::max(bits, op->type.bits());
    IRVisitor::visit(op);
  }
  void visit(const Store* op) override {
    bits = std::max(bits, op->value.type().bits());
    IRVisitor::visit(op);
  }
};

}  // namespace

Stmt prepend(const For* loop, std::vector<Stmt> stmts) {
  if (stmts.empty()) return loop;
  stmts.push_back(loop->body);
  return make_for(loop->name, loop->min, loop->extent, loop->for_type, Block::make(stmts));
}

std::optional<int64_t> step_along(const Expr& index, const std::string& loop) {
  using namespace Halide::Internal;
  if (!expr_uses_var(index, loop)) return 0;
  return as_const_int(simplify(substitute(loop, make_variable(loop) + 1, index) - index));
}

Expr make_address(Type type, const std::string& buffer, const Expr& index) {
  Expr base = Halide::reinterpret(Halide::UInt(64), make_variable(buffer, Halide::Handle()));
  Expr offset = Halide::cast<uint64_t>(Halide::cast<int64_t>(index) * type.bytes());
  return Halide::reinterpret(Halide::Handle(), base + offset);
}

Stmt make_prefetch(Type type, const std::string& buffer, const Expr& index, int cache) {
  using namespace Halide::Internal;
  // Halide's own intrinsic asks without temporal locality: the line is gone from an Intel core's
  // caches before it is read (measured: sums of rows of a table 1.2 to 1.4 times slower). This one
  // is declared in every module of Halide's, with its name; the arguments are: to read it, how many
  // caches keep it, data.
  return Evaluate::make(Call::make(Halide::Int(32), kPrefetch,
                                   {make_address(type, buffer, index), 0, 4 - cache, 1},
                                   Call::Extern));
}

bool is_prefetch(const Stmt& stmt) {
  const auto* evaluated = stmt.as<Halide::Internal::Evaluate>();
  const auto* call = evaluated ? evaluated->value.as<Halide::Internal::Call>() : nullptr;
  return call && call->name == kPrefetch;
}

Expr likely_branch(const Expr& condition) {
  using namespace Halide::Internal;
  return Call::make(Halide::Bool(), "llvm.expect.i1", {condition, const_true()}, Call::PureExtern);
}

std::set<std::string> loaded_buffers(const Stmt& stmt) {
  Touched touched;
  stmt.accept(&touched);
  return touched.loads;
}

std::set<std::string> stored_buffers(const Stmt& stmt) {
  Touched touched;
  stmt.accept(&touched);
  return touched.stores;
}

bool has_load(const Expr& e) {
  class FindLoad : public Halide::Internal::IRVisitor {
   public:
    bool found = false;

   private:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Load*) override { found = true; }
  };
  FindLoad find;
  e.accept(&find);
  return find.found;
}

bool loads_itself(const Expr& e, const Halide::Internal::Store& store) {
  const auto* load = e.as<Halide::Internal::Load>();
  return load && load->name == store.name && Halide::Internal::equal(load->index, store.index);
}

int widest_element(const Stmt& stmt) {
  WidestElement widest;
  stmt.accept(&widest);
  return widest.bits;
}

}  // namespace tc::ir
