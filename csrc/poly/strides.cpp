#include "poly/strides.h"

#include "base/error.h"

namespace tc::poly {
namespace {

using Halide::Internal::Call;

class CollectAccesses : public Halide::Internal::IRVisitor {
 public:
  explicit CollectAccesses(const ir::Program& program) : program_(program) {}
  std::vector<MemoryAccess> found;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    IRVisitor::visit(op);
    std::string name = ir::read_name(op);
    if (!name.empty() && program_.tensors.count(name)) found.push_back({name, op->args, false});
  }
  const ir::Program& program_;
};

}  // namespace

std::vector<MemoryAccess> accesses(const ir::Program& program, const ir::Statement& statement) {
  CollectAccesses collect(program);
  statement.value.accept(&collect);
  if (statement.guard.defined()) statement.guard.accept(&collect);
  collect.found.push_back({statement.tensor, statement.subscripts, true});
  return collect.found;
}

std::optional<int64_t> step_along(const ir::Expr& subscript, const std::string& iterator) {
  if (!Halide::Internal::expr_uses_var(subscript, iterator)) return 0;
  ir::Expr i = ir::make_variable(iterator);
  ir::Expr step = Halide::Internal::simplify(
      Halide::Internal::substitute(iterator, i + 1, subscript) - subscript);
  return Halide::Internal::as_const_int(step);
}

std::optional<int64_t> stride_along(const MemoryAccess& access, const Layout& layout,
                                    const std::string& iterator) {
  int64_t stride = 0;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    auto step = step_along(access.subscripts[d], iterator);
    if (!step) return std::nullopt;
    stride += *step * layout.strides[d];
  }
  return stride;
}

}  // namespace tc::poly
