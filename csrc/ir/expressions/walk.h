// Walks over expressions by plain functions.
#pragma once

#include "ir/halide.h"

namespace tc::ir {

/// The expression and its parts, those around others first, shared ones once for every use. `enter`
/// says whether to go on into the parts of what it is given.
template <class Enter>
void walk(const Expr& e, const Enter& enter) {
  struct Walk : IRGraphVisitor {
    explicit Walk(const Enter& enter) : enter(enter) {}
    void include(const Expr& part) override {
      if (enter(part)) part.accept(this);
    }
    const Enter& enter;
  };
  Walk(enter).include(e);
}

/// The expression with parts replaced: from the outside in, by what `replace` makes of one, or,
/// where that is undefined, of its parts. Into parts that are shared it goes once.
template <class Replace>
Expr rewrite(const Expr& e, const Replace& replace) {
  struct Rewrite : IRGraphMutator {
    explicit Rewrite(const Replace& replace) : replace(replace) {}
    using IRMutator::mutate;
    Expr mutate(const Expr& part) override {
      const Expr replaced = replace(part);
      return replaced.defined() ? replaced : IRGraphMutator::mutate(part);
    }
    const Replace& replace;
  };
  return Rewrite(replace).mutate(e);
}

}  // namespace tc::ir
