#include "poly/index_sets.h"

#include <algorithm>

#include "base/error.h"
#include "ir/expressions/choices.h"

namespace tc::poly {

using namespace Halide::Internal;
using ir::Expr;

namespace {

// A choice: parts of the points where a condition holds. It bounds what isl works, which no model
// of the processor knows.
constexpr unsigned kMostParts = 64;

isl::set points_of(isl::ctx ctx, const std::vector<ir::Iterator>& indices, bool bounded,
                   const std::string& tuple) {
  isl_space* space = isl_space_set_alloc(ctx.get(), 0, static_cast<unsigned>(indices.size()));
  if (!tuple.empty()) space = isl_space_set_tuple_name(space, isl_dim_set, tuple.c_str());
  isl_set* points = isl_set_universe(space);
  for (size_t d = 0; bounded && d < indices.size(); ++d) {
    auto low = as_const_int(indices[d].min), extent = as_const_int(indices[d].extent);
    TC_INTERNAL_CHECK(low && extent, "the range of ", indices[d].name, " is not constant");
    const auto position = static_cast<unsigned>(d);
    // Not by isl_set_lower_bound_si: the opposite of the least int is none.
    const auto number = [&](int64_t value) { return isl_val_int_from_si(ctx.get(), value); };
    points = isl_set_lower_bound_val(points, isl_dim_set, position, number(*low));
    points = isl_set_upper_bound_val(points, isl_dim_set, position, number(*low + *extent - 1));
  }
  return isl::manage(points);
}

std::vector<std::string> names_of(const std::vector<ir::Iterator>& indices) {
  std::vector<std::string> names;
  for (const ir::Iterator& it : indices) names.push_back(it.name);
  return names;
}

bool fits(const isl::pw_aff& value, const Halide::Type& type) {
  const isl::val low = value.min_val(), high = value.max_val();
  // Unsigned 64 bits are nobody's.
  return low.is_int() && high.is_int() && type.bits() + type.is_uint() <= 64 &&
         low.ge(type.is_uint() ? 0 : *as_const_int(type.min())) &&
         high.le(type.is_uint() ? (int64_t{1} << type.bits()) - 1 : *as_const_int(type.max()));
}

/// Of the function on any piece.
int count_quotients(const isl::pw_aff& value) {
  int most = 0;
  auto count = [](isl_set* piece, isl_aff* function, void* result) {
    int& most = *static_cast<int*>(result);
    most = std::max(most, isl_aff_dim(function, isl_dim_div));
    isl_set_free(piece);
    isl_aff_free(function);
    return isl_stat_ok;
  };
  isl_pw_aff_foreach_piece(value.get(), count, &most);
  return most;
}

}  // namespace

IndexSets::IndexSets(isl::ctx ctx, const std::vector<ir::Iterator>& indices, bool bounded,
                     const std::string& tuple)
    : IndexSets(points_of(ctx, indices, bounded, tuple), names_of(indices)) {}

IndexSets::IndexSets(isl::set points, const std::vector<std::string>& names)
    : points_(std::move(points)) {
  for (size_t d = 0; d < names.size(); ++d) {
    isl_local_space* space = isl_local_space_from_space(points_.space().release());
    const isl::pw_aff everywhere =
        isl::manage(isl_pw_aff_var_on_domain(space, isl_dim_set, static_cast<unsigned>(d)));
    indices_[names[d]] = everywhere.intersect_domain(points_);
  }
}

void IndexSets::restrict_to(const isl::set& points) {
  known_.clear();
  points_ = points_.intersect(points);
  for (auto& [name, index] : indices_) index = index.intersect_domain(points_);
}

isl::pw_aff IndexSets::constant(int64_t value) const {
  return isl::manage(isl_pw_aff_val_on_domain(
      points_.copy(), isl_val_int_from_si(points_.ctx().get(), static_cast<long>(value))));
}

std::optional<isl::pw_aff> IndexSets::value(const Expr& e) const {
  if (!ir::find_choice(e) && !e.as<Min>() && !e.as<Max>()) return find_value(e);
  auto known = known_.find(e);
  if (known == known_.end()) known = known_.emplace(e, find_value(e)).first;
  return known->second;
}

std::optional<isl::pw_aff> IndexSets::find_value(const Expr& e) const {
  if (auto number = as_const_int(e)) return constant(*number);
  if (auto number = as_const_uint(e); number && e.type().bits() <= 32)
    return constant(static_cast<int64_t>(*number));
  if (const auto* op = e.as<Variable>()) {
    auto found = indices_.find(op->name);
    return found == indices_.end() ? std::nullopt : std::optional<isl::pw_aff>(found->second);
  }
  if (const auto* op = e.as<Cast>()) return cast(op);
  if (e.type().bits() < 32) return std::nullopt;
  const auto both = [&](const Expr& a, const Expr& b, auto make) -> std::optional<isl::pw_aff> {
    auto x = value(a), y = value(b);
    if (!x || !y) return std::nullopt;
    return in_few_pieces(make(*x, *y));
  };
  using F = isl::pw_aff;
  if (const auto* op = e.as<Add>()) return both(op->a, op->b, [](F a, F b) { return a.add(b); });
  if (const auto* op = e.as<Sub>()) return both(op->a, op->b, [](F a, F b) { return a.sub(b); });
  if (const auto* op = e.as<Mul>()) {
    if (!is_const(op->a) && !is_const(op->b)) return std::nullopt;
    return both(op->a, op->b, [](F a, F b) { return a.mul(b); });
  }
  if (const std::optional<ir::Choice> choice = ir::find_choice(e)) {
    const std::optional<isl::set> yes = where(choice->condition);
    if (!yes) return std::nullopt;
    return both(choice->yes, choice->no, [&](F a, F b) {
      return a.intersect_domain(*yes).union_add(b.subtract_domain(*yes));
    });
  }
  if (!e.type().is_int()) return std::nullopt;
  if (const auto* op = e.as<Min>()) return both(op->a, op->b, [](F a, F b) { return a.min(b); });
  if (const auto* op = e.as<Max>()) return both(op->a, op->b, [](F a, F b) { return a.max(b); });
  if (const auto* op = e.as<Div>()) return quotient(op->a, op->b, false, true);
  if (const auto* op = e.as<Mod>()) return quotient(op->a, op->b, true, true);
  if (const auto* op = e.as<Call>(); op && op->is_intrinsic(Call::div_round_to_zero))
    return quotient(op->args[0], op->args[1], false, false);
  if (const auto* op = e.as<Call>(); op && op->is_intrinsic(Call::mod_round_to_zero))
    return quotient(op->args[0], op->args[1], true, false);
  return std::nullopt;
}

bool IndexSets::is_simple(const isl::set& points) const {
  int most = 0;
  auto count = [](isl_basic_set* part, void* result) {
    int& most = *static_cast<int*>(result);
    most = std::max(most, isl_basic_set_dim(part, isl_dim_div));
    isl_basic_set_free(part);
    return isl_stat_ok;
  };
  isl_set_foreach_basic_set(points.get(), count, &most);
  return points.n_basic_set() <= kMostParts && most <= most_quotients;
}

std::optional<isl::set> IndexSets::in_few_parts(isl::set points) const {
  if (!is_simple(points)) return std::nullopt;
  return points;
}

std::optional<isl::pw_aff> IndexSets::in_few_pieces(isl::pw_aff value) const {
  if (value.n_piece() > most_pieces || count_quotients(value) > most_quotients) return std::nullopt;
  return value;
}

std::optional<isl::pw_aff> IndexSets::cast(const Cast* op) const {
  const Halide::Type to = op->type, from = op->value.type();
  if (!(to.is_int() || to.is_uint()) || !(from.is_int() || from.is_uint()) || from.is_bool() ||
      to.is_bool())
    return std::nullopt;
  const std::optional<isl::pw_aff> given = value(op->value);
  if (!given) return std::nullopt;
  // What is unsigned stands for all numbers with these bits until the bits around it count.
  const bool widens = from.is_uint() && to.bits() > from.bits();
  const bool narrows = to.is_int() && (from.is_uint() || to.bits() < from.bits());
  if ((widens && !fits(*given, from)) || (narrows && !fits(*given, to))) return std::nullopt;
  return given;
}

std::optional<isl::pw_aff> IndexSets::quotient(const Expr& a, const Expr& b, bool remainder,
                                               bool down) const {
  const std::optional<isl::pw_aff> x = value(a);
  const std::optional<int64_t> by = as_const_int(b);
  if (!x || !by || *by <= 0) return std::nullopt;
  const auto divisor = static_cast<long>(*by);
  // Where nothing is negative, every rounding is that of isl's.
  if (down || !x->min_val().is_neg())
    return remainder ? x->mod(divisor) : x->scale_down(divisor).floor();
  return in_few_pieces(remainder ? x->tdiv_r(constant(*by)) : x->tdiv_q(constant(*by)));
}

std::optional<isl::set> IndexSets::where(const Expr& e) const {
  using Set = std::optional<isl::set>;
  const auto compare = [&](const auto* op, isl::set (isl::pw_aff::*set)(isl::pw_aff) const) -> Set {
    if (!op->a.type().is_int()) return std::nullopt;
    auto a = value(op->a), b = value(op->b);
    if (!a || !b) return std::nullopt;
    return in_few_parts(((*a).*set)(*b));
  };
  const auto where_either = [&](const Set& condition, const Expr& yes, const Expr& no) -> Set {
    auto a = where(yes), b = where(no);
    if (!condition || !a || !b) return std::nullopt;
    return in_few_parts(condition->intersect(*a).unite(b->subtract(*condition)));
  };
  if (is_const_one(e)) return points_;
  if (is_const_zero(e)) return points_.subtract(points_);
  if (const auto* op = e.as<EQ>()) return compare(op, &isl::pw_aff::eq_set);
  if (const auto* op = e.as<NE>()) return compare(op, &isl::pw_aff::ne_set);
  if (const auto* op = e.as<LT>()) return compare(op, &isl::pw_aff::lt_set);
  if (const auto* op = e.as<LE>()) return compare(op, &isl::pw_aff::le_set);
  if (const auto* op = e.as<GT>()) return compare(op, &isl::pw_aff::gt_set);
  if (const auto* op = e.as<GE>()) return compare(op, &isl::pw_aff::ge_set);
  if (const auto* op = e.as<And>()) return where_either(where(op->a), op->b, const_false());
  if (const auto* op = e.as<Or>()) return where_either(where(op->a), const_true(), op->b);
  if (const auto* op = e.as<Not>()) return where_either(where(op->a), const_false(), const_true());
  if (const std::optional<ir::Choice> choice = ir::find_choice(e); choice && e.type().is_bool())
    return where_either(where(choice->condition), choice->yes, choice->no);
  return std::nullopt;
}

std::optional<isl::set> IndexSets::inside(const Expr& index, int64_t size) const {
  const std::optional<isl::pw_aff> place = value(index);
  if (!place) return std::nullopt;
  return place->ge_set(constant(0)).intersect(place->lt_set(constant(size)));
}

}  // namespace tc::poly
