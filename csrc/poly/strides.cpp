#include "poly/strides.h"

#include "base/error.h"
#include "ir/loops.h"

namespace tc::poly {
namespace {

using Halide::Internal::Call;

class CollectAccesses : public Halide::Internal::IRVisitor {
 public:
  CollectAccesses(const ir::Program& program, bool conditional)
      : program_(program), conditional_(conditional) {}
  std::vector<MemoryAccess> found;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else)) {
      op->args[0].accept(this);
      visit_choices({op->args.begin() + 1, op->args.end()});
    } else {
      IRVisitor::visit(op);
    }
    std::string name = ir::read_name(op);
    if (!name.empty() && program_.tensors.count(name))
      found.push_back({name, op->args, false, conditional_});
  }
  void visit(const Halide::Internal::Select* op) override {
    op->condition.accept(this);
    visit_choices({op->true_value, op->false_value});
  }
  void visit_choices(const std::vector<ir::Expr>& choices) {
    bool outer = conditional_;
    conditional_ = true;
    for (const ir::Expr& choice : choices) choice.accept(this);
    conditional_ = outer;
  }
  const ir::Program& program_;
  bool conditional_;
};

}  // namespace

std::vector<MemoryAccess> accesses(const ir::Program& program, const ir::Statement& statement) {
  CollectAccesses value(program, statement.guard.defined());
  statement.value.accept(&value);
  std::vector<MemoryAccess> found = value.found;
  if (statement.guard.defined()) {
    CollectAccesses guard(program, false);
    statement.guard.accept(&guard);
    found.insert(found.end(), guard.found.begin(), guard.found.end());
  }
  CollectAccesses places(program, statement.guard.defined());
  for (const ir::Expr& subscript : statement.subscripts) subscript.accept(&places);
  found.insert(found.end(), places.found.begin(), places.found.end());
  found.push_back({statement.tensor, statement.subscripts, true, false});
  return found;
}

bool is_gather(const MemoryAccess& access, const ir::Program& program) {
  CollectAccesses places(program, false);
  for (const ir::Expr& subscript : access.subscripts) subscript.accept(&places);
  return !places.found.empty();
}

std::optional<int64_t> stride_along(const MemoryAccess& access, const Layout& layout,
                                    const std::string& iterator) {
  int64_t stride = 0;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    auto step = ir::step_along(access.subscripts[d], iterator);
    if (!step) return std::nullopt;
    stride += *step * layout.strides[d];
  }
  return stride;
}

}  // namespace tc::poly
