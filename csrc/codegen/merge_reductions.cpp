#include "codegen/merge_reductions.h"

#include <limits>
#include <string>

#include "codegen/point_vectors.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

/// Whether all uses of the two iterators are indices that walk through both loops as through one.
class CheckIndices : public IRVisitor {
 public:
  CheckIndices(const For* outer, const For* inner, int64_t extent)
      : outer_(outer->name), inner_(inner->name), extent_(extent) {}
  bool regular = true;

 private:
  using IRVisitor::visit;
  void visit(const Variable* op) override {
    if (op->name == outer_ || op->name == inner_) regular = false;
  }
  void visit(const Load* op) override {
    check(op->index);
    op->predicate.accept(this);
  }
  void visit(const Store* op) override {
    check(op->index);
    op->value.accept(this);
    op->predicate.accept(this);
  }
  void check(const Expr& index) {
    auto outer = ir::step_along(index, outer_), inner = ir::step_along(index, inner_);
    if (outer && inner && *outer == *inner * extent_) return;
    // Data that the index reads may be walked through as one all the same.
    index.accept(this);
  }

  const std::string outer_, inner_;
  const int64_t extent_;
};

class MergeReductions : public IRMutator {
 private:
  using IRMutator::visit;
  Stmt visit(const For* op) override {
    Stmt body = mutate(op->body);
    const auto* inner = body.as<For>();
    if (inner && op->for_type == ForType::Serial && inner->for_type == ForType::Serial &&
        !is_point_loop(op->name) && !is_point_loop(inner->name) &&
        !expr_uses_var(inner->min, op->name)) {
      auto length = as_const_int(op->extent), extent = as_const_int(inner->extent);
      CheckIndices check(op, inner, extent.value_or(1));
      check.regular = length && extent && *length * *extent <= std::numeric_limits<int32_t>::max();
      if (check.regular) inner->body.accept(&check);
      if (check.regular)
        return ir::make_for(inner->name, inner->min, static_cast<int>(*length * *extent),
                            ForType::Serial, substitute(op->name, op->min, inner->body));
    }
    return ir::make_for(op->name, op->min, op->extent, op->for_type, body);
  }
};

}  // namespace

Stmt merge_reductions(const Stmt& body) { return MergeReductions().mutate(body); }

}  // namespace tc::codegen
