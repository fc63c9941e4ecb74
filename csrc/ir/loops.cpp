#include "ir/loops.h"

#include <set>
#include <string>

#include "ir/expressions/simplify.h"
#include "ir/visit.h"

namespace tc::ir {

std::optional<int64_t> step_along(const Expr& index, const std::string& loop) {
  // Most subscripts are an index alone.
  if (const auto* variable = index.as<Variable>()) return variable->name == loop ? 1 : 0;
  if (!expr_uses_var(index, loop)) return 0;
  return as_const_int(
      simplify_integers(substitute(loop, make_variable(loop) + 1, index) - index, {}));
}

Expr make_address(Type type, const std::string& buffer, const Expr& index) {
  Expr base = Halide::reinterpret(Halide::UInt(64), make_variable(buffer, Halide::Handle()));
  Expr offset = Halide::cast<uint64_t>(Halide::cast<int64_t>(index) * type.bytes());
  return Halide::reinterpret(Halide::Handle(), base + offset);
}

Stmt make_prefetch(Type type, const std::string& buffer, const Expr& index, int cache) {
  // Halide's own intrinsic asks without temporal locality: the line is gone from an Intel core's
  // caches before it is read (measured: sums of rows of a table 1.2 to 1.4 times slower). This one
  // is declared in every module of Halide's, with its name; the arguments are: to read it, how many
  // caches keep it, data.
  return Evaluate::make(Call::make(Halide::Int(32), "llvm.prefetch.p0",
                                   {make_address(type, buffer, index), 0, 4 - cache, 1},
                                   Call::Extern));
}

Expr likely_branch(const Expr& condition) {
  return Call::make(Halide::Bool(), "llvm.expect.i1", {condition, const_true()}, Call::PureExtern);
}

std::set<std::string> stored_buffers(const Stmt& stmt) {
  std::set<std::string> names;
  for_each<Store>(stmt, [&](const Store* op) { names.insert(op->name); });
  return names;
}

std::set<std::string> used_buffers(const Stmt& stmt) {
  std::set<std::string> names = stored_buffers(stmt);
  for_each<Load>(stmt, [&](const Load* op) { names.insert(op->name); });
  return names;
}

bool has_load(const Expr& e) { return any<Load>(e); }

}  // namespace tc::ir
