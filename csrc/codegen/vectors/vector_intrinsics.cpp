#include "codegen/vectors/vector_intrinsics.h"

#include "codegen/names.h"
#include "codegen/vectors/guarded_loads.h"
#include "ir/expressions/choices.h"

namespace tc::codegen {
namespace {

class FindVectors : public IRGraphVisitor {
 public:
  bool found = false;

 private:
  using IRGraphVisitor::include;
  void include(const Expr& e) override {
    found = found || e.type().is_vector();
    if (!found) IRGraphVisitor::include(e);
  }
};

template <class Tree>
Tree find_with_names(const Tree& tree) {
  FindVectors vectors;
  tree.accept(&vectors);
  return vectors.found ? find_intrinsics(common_subexpression_elimination(tree)) : tree;
}

}  // namespace

Stmt find_vector_intrinsics(const Stmt& stmt) {
  FindVectors vectors;
  stmt.accept(&vectors);
  if (!vectors.found) return stmt;
  if (!ir::has_lazy_choice(stmt)) return find_intrinsics(stmt);
  return around_choices(
      stmt, [](const Stmt& all) { return find_with_names(all); },
      [](const Expr& part) { return find_with_names(part); });
}

}  // namespace tc::codegen
