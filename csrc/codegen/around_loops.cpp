#include "codegen/around_loops.h"

#include <utility>

namespace tc::codegen {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;

void AroundLoops::enter(const For* loop) {
  enter({loop->name, loop->min, loop->extent, loop->for_type == ForType::Serial}, loop->min,
        loop->min + loop->extent - 1);
}

void AroundLoops::enter(const LetStmt* let) {
  enter({let->name, Expr(), Expr(), false}, let->value, let->value);
}

void AroundLoops::enter(AroundLoop loop, const Expr& first, const Expr& last) {
  bounds_.push(loop.name,
               {find_constant_bounds(first, bounds_).min, find_constant_bounds(last, bounds_).max});
  loops_.push_back(std::move(loop));
}

void AroundLoops::leave() {
  bounds_.pop(loops_.back().name);
  loops_.pop_back();
}

std::optional<int64_t> AroundLoops::least(const Expr& value) const {
  Expr bound = find_constant_bound(value, Direction::Lower, bounds_);
  return bound.defined() ? as_const_int(bound) : std::nullopt;
}

std::optional<int64_t> AroundLoops::most(const Expr& value) const {
  Expr bound = find_constant_bound(value, Direction::Upper, bounds_);
  return bound.defined() ? as_const_int(bound) : std::nullopt;
}

Stmt InnermostLoops::visit(const LetStmt* op) {
  around_.enter(op);
  Stmt result = IRMutator::visit(op);
  around_.leave();
  return result;
}

Stmt InnermostLoops::visit(const Allocate* op) {
  const bool local = op->memory_type == Halide::MemoryType::Stack;
  tiles_ += local;
  Stmt result = IRMutator::visit(op);
  tiles_ -= local;
  return result;
}

Stmt InnermostLoops::visit(const For* op) {
  const bool serial = op->for_type == ForType::Serial;
  const int64_t serial_before = serial_loops_;
  around_.enter(op);
  Stmt result = IRMutator::visit(op);
  if (serial && serial_loops_ == serial_before) result = visit_innermost(op);
  if (serial) ++serial_loops_;
  around_.leave();
  return result;
}

}  // namespace tc::codegen
