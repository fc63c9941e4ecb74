// Innermost loops, and the loops around them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/halide.h"

namespace tc::codegen {

/// A loop around a statement, or a name that is computed from one.
struct AroundLoop {
  std::string name;
  ir::Expr min, extent;  ///< undefined for a name
  bool serial = false;
};

/// The loops around the statement that a pass visits, outermost first, and what their iterators and
/// the names computed from these can be.
class AroundLoops {
 public:
  void enter(const Halide::Internal::For* loop);
  void enter(const Halide::Internal::LetStmt* let);
  void leave();

  const std::vector<AroundLoop>& loops() const { return loops_; }
  /// Nothing where no bound is known.
  std::optional<int64_t> least(const ir::Expr& value) const;
  std::optional<int64_t> most(const ir::Expr& value) const;

 private:
  void enter(AroundLoop loop, const ir::Expr& first, const ir::Expr& last);

  std::vector<AroundLoop> loops_;
  Halide::Internal::Scope<Halide::Internal::Interval> bounds_;
};

/// A pass over serial loops without other serial loops inside.
class InnermostLoops : public Halide::Internal::IRMutator {
 protected:
  using Halide::Internal::IRMutator::visit;
  ir::Stmt visit(const Halide::Internal::LetStmt* op) override;
  ir::Stmt visit(const Halide::Internal::Allocate* op) override;
  ir::Stmt visit(const Halide::Internal::For* op) override;

  /// The loop in its new form; it is the last one of `around_`.
  virtual ir::Stmt visit_innermost(const Halide::Internal::For* op) const = 0;

  /// Whether the visited statement belongs to a register tile, whose results are a local array.
  bool in_tile() const { return tiles_ > 0; }

  AroundLoops around_;

 private:
  int64_t serial_loops_ = 0;  ///< left so far
  int tiles_ = 0;             ///< around the visited statement
};

}  // namespace tc::codegen
