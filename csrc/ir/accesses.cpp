#include "ir/accesses.h"

#include <algorithm>

#include "base/error.h"
#include "base/notes.h"
#include "ir/loops.h"
#include "ir/scan.h"

namespace tc::ir {

namespace {

class CollectAccesses : public IRVisitor {
 public:
  CollectAccesses(const Program& program, bool conditional)
      : program_(program), conditional_(conditional) {}
  std::vector<MemoryAccess> found;

 private:
  using IRVisitor::visit;
  void visit(const Call* op) override {
    if (auto scan = find_scan(op)) return scan_value(scan->scan, scan->term).accept(this);
    if (op->is_intrinsic(Call::if_then_else)) {
      op->args[0].accept(this);
      visit_choices({op->args.begin() + 1, op->args.end()});
    } else {
      IRVisitor::visit(op);
    }
    std::string name = read_name(op);
    if (!name.empty() && program_.tensors.count(name))
      found.push_back({name, op->args, false, conditional_});
  }
  void visit(const Select* op) override {
    op->condition.accept(this);
    visit_choices({op->true_value, op->false_value});
  }
  void visit_choices(const std::vector<Expr>& choices) {
    bool outer = conditional_;
    conditional_ = true;
    for (const Expr& choice : choices) choice.accept(this);
    conditional_ = outer;
  }
  const Program& program_;
  bool conditional_;
};

}  // namespace

std::vector<MemoryAccess> accesses(const Program& program, const Statement& statement) {
  CollectAccesses value(program, statement.guard.defined());
  statement.value.accept(&value);
  std::vector<MemoryAccess> found = value.found;
  if (statement.guard.defined()) {
    CollectAccesses guard(program, false);
    statement.guard.accept(&guard);
    found.insert(found.end(), guard.found.begin(), guard.found.end());
  }
  CollectAccesses places(program, statement.guard.defined());
  for (const Expr& subscript : statement.subscripts) subscript.accept(&places);
  found.insert(found.end(), places.found.begin(), places.found.end());
  found.push_back({statement.tensor, statement.subscripts, true, false});
  return found;
}

bool same_element(const MemoryAccess& a, const MemoryAccess& b) {
  return a.tensor == b.tensor &&
         std::equal(a.subscripts.begin(), a.subscripts.end(), b.subscripts.begin(),
                    b.subscripts.end(), [](const Expr& x, const Expr& y) { return equal(x, y); });
}

std::string access_text(const MemoryAccess& access) {
  std::vector<std::string> subscripts;
  for (const Expr& subscript : access.subscripts) subscripts.push_back(plain_text(subscript));
  return concat(access.tensor, "(", join(subscripts), ")");
}

bool is_gather(const MemoryAccess& access, const Program& program) {
  CollectAccesses places(program, false);
  for (const Expr& subscript : access.subscripts) subscript.accept(&places);
  return !places.found.empty();
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

}  // namespace tc::ir
