#include "rewrite/scans/prefix_reductions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "rewrite/domains/inside.h"
#include "rewrite/scans/scaled_terms.h"

namespace tc::ir {

namespace {

/// Integers from the least to the most, as floats or as themselves.
struct Integers {
  int64_t least, most;
};

/// Those that a type has, each with its neighbours.
std::optional<Integers> integers_of(Type type) {
  if (type.is_float()) {
    const int digits = type.is_bfloat()    ? std::numeric_limits<uint8_t>::digits
                       : type.bits() == 16 ? 11
                       : type.bits() == 32 ? std::numeric_limits<float>::digits
                                           : std::numeric_limits<double>::digits;
    return Integers{-(int64_t{1} << digits), int64_t{1} << digits};
  }
  if (type.is_uint() && type.bits() == 64) return Integers{0, std::numeric_limits<int64_t>::max()};
  const auto least = as_const_int(simplify(Halide::cast(Halide::Int(64), type.min()))),
             most = as_const_int(simplify(Halide::cast(Halide::Int(64), type.max())));
  return least && most ? std::optional(Integers{*least, *most}) : std::nullopt;
}

/// What a term can be; nothing where it may be no integer, or none of 64 bits.
std::optional<Integers> integers_of(const Expr& e) {
  if (auto choice = find_choice(e)) {
    const std::optional<Integers> yes = integers_of(choice->yes), no = integers_of(choice->no);
    if (!yes || !no) return std::nullopt;
    return Integers{std::min(yes->least, no->least), std::max(yes->most, no->most)};
  }
  const auto* cast = e.as<Cast>();
  if (e.type().is_float()) {
    if (cast && !cast->value.type().is_float()) return integers_of(cast->value);
    const auto number = as_const_float(e);
    const std::optional<Integers> exact = integers_of(Halide::Float(64));
    if (!number || std::trunc(*number) != *number || !(std::abs(*number) <= exact->most))
      return std::nullopt;
    return Integers{static_cast<int64_t>(*number), static_cast<int64_t>(*number)};
  }
  auto bound = [&](Direction direction) {
    const Expr limit = find_constant_bound(e, direction);
    return limit.defined() ? as_const_int(simplify(Halide::cast(Halide::Int(64), limit)))
                           : std::nullopt;
  };
  const auto least = bound(Direction::Lower), most = bound(Direction::Upper);
  return least && most ? std::optional(Integers{*least, *most}) : std::nullopt;
}

/// Whether sums of so many of these terms only grow, or only fall: terms are integers of one sign,
/// and sums do not wrap around, nor are rounded.
bool is_one_way(const Expr& term, int64_t terms) {
  const std::optional<Integers> values = integers_of(term), sums = integers_of(term.type());
  if (!values || !sums) return false;
  return (values->least >= 0 && values->most <= sums->most / terms) ||
         (values->most <= 0 && values->least >= sums->least / terms);
}

bool is_extreme(Reduction reduction) {
  return reduction == Reduction::Min || reduction == Reduction::Max;
}

bool uses_reduction(const Statement& statement, const Expr& e) {
  return std::any_of(statement.domain.begin(), statement.domain.end(),
                     [&](const Iterator& it) { return it.reduction && expr_uses_var(e, it.name); });
}

/// The dimension of the tensor written whose subscript is the index alone.
std::optional<size_t> dimension_of(const Statement& statement, const std::string& index) {
  for (size_t d = 0; d < statement.subscripts.size(); ++d)
    if (is_variable(statement.subscripts[d], index)) return d;
  return std::nullopt;
}

/// Where a condition leaves out the last term of those that a comparison allows, as t != s does
/// with s <= t, the comparison says so instead.
void leave_out_first(std::vector<Expr>& others, Prefix& prefix) {
  for (auto other = others.begin(); other != others.end(); ++other) {
    const std::optional<Expr> distance = not_zero(*other);
    if (!distance) continue;
    const Expr first = make_variable(prefix.result.name) + static_cast<int>(prefix.offset);
    const Expr term = make_variable(prefix.term.name);
    // It may be a multiple, as 2 * (t - s) is.
    const auto multiple =
        as_const_int(simplify(*distance - substitute(prefix.term.name, term + 1, *distance)));
    if (!multiple || *multiple == 0 ||
        !is_const_zero(simplify(*distance - (first - term) * static_cast<int>(*multiple))))
      continue;
    prefix.offset += prefix.up_to ? -1 : 1;
    others.erase(other);
    return;
  }
}

Prefix make_prefix(Reduction reduction, const Iterator& result, const Iterator& term, bool up_to,
                   int64_t offset) {
  Prefix prefix;
  prefix.reduction = reduction;
  prefix.result = result;
  prefix.term = term;
  prefix.up_to = up_to;
  prefix.offset = offset;
  return prefix;
}

/// The comparison of a reduction's index with one of the results, if there is nothing else in it.
std::optional<Prefix> compare(const Statement& statement, const Expr& condition) {
  std::optional<Expr> e = not_negative(condition);
  if (!e) return std::nullopt;
  for (const Iterator& result : statement.domain)
    for (const Iterator& term : statement.domain) {
      if (result.reduction || !term.reduction) continue;
      const Expr distance = make_variable(result.name) - make_variable(term.name);
      // term <= result + offset, or result - offset <= term.
      if (auto offset = as_const_int(simplify(*e - distance)))
        return make_prefix(statement.reduction, result, term, true, *offset);
      if (auto offset = as_const_int(simplify(*e + distance)))
        return make_prefix(statement.reduction, result, term, false, -*offset);
    }
  return std::nullopt;
}

/// Whether it is read at the index in this dimension, and what else says where is no reduction's
/// index, nor the result's that the scan walks along.
bool is_read_at(const Statement& statement, const Prefix& prefix, const Call& read,
                size_t dimension, const std::string& index) {
  if (!is_variable(read.args[dimension], index)) return false;
  for (size_t d = 0; d < read.args.size(); ++d)
    if (d != dimension && (expr_uses_var(read.args[d], prefix.result.name) ||
                           uses_reduction(statement, read.args[d])))
      return false;
  return true;
}

/// Whether result + offset is a place of a term or behind one; undefined where it always is.
Expr not_before_first(const Prefix& prefix, const Expr& result) {
  if (prefix.offset >= 0) return Expr();
  return simplify(result + static_cast<int>(prefix.offset)) >= 0;
}

/// Whether result + offset is a place of a term or before one; undefined where it always is.
Expr not_behind_last(const Prefix& prefix, const Expr& result) {
  const int64_t terms = extent_of(prefix.term);
  if (extent_of(prefix.result) + prefix.offset <= terms) return Expr();
  return simplify(result + static_cast<int>(prefix.offset)) < static_cast<int>(terms);
}

/// The results' indices and the carried ones.
std::vector<Iterator> scanned_indices(const Statement& statement, const Prefix& prefix) {
  std::vector<Iterator> indices = kept_indices(statement);
  for (const Iterator& it : carried_indices(prefix)) indices.push_back(it);
  return indices;
}

}  // namespace

std::vector<Iterator> carried_indices(const Prefix& prefix) {
  std::vector<Iterator> indices;
  for (Iterator it : prefix.carried) {
    it.reduction = false;
    if (expr_uses_var(prefix.value, it.name) ||
        (prefix.recurrence && prefix.recurrence->indices.count(it.name)))
      indices.push_back(it);
  }
  return indices;
}

Expr has_terms(const Prefix& prefix, const Expr& result) {
  return prefix.up_to ? not_before_first(prefix, result) : not_behind_last(prefix, result);
}

Expr has_new_term(const Prefix& prefix, const Expr& result) {
  const Expr begun = not_before_first(prefix, result), left = not_behind_last(prefix, result);
  return begun.defined() && left.defined() ? begun && left : begun.defined() ? begun : left;
}

double operations_of(const Statement& statement, const Prefix& prefix) {
  const int scans = 1 + (prefix.recurrence ? prefix.recurrence->degree : 0);
  return points_of(scanned_indices(statement, prefix)) * machine::kScannedOperations * scans;
}

std::optional<Prefix> PrefixReductions::find(const Statement& statement) const {
  const Type type = program_.tensor(statement.tensor).type;
  if (statement.reduction == Reduction::None || type.is_bool() || statement.guard.defined() ||
      is_scatter(statement) || reads(statement, statement.tensor))
    return std::nullopt;
  for (const GuardedTerm& term : list_guarded(statement))
    for (size_t t = 0; t < term.conditions.size(); ++t) {
      std::vector<Expr> others = term.conditions;
      others.erase(others.begin() + static_cast<long>(t));
      std::optional<Prefix> prefix = compare(statement, term.conditions[t]);
      if (!prefix) continue;
      leave_out_first(others, *prefix);
      prefix->conditional = !others.empty();
      if (complete(statement, term, others, *prefix)) return prefix;
    }
  return std::nullopt;
}

std::optional<Prefix> PrefixReductions::go_on(const Statement& statement) {
  forget(statement.tensor);
  std::optional<Prefix> prefix = find(statement);
  if (!prefix) note_bound(statement);
  if (prefix && reduced_indices(statement).size() == 1) note(statement, *prefix);
  return prefix;
}

void PrefixReductions::forget(const std::string& tensor) {
  bounds_.erase(tensor);
  for (auto level = rising_.begin(); level != rising_.end();)
    level = reads(level->second.value, tensor) ? rising_.erase(level) : std::next(level);
}

bool PrefixReductions::complete(const Statement& statement, const GuardedTerm& term,
                                const std::vector<Expr>& others, Prefix& prefix) const {
  const int64_t results = extent_of(prefix.result), terms = extent_of(prefix.term);
  if (terms < machine::kScanTerms || results < 2) return false;
  // Neighbours differ by one term, and the first result has no more than one.
  if (prefix.up_to ? prefix.offset > 0 : terms > results + prefix.offset) return false;
  if (prefix.up_to && results + prefix.offset <= 0) return false;
  if (!dimension_of(statement, prefix.result.name)) return false;
  // Conditions are joined in another order, so that none may be what another one's reads need.
  if (std::any_of(others.begin(), others.end(), [&](const Expr& e) {
        return rewrite::reads_outside(e, program_, statement.domain);
      }))
    return false;
  Expr inside;
  auto join = [](Expr& all, const Expr& e) { all = all.defined() ? all && e : e; };
  for (const Expr& other : others) {
    if (expr_uses_var(other, prefix.result.name) && !uses_reduction(statement, other))
      join(prefix.outside, other);
    else if (Expr read = find_segment(statement, other, prefix); read.defined())
      prefix.segment = read;
    else
      join(inside, other);
  }
  prefix.whole = term.value;
  prefix.value = inside.defined() ? choose_lazily(inside, term.value, term.elsewhere) : term.value;
  // The scan has the terms of all results, also of those that do not exist.
  if (prefix.outside.defined() && rewrite::reads_outside(prefix.value, program_, statement.domain))
    return false;
  if (!is_identity(term.elsewhere, statement.reduction)) {
    if (!is_extreme(statement.reduction) || prefix.outside.defined() || prefix.segment.defined() ||
        count_points(reduced_indices(statement)) == 0)
      return false;
    // The first term once more says nothing new.
    const bool has_first = prefix.up_to || terms >= results + prefix.offset;
    const Expr first = prefix.up_to ? 0 : static_cast<int>(terms - 1);
    const bool is_first =
        prefix.offset == 0 && has_first &&
        equal(simplify_integers(substitute(prefix.term.name, first, prefix.value), {}),
              simplify_integers(term.elsewhere, {}));
    if (!is_first) {
      for (const Iterator& it : statement.domain)
        if ((it.reduction || it.name == prefix.result.name) &&
            expr_uses_var(term.elsewhere, it.name))
          return false;
      prefix.elsewhere = term.elsewhere;
    }
  }
  if (!expr_uses_var(prefix.value, prefix.result.name)) return true;
  if (is_extreme(statement.reduction)) return take_out_steps(statement, term, inside, prefix);
  if (statement.reduction != Reduction::Sum) return false;
  return rescale(statement, term, prefix) || take_out_factors(statement, term, inside, prefix);
}

bool PrefixReductions::rescale(const Statement& statement, const GuardedTerm& term,
                               Prefix& prefix) const {
  const std::string &result = prefix.result.name, &index = prefix.term.name;
  if (extent_of(prefix.term) != extent_of(prefix.result) || prefix.segment.defined()) return false;
  Statement product = statement;
  product.value = prefix.value;
  std::vector<Factor> inside, outside, increments;
  for (const Factor& factor : factors_of(product)) {
    const auto* call = factor.value.as<Call>();
    const bool of_result = factor.indices.count(result), of_term = factor.indices.count(index);
    const bool may_be_inside = !of_result || (of_term && call && math_name(call) == "exp");
    (may_be_inside ? inside : of_term ? increments : outside).push_back(factor);
  }
  // Sums that have the same terms are one scan, whatever they are multiplied by.
  if (!outside.empty() || !increments.empty()) {
    const auto numbers = std::stable_partition(
        inside.begin(), inside.end(),
        [](const Factor& factor) { return factor.divides || !as_const_float(factor.value); });
    outside.insert(outside.end(), numbers, inside.end());
    inside.erase(numbers, inside.end());
  }
  prefix.rescaled =
      find_rescaled(inside, result, index, prefix.offset,
                    [&](const Expr& e, const std::vector<Addend>& exponents, bool falls) {
                      return find_level(statement, prefix, e, exponents, falls);
                    });
  if (!prefix.rescaled) return false;
  Prefix found = prefix;
  prefix.rescaled.reset();
  found.value = found.rescaled->value;
  found.factors = outside;
  if (!increments.empty()) {
    found.recurrence = find_recurrence(increments, {result, index, found.up_to, found.offset});
    if (!found.recurrence || found.recurrence->weight.defined()) return false;
  }
  if (!carry_indices(statement, term, found)) return false;
  prefix = std::move(found);
  return true;
}

bool PrefixReductions::take_out_factors(const Statement& statement, const GuardedTerm& term,
                                        const Expr& inside, Prefix& prefix) const {
  std::optional<ScaledTerm> scaled =
      find_scaled(statement, term.value, prefix.result.name, prefix.term.name);
  if (!scaled) return false;
  prefix.value = prefix.unscaled = scaled->value;
  if (!scaled->weights.empty()) {
    prefix.recurrence = find_recurrence(
        scaled->weights, {prefix.result.name, prefix.term.name, prefix.up_to, prefix.offset});
    if (!prefix.recurrence || (prefix.recurrence->degree > 0 && prefix.segment.defined()))
      return false;
    for (const Factor& factor : prefix.recurrence->factors) scaled->factors.push_back(factor);
    if (!is_const_one(prefix.recurrence->first))
      prefix.value = is_const_one(prefix.value) ? prefix.recurrence->first
                                                : prefix.value * prefix.recurrence->first;
  }
  if (inside.defined()) {
    // A result may have no term, and is 0 then, whatever its factors are.
    if (expr_uses_var(inside, prefix.result.name) || !keep_zero(scaled->factors, statement.domain))
      return false;
    // The condition may be what keeps their reads inside.
    for (const Factor& factor : scaled->factors)
      if (rewrite::reads_outside(factor.value, program_, statement.domain)) return false;
    prefix.value = choose_lazily(inside, prefix.value, term.elsewhere);
  }
  prefix.factors = std::move(scaled->factors);
  if (!carry_indices(statement, term, prefix)) return false;
  // The sum may be larger than any that the text makes, or be small where it counts later.
  const bool may_leave = (prefix.recurrence && !prefix.recurrence->is_monotone) ||
                         (prefix.carried.empty() && !prefix.factors.empty());
  if (may_leave && prefix.value.type() == Halide::Float(32))
    prefix.value = Halide::cast(Halide::Float(64), prefix.value);
  return true;
}

bool PrefixReductions::take_out_steps(const Statement& statement, const GuardedTerm& term,
                                      const Expr& inside, Prefix& prefix) const {
  // What stands for terms that other conditions leave out would have to stay the same. A condition
  // may be what keeps the reads of a step inside.
  if (!term.value.type().is_float() ||
      (inside.defined() && (!is_identity(term.elsewhere, statement.reduction) ||
                            rewrite::reads_outside(term.value, program_, statement.domain))))
    return false;
  const Neighbours at{prefix.result.name, prefix.term.name, prefix.up_to, prefix.offset};
  if (const std::optional<SteppedTerm> stepped = find_stepped(term.value, at)) {
    prefix.value = stepped->first;
    prefix.recurrence.emplace();
    prefix.recurrence->adds = true;
    prefix.recurrence->step = stepped->step;
    for (const Iterator& it : statement.domain)
      if (expr_uses_var(stepped->step, it.name)) prefix.recurrence->indices.insert(it.name);
  } else {
    const std::optional<ScaledTerm> scaled =
        find_scaled(statement, term.value, prefix.result.name, prefix.term.name);
    if (!scaled || !are_positive(scaled->weights) || !are_positive(scaled->factors)) return false;
    prefix.value = scaled->value;
    prefix.factors = scaled->factors;
    if (!scaled->weights.empty()) {
      prefix.recurrence = find_recurrence(scaled->weights, at);
      if (!prefix.recurrence || prefix.recurrence->degree > 0) return false;
      const Recurrence& found = *prefix.recurrence;
      prefix.factors.insert(prefix.factors.end(), found.factors.begin(), found.factors.end());
      // Of a step of 0 a term is one all the same.
      prefix.recurrence->may_end = false;
      if (!is_const_one(found.first)) prefix.value = prefix.value * found.first;
    }
    // Of no terms there is nothing to multiply.
    if (inside.defined() && !prefix.factors.empty()) return false;
  }
  if (inside.defined()) prefix.value = choose_lazily(inside, prefix.value, term.elsewhere);
  if (!carry_indices(statement, term, prefix)) return false;
  // Each step is rounded.
  const Type type = prefix.value.type();
  prefix.value = Halide::cast(Halide::Float(type.bits() < 32 ? 32 : 64), prefix.value);
  return true;
}

bool PrefixReductions::carry_indices(const Statement& statement, const GuardedTerm& term,
                                     Prefix& prefix) const {
  for (const Iterator& it : reduced_indices(statement)) {
    auto has_it = [&](const Factor& factor) { return factor.indices.count(it.name) != 0; };
    if (it.name != prefix.term.name &&
        (std::any_of(prefix.factors.begin(), prefix.factors.end(), has_it) ||
         (prefix.recurrence && prefix.recurrence->indices.count(it.name))))
      prefix.carried.push_back(it);
  }
  return prefix.carried.empty() || is_worthwhile(statement, term, prefix);
}

bool PrefixReductions::is_worthwhile(const Statement& statement, const GuardedTerm& term,
                                     const Prefix& prefix) const {
  Statement product = statement;
  product.value = term.value;
  const double now = points_of(statement.domain) * static_cast<double>(factors_of(product).size());
  const double bytes = points_of(scanned_indices(statement, prefix)) * term.value.type().bytes();
  double most = machine::kNestedBytes;
  for (const Call* read : reads_of(statement))
    if (const auto tensor = program_.tensors.find(read_name(read));
        tensor != program_.tensors.end()) {
      double size = tensor->second.type.bytes();
      for (const Expr& extent : tensor->second.sizes)
        size *= static_cast<double>(*as_const_int(extent));
      most = std::max(most, size);
    }
  return bytes <= most && operations_of(statement, prefix) <= machine::kNestedShare * now;
}

Expr PrefixReductions::find_rising(const Expr& e) const {
  if (const auto* larger = e.as<Max>()) {
    const Expr found = find_rising(larger->a);
    return found.defined() ? found : find_rising(larger->b);
  }
  const auto* read = e.as<Call>();
  if (!read) return Expr();
  if (rising_.count(read_name(read))) return e;
  const auto bound = bounds_.find(read_name(read));
  if (bound == bounds_.end()) return Expr();
  std::map<std::string, Expr> here;
  for (size_t d = 0; d < read->args.size(); ++d) here[bound->second.elements[d]] = read->args[d];
  return find_rising(graph_substitute(here, bound->second.level));
}

std::optional<Level> PrefixReductions::find_level(const Statement& statement, const Prefix& prefix,
                                                  const Expr& e,
                                                  const std::vector<Addend>& exponents,
                                                  bool falls) const {
  const Expr found = find_rising(e);
  if (!found.defined() || e.type() != program_.tensor(statement.tensor).type) return std::nullopt;
  const auto* read = found.as<Call>();
  const Rising& level = rising_.at(read_name(read));
  const std::string &result = prefix.result.name, &term = prefix.term.name;
  if (level.up_to != (prefix.up_to != falls) ||
      level.offset != (falls ? -prefix.offset : prefix.offset) ||
      !is_read_at(statement, prefix, *read, level.dimension, falls ? term : result))
    return std::nullopt;
  std::map<std::string, Expr> here;
  for (size_t d = 0; d < read->args.size(); ++d) here[level.elements[d]] = read->args[d];
  const Expr step = level.step.defined() ? substitute(falls ? term : result, make_variable(result),
                                                      graph_substitute(here, level.step))
                                         : Expr();
  here[level.term] = make_variable(falls ? result : term);
  if (!have_equal_addends(addends_of(graph_substitute(here, level.value)), exponents))
    return std::nullopt;
  return Level{found, step};
}

Expr PrefixReductions::find_segment(const Statement& statement, const Expr& condition,
                                    const Prefix& prefix) const {
  const auto* equals = condition.as<EQ>();
  if (!equals || prefix.segment.defined() || prefix.offset != 0 ||
      extent_of(prefix.result) != extent_of(prefix.term))
    return Expr();
  for (const auto& [at, other] : {std::pair(equals->a, equals->b), {equals->b, equals->a}}) {
    const auto* read = at.as<Call>();
    auto found = read ? monotone_.find(read_name(read)) : monotone_.end();
    if (found == monotone_.end()) continue;
    if (is_read_at(statement, prefix, *read, found->second, prefix.term.name) &&
        equal(substitute(prefix.term.name, make_variable(prefix.result.name), at), other))
      return at;
  }
  return Expr();
}

void PrefixReductions::note(const Statement& statement, const Prefix& prefix) {
  const auto writes = [&](const Statement& other) { return other.tensor == statement.tensor; };
  const auto& all = program_.statements;
  const bool changed = prefix.segment.defined() || prefix.outside.defined() || prefix.rescaled ||
                       !prefix.factors.empty() || !prefix.carried.empty();
  if (changed || !statement.initializes || std::count_if(all.begin(), all.end(), writes) != 1)
    return;
  const size_t dimension = *dimension_of(statement, prefix.result.name);
  const Type type = program_.tensor(statement.tensor).type;
  // Floats may be NaN, which is not equal to itself. What extremes have elsewhere counts for all
  // results but those of all terms. Where it changes what goes on to these, it is beyond every
  // term: the results before are it, and the way to these is the only one.
  if (!prefix.recurrence &&
      ((type.is_int_or_uint() && is_extreme(statement.reduction)) ||
       (statement.reduction == Reduction::Sum && is_one_way(prefix.value, extent_of(prefix.term)))))
    monotone_[statement.tensor] = dimension;
  // A level is no less than the term of the sum that it is for, and no more than the largest.
  if (!type.is_float() || statement.reduction != Reduction::Max || prefix.elsewhere.defined() ||
      extent_of(prefix.term) != extent_of(prefix.result) ||
      (prefix.recurrence && (!prefix.recurrence->adds || prefix.conditional)))
    return;
  Rising level = {dimension, prefix.up_to, prefix.offset, prefix.value, prefix.term.name, {}, {}};
  if (prefix.recurrence) {
    level.value = prefix.whole;
    level.step = prefix.recurrence->step;
  }
  for (const Expr& subscript : statement.subscripts) {
    const auto* index = subscript.as<Variable>();
    if (!index) return;
    level.elements.push_back(index->name);
  }
  rising_[statement.tensor] = level;
}

void PrefixReductions::note_bound(const Statement& statement) {
  if (statement.reduction != Reduction::None || statement.guard.defined() ||
      !is_definition(statement) || !statement.value.as<Max>())
    return;
  const Expr level = find_rising(statement.value);
  if (!level.defined()) return;
  Bound bound{{}, level};
  for (const Expr& subscript : statement.subscripts)
    bound.elements.push_back(subscript.as<Variable>()->name);
  bounds_[statement.tensor] = bound;
}

}  // namespace tc::ir
