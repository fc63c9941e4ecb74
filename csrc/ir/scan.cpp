#include "ir/scan.h"

#include "ir/expressions/choices.h"

namespace tc::ir {
namespace {

constexpr char kScan[] = "tc.scan";

}  // namespace

Expr no_scale(const Scan& scan, Type type) { return scan.adds ? make_zero(type) : make_one(type); }

Expr scaled(const Scan& scan, const Expr& before, const Expr& scale) {
  const Expr after = scan.adds ? before + scale : before * scale;
  if (scan.reduction == Reduction::Sum) return after;
  const Expr identity = ir::identity(scan.reduction, before.type());
  return Halide::select(before == identity, identity, after);
}

Expr join_scales(const Scan& scan, const Expr& first, const Expr& second) {
  return scan.adds ? first + second : first * second;
}

Expr make_scan(const Scan& scan, const Expr& term) {
  const Expr always = scan.goes_on.defined() ? scan.goes_on : const_true();
  const Expr scale = scan.scale.defined() ? scan.scale : no_scale(scan, term.type());
  return Call::make(term.type(), kScan,
                    {term, static_cast<int>(scan.reduction), scan.position, scan.neighbour, always,
                     scale, static_cast<int>(scan.adds)},
                    Call::PureExtern);
}

std::optional<ScanTerm> find_scan(const Expr& value) {
  const auto* call = value.as<Call>();
  if (!call || call->name != kScan) return std::nullopt;
  ScanTerm found;
  found.term = call->args[0];
  found.scan.reduction = static_cast<Reduction>(*as_const_int(call->args[1]));
  found.scan.position = call->args[2];
  found.scan.neighbour = call->args[3];
  if (!is_const_one(call->args[4])) found.scan.goes_on = call->args[4];
  found.scan.adds = is_const_one(call->args[6]);
  if (!equal(call->args[5], no_scale(found.scan, call->type))) found.scan.scale = call->args[5];
  return found;
}

bool is_scan(const Statement& statement) { return find_scan(statement.value).has_value(); }

Expr scan_value(const Scan& scan, const Expr& term) {
  const Expr identity = ir::identity(scan.reduction, term.type());
  Expr before = scan.scale.defined() ? scaled(scan, scan.neighbour, scan.scale) : scan.neighbour;
  if (scan.goes_on.defined()) before = choose_lazily(scan.goes_on, before, identity);
  return combine(scan.reduction, choose_lazily(scan.position > 0, before, identity), term);
}

}  // namespace tc::ir
