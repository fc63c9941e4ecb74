#include "ir/scan.h"

#include "ir/expressions/choices.h"

namespace tc::ir {
namespace {

template <class Operation>
bool split(const Expr& e, Expr& before, Expr& term) {
  const auto* op = e.as<Operation>();
  if (op) before = op->a, term = op->b;
  return op != nullptr;
}

/// Of position > 0, also where the simplifier turned it around. Undefined for anything else.
Expr position_of(const Expr& condition) {
  using namespace Halide::Internal;
  if (const auto* op = condition.as<GT>()) return is_const_zero(op->b) ? op->a : Expr();
  const auto* op = condition.as<LT>();
  return op && is_const_zero(op->a) ? op->b : Expr();
}

}  // namespace

Expr scan_value(const Scan& scan, const Expr& term) {
  const Expr identity = ir::identity(scan.reduction, term.type());
  Expr before = scan.scale.defined() ? scan.neighbour * scan.scale : scan.neighbour;
  if (scan.goes_on.defined()) before = choose_lazily(scan.goes_on, before, identity);
  return combine(scan.reduction, choose_lazily(scan.position > 0, before, identity), term);
}

std::optional<ScanTerm> split_scan(const Expr& value) {
  using namespace Halide::Internal;
  ScanTerm made;
  Scan& scan = made.scan;
  Expr before;
  if (split<Add>(value, before, made.term))
    scan.reduction = Reduction::Sum;
  else if (split<Mul>(value, before, made.term))
    scan.reduction = Reduction::Product;
  else if (split<Min>(value, before, made.term))
    scan.reduction = Reduction::Min;
  else if (split<Max>(value, before, made.term))
    scan.reduction = Reduction::Max;
  else
    return std::nullopt;
  const auto choice = find_choice(before);
  if (!choice) return std::nullopt;
  scan.position = position_of(choice->condition);
  scan.neighbour = choice->yes;
  if (!scan.position.defined()) return std::nullopt;
  if (const auto segment = find_choice(scan.neighbour)) {
    scan.goes_on = segment->condition;
    scan.neighbour = segment->yes;
  }
  const auto* scaled = scan.neighbour.as<Mul>();
  if (scaled && scan.reduction == Reduction::Sum) {
    scan.scale = scaled->b;
    scan.neighbour = scaled->a;
  }
  const bool reads = scan.neighbour.as<Load>() || scan.neighbour.as<Call>();
  return reads ? std::optional(made) : std::nullopt;
}

}  // namespace tc::ir
