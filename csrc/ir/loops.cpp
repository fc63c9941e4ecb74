#include "ir/loops.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "base/error.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

constexpr char kPrefetch[] = "llvm.prefetch.p0";

class Collapse : public IRMutator {
 public:
  explicit Collapse(ForType type) : type_(type) {}

 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    Stmt body = mutate(op->body);
    auto same = [&]() -> Stmt {
      return body.same_as(op->body) ? Stmt(op)
                                    : make_for(op->name, op->min, op->extent, op->for_type, body);
    };
    const For* inner = body.as<For>();
    if (op->for_type != type_ || !inner || inner->for_type != type_) return same();
    auto outer_extent = as_const_int(op->extent), inner_extent = as_const_int(inner->extent);
    if (!outer_extent || !inner_extent || expr_uses_var(inner->min, op->name) ||
        *outer_extent * *inner_extent > std::numeric_limits<int32_t>::max())
      return same();
    std::string name = op->name + "." + inner->name;
    Expr both = make_variable(name);
    Expr outer_value = op->min + both / inner->extent;
    Expr inner_value = inner->min + both % inner->extent;
    Stmt collapsed = LetStmt::make(op->name, simplify(outer_value),
                                   LetStmt::make(inner->name, simplify(inner_value), inner->body));
    return make_for(name, 0, static_cast<int>(*outer_extent * *inner_extent), type_, collapsed);
  }

  const ForType type_;
};

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

class HoistConditions : public IRMutator {
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    Stmt body = mutate(op->body);
    const auto* branch = body.as<IfThenElse>();
    bool serial = op->for_type == ForType::Serial || op->for_type == ForType::Vectorized ||
                  op->for_type == ForType::Unrolled;
    if (serial && branch && !branch->else_case.defined() &&
        !expr_uses_var(branch->condition, op->name)) {
      Touched condition, then;
      branch->condition.accept(&condition);
      branch->then_case.accept(&then);
      bool written = std::any_of(condition.loads.begin(), condition.loads.end(),
                                 [&](const std::string& name) { return then.stores.count(name); });
      if (!condition.loads.empty() && !written)
        return IfThenElse::make(branch->condition, make_for(op->name, op->min, op->extent,
                                                            op->for_type, branch->then_case));
    }
    if (body.same_as(op->body)) return op;
    return make_for(op->name, op->min, op->extent, op->for_type, body);
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

Stmt collapse_loops(const Stmt& stmt, ForType type) { return Collapse(type).mutate(stmt); }

Stmt hoist_conditions(const Stmt& stmt) { return HoistConditions().mutate(stmt); }

Stmt join_loops(const Stmt& first, const Stmt& second, size_t count) {
  if (count == 0) return Block::make(first, second);
  const For *a = first.as<For>(), *b = second.as<For>();
  TC_INTERNAL_CHECK(
      a && b && a->for_type == b->for_type && equal(a->min, b->min) && equal(a->extent, b->extent),
      "loops to be joined differ");
  Stmt body = b->name == a->name ? b->body : substitute(b->name, make_variable(a->name), b->body);
  return make_for(a->name, a->min, a->extent, a->for_type, join_loops(a->body, body, count - 1));
}

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
