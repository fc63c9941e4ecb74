#include "ir/expressions/walk.h"

namespace tc::ir {
namespace {

/// Shared parts are visited once for every use.
class Walk : public IRGraphVisitor {
 public:
  explicit Walk(const std::function<bool(const Expr&)>& enter) : enter_(enter) {}
  void include(const Expr& e) override {
    if (enter_(e)) e.accept(this);
  }

 private:
  const std::function<bool(const Expr&)>& enter_;
};

class Rewrite : public IRGraphMutator {
 public:
  explicit Rewrite(const std::function<Expr(const Expr&)>& replace) : replace_(replace) {}
  using IRMutator::mutate;
  Expr mutate(const Expr& e) override {
    Expr replaced = replace_(e);
    return replaced.defined() ? replaced : IRGraphMutator::mutate(e);
  }

 private:
  const std::function<Expr(const Expr&)>& replace_;
};

}  // namespace

void walk(const Expr& e, const std::function<bool(const Expr&)>& enter) { Walk(enter).include(e); }

Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& replace) {
  return Rewrite(replace).mutate(e);
}

}  // namespace tc::ir
