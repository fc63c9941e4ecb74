#include "rewrite/algebra/contractions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/walk.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "rewrite/domains/inside.h"
#include "rewrite/operands/subscript_sums.h"

namespace tc::ir {
namespace {

/// Factors up to which all orders are tried: some 4000 products. Of more, pairs are joined first.
constexpr size_t kSearchedFactors = 7;
/// A set of them has 64 bits.
constexpr size_t kMostIndices = 60;
/// Of an element of a row that is summed, what decides between equal ways alone.
constexpr double kAlongRows = 1e-3;
/// Orders of equal factors that are compared for a signature.
constexpr int kComparedOrders = 40;

/// Calls `visit` with the number of every element.
template <class Set, class Visit>
void for_each_in(Set set, const Visit& visit) {
  for (size_t number = 0; set; ++number, set >>= 1)
    if (set & 1) visit(number);
}

int count(FactorSet set) { return __builtin_popcount(set); }

/// Whether an element of a tensor is all of a subscript, whatever its type.
bool is_read(const Expr& subscript) {
  const auto* cast = subscript.as<Cast>();
  const auto* call = (cast ? cast->value : subscript).as<Call>();
  return call && !read_name(call).empty();
}

}  // namespace

int ContractionTable::find_shape(const Expr& shape, const std::vector<int>& writes) {
  for (size_t s = 0; s < shapes_.size(); ++s)
    if (shapes_[s].second == writes && equal(shapes_[s].first, shape)) return static_cast<int>(s);
  shapes_.emplace_back(shape, writes);
  return static_cast<int>(shapes_.size()) - 1;
}

int ContractionTable::find_signature(const std::string& text) {
  return signatures_.emplace(text, static_cast<int>(signatures_.size())).first->second;
}

Contraction::Contraction(const Statement& statement, const Program& program,
                         std::vector<Factor> factors, const CpuMachine& machine,
                         ContractionTable& table, CountWrites writes)
    : statement_(statement),
      program_(program),
      machine_(machine),
      table_(table),
      writes_(std::move(writes)),
      factors_(std::move(factors)) {
  for (const Iterator& it : statement.domain) {
    domain_ |= bit(indices_.size());
    indices_.push_back({it, make_variable(it.name), 0, it.reduction});
  }
  for (const Factor& factor : factors_) {
    read_.push_back(indices_in(factor.value));
    IndexSet rows = 0;
    for_each<Call>(factor.value, [&](const Call* call) {
      if (!read_name(call).empty() && !call->args.empty()) rows |= indices_in(call->args.back());
    });
    rows_.push_back(rows);
  }
  direct_ = read_;
  places_.resize(factors_.size());
  find_places();
  find_sums();
  largest_ = points_of(kept_indices(statement));
  for (const Factor& factor : factors_)
    for (const std::string& name : names_read(factor.value)) {
      const auto tensor = program.tensors.find(name);
      if (tensor == program.tensors.end()) continue;
      double elements = 1;
      for (const Expr& size : tensor->second.sizes)
        elements *= static_cast<double>(*as_const_int(size));
      largest_ = std::max(largest_, elements);
    }
  for (size_t f = 0; f < factors_.size(); ++f) units_.push_back(FactorSet{1} << f);
}

/// Where all that a factor has of some indices are places, in dimensions with fewer elements. A
/// place is one that a factor has at all points, so that it lies inside.
void Contraction::find_places() {
  struct Found {
    size_t factor;
    Expr place, size;
  };
  std::vector<Found> found;
  for (size_t f = 0; f < factors_.size(); ++f) {
    const Expr& value = factors_[f].value;
    if (any<Select>(value) || has_lazy_choice(value)) continue;
    for_each<Call>(value, [&](const Call* call) {
      const auto tensor = program_.tensors.find(read_name(call));
      if (tensor == program_.tensors.end()) return;
      for (size_t d = 0; d < call->args.size(); ++d)
        if (is_read(call->args[d]) && indices_in(call->args[d]))
          found.push_back({f, call->args[d], tensor->second.sizes[d]});
    });
  }
  for (const Found& each : found) {
    const IndexSet of = indices_in(each.place) & domain_;
    const auto extent = as_const_int(each.size);
    const bool differ = std::any_of(found.begin(), found.end(), [&](const Found& other) {
      return equal(other.place, each.place) && !equal(other.size, each.size);
    });
    if (!extent || *extent < 1 || static_cast<double>(*extent) >= points(of) || differ) continue;
    auto known = std::find_if(indices_.begin(), indices_.end(), [&](const auto& index) {
      return index.function_of && equal(index.place, each.place);
    });
    if (known == indices_.end()) {
      if (indices_.size() == kMostIndices) return;
      std::string name = statement_.domain[static_cast<size_t>(__builtin_ctzll(of))].name + "_";
      while (std::any_of(indices_.begin(), indices_.end(),
                         [&](const auto& index) { return index.iterator.name == name; }))
        name += "_";
      indices_.push_back(
          {{name, 0, each.size, false, plain_text(each.place)}, each.place, of, false});
      known = indices_.end() - 1;
    }
    places_[each.factor] |= bit(static_cast<size_t>(known - indices_.begin()));
    direct_[each.factor] = indices_in(value(each.factor, places_[each.factor])) & domain_;
  }
}

/// Where all that a factor has of some indices is their sum, which takes every value between its
/// ends: what the factor is at each place, it is at some point. Conditions in it may be what keeps
/// its reads inside.
void Contraction::find_sums() {
  for (size_t f = 0; f < factors_.size(); ++f) {
    const SubscriptSums found = ir::find_sums(factors_[f].value, statement_.domain);
    for (const Sum& sum : found.sums) {
      IndexSet of = 0;
      for (const auto& term : sum.terms) of |= indices_in(make_variable(term.first.name));
      const bool is_apart = std::none_of(
          found.sums.begin(), found.sums.end(),
          [&](const Sum& other) { return &other != &sum && (indices_in(other.value()) & of); });
      if (sum.terms.size() < 2 || !sum.has_all_values() || !is_apart || (of & ~direct_[f]) ||
          static_cast<double>(sum.count) >= points(of))
        continue;
      const Expr place = simplify(sum.value() - static_cast<int>(sum.first));
      auto known = std::find_if(indices_.begin(), indices_.end(), [&](const auto& index) {
        return !index.pivot.empty() && equal(index.place, place);
      });
      if (known == indices_.end()) {
        if (indices_.size() == kMostIndices) return;
        std::string name = sum.index_name(statement_);
        while (std::any_of(indices_.begin(), indices_.end(),
                           [&](const auto& index) { return index.iterator.name == name; }))
          name += "_";
        const Iterator it{name, 0, static_cast<int>(sum.count), false, plain_text(sum.value())};
        indices_.push_back({it, place, of, false, sum.terms[0].first.name, sum.first_index(name)});
        known = indices_.end() - 1;
      }
      const IndexSet number = bit(static_cast<size_t>(known - indices_.begin()));
      sums_ |= number;
      // Something else in the factor may move with one of these indices.
      if (indices_in(with_sums(factors_[f].value, number)) & of) continue;
      places_[f] |= number;
      direct_[f] &= ~of;
    }
  }
}

/// With places among these indices for the sums that they are.
Expr Contraction::with_sums(const Expr& e, IndexSet indices) const {
  Expr made = e;
  for_each_in(indices, [&](size_t i) {
    const ContractionIndex& index = indices_[i];
    if (!index.pivot.empty() && expr_uses_var(made, index.pivot))
      made = simplify_integers(substitute(index.pivot, index.pivot_value, made), {});
  });
  return made;
}

IndexSet Contraction::indices_in(const Expr& e) const {
  IndexSet found = 0;
  const std::set<std::string> names = variables_of(e);
  for (size_t i = 0; i < indices_.size(); ++i)
    if (names.count(indices_[i].iterator.name)) found |= bit(i);
  return found;
}

Expr Contraction::value(size_t factor, IndexSet indices) const {
  const IndexSet places = places_[factor] & indices;
  if (!places) return factors_[factor].value;
  const Expr made = rewrite(factors_[factor].value, [&](const Expr& e) {
    Expr replaced;
    for_each_in(places & ~sums_, [&](size_t i) {
      if (equal(e, indices_[i].place)) replaced = make_variable(indices_[i].iterator.name);
    });
    return replaced;
  });
  return with_sums(made, places);
}

Expr Contraction::condition(size_t number, IndexSet indices) const {
  return with_sums(limits_.conditions[number], indices & sums_);
}

void Contraction::limit(const Limits& limits) {
  limits_ = limits;
  condition_read_.clear();
  for (const Expr& each : limits_.conditions) condition_read_.push_back(indices_in(each));
}

bool Contraction::is_expressible(size_t number, IndexSet indices) const {
  const auto [known, is_new] = expressible_.emplace(std::pair(number, indices), false);
  if (is_new) known->second = !(indices_in(condition(number, indices)) & ~indices);
  return known->second;
}

double Contraction::points(IndexSet indices) const {
  double points = 1;
  for_each_in(indices,
              [&](size_t i) { points *= static_cast<double>(extent_of(indices_[i].iterator)); });
  return points;
}

const Contraction::Indices& Contraction::indices_of(FactorSet set) const {
  auto known = known_.find(set);
  if (known == known_.end()) {
    known = known_.emplace(set, Indices{find_indices(set), 0}).first;
    known->second.inner = find_inner(set, known->second.all);
  }
  return known->second;
}

/// Places count where no factor has their index itself.
IndexSet Contraction::find_indices(FactorSet set) const {
  IndexSet direct = 0, places = 0, all = 0;
  for_each_in(set, [&](size_t f) {
    direct |= direct_[f];
    places |= places_[f];
    all |= read_[f];
  });
  IndexSet counted = 0, replaced = 0;
  for_each_in(places, [&](size_t i) {
    if (indices_[i].function_of & direct) return;
    counted |= bit(i);
    replaced |= indices_[i].function_of;
  });
  // An index of two places, one of which does not count, is one all the same.
  for_each_in(places & ~counted, [&](size_t i) { direct |= indices_[i].function_of; });
  for (bool changed = true; changed;) {
    changed = false;
    for_each_in(counted, [&](size_t i) {
      if (!(indices_[i].function_of & direct)) return;
      counted &= ~bit(i);
      direct |= indices_[i].function_of;
      changed = true;
    });
  }
  return (all & ~replaced) | direct | counted;
}

/// The indices that a product sums over.
IndexSet Contraction::find_inner(FactorSet set, IndexSet all) const {
  IndexSet outside = limits_.needed;
  for (size_t f = 0; f < factors_.size(); ++f)
    if (!(set >> f & 1)) outside |= read_[f];
  IndexSet inner = 0;
  for_each_in(all & domain_ & ~outside, [&](size_t i) {
    if (indices_[i].summed) inner |= bit(i);
  });
  // What a condition speaks of is there as long as the condition is not applied.
  for (size_t k = 0; k < condition_read_.size(); ++k)
    if ((condition_read_[k] & inner) && !is_expressible(k, all)) inner &= ~condition_read_[k];
  return inner;
}

bool Contraction::may_be_made(FactorSet set) const {
  if ((set & limits_.fixed) && limits_.conditions.empty()) return false;
  bool multiplies = false;
  for_each_in(set, [&](size_t f) { multiplies = multiplies || !factors_[f].divides; });
  if (!multiplies) return false;
  const auto& [all, inner] = indices_of(set);
  if ((all & sums_) &&
      points(all & ~inner) > static_cast<double>(machine::kTemporaryGrowth) * largest_)
    return false;
  // No result or operand may have as many elements.
  return (inner && !limits_.conditional) ||
         points(all & ~inner) * limits_.bytes <= machine::kNestedBytes;
}

/// Whether a factor is summed over indices that it alone has, unless it has all there are.
bool Contraction::is_summed_alone(FactorSet set) const {
  return count(set) == 1 && indices_of(set).inner && indices_of(set).all != domain_ &&
         may_be_made(set);
}

/// Of writing and reading a temporary; what leaves the caches costs what a scan's does, and so does
/// one of a window, which is read again for each term of another: 3 terms by 3 are no slower as
/// they are, 5 by 5 are by a half.
double Contraction::element_cost(IndexSet kept) const {
  const double elements = points(kept);
  const bool leaves_cache = elements * limits_.bytes > static_cast<double>(machine_.cache_bytes);
  return elements * (leaves_cache || (kept & sums_) ? machine::kScannedOperations
                                                    : machine::kElementOperations);
}

/// Those that speak of what it sums over, which no other product can apply, and those that keep
/// its reads inside.
void Contraction::add_conditions(const std::vector<FactorSet>& parts, bool outermost,
                                 PartialProduct& made) const {
  if (limits_.conditions.empty()) return;
  IndexSet moved = made.indices & ~made.kept;
  FactorSet fixed = 0;
  for (FactorSet part : parts)
    if (!made.makes(part)) fixed |= part & limits_.fixed;
  for_each_in(fixed, [&](size_t f) { moved |= indices_in(value(f, made.indices)); });
  for (size_t k = 0; k < limits_.conditions.size(); ++k)
    if (is_expressible(k, made.indices) &&
        (outermost || (indices_in(condition(k, made.indices)) & moved)))
      made.conditions |= ConditionSet{1} << k;
  if (!reads_inside(fixed, made)) made.cost = std::numeric_limits<double>::infinity();
}

/// Whether a product's conditions keep what it reads of these factors inside their tensors.
bool Contraction::reads_inside(FactorSet factors, const PartialProduct& product) const {
  const auto everywhere = static_cast<ConditionSet>((uint64_t{1} << limits_.conditions.size()) - 1);
  if (!factors || (product.indices == domain_ && product.conditions == everywhere)) return true;
  const auto [known, is_new] =
      inside_.emplace(std::tuple(factors, product.conditions, product.indices), true);
  if (!is_new) return known->second;
  std::vector<Iterator> domain;
  std::vector<Expr> conditions;
  for_each_in(product.indices, [&](size_t i) { domain.push_back(indices_[i].iterator); });
  for_each_in(product.conditions,
              [&](size_t k) { conditions.push_back(condition(k, product.indices)); });
  for_each_in(factors, [&](size_t f) {
    known->second = known->second && !rewrite::reads_outside(value(f, product.indices), program_,
                                                             domain, conditions);
  });
  return known->second;
}

PartialProduct Contraction::multiply(FactorSet set, const std::vector<FactorSet>& parts,
                                     bool outermost) const {
  PartialProduct made;
  made.indices = outermost ? domain_ : indices_of(set).all;
  for (FactorSet part : parts)
    if (made.makes(part)) made.indices &= ~indices_of(part).inner;
  const double operations = static_cast<double>(parts.size());
  for (FactorSet part : parts) {
    if (part == set || !is_summed_alone(part)) continue;
    const IndexSet summed = made.indices & ~indices_of(part).inner;
    const auto alone = costs_.find(part);
    if (alone == costs_.end() ||
        alone->second >= (points(made.indices) - points(summed)) * operations)
      continue;
    made.alone |= part;
    made.indices = summed;
  }
  made.kept = made.indices & ~(outermost ? 0 : indices_of(set).inner);
  if (outermost)
    for_each_in(made.indices, [&](size_t i) {
      if (indices_[i].summed) made.kept &= ~bit(i);
    });
  // Of two equal ways the one that sums: results, not operands, are scaled.
  made.cost = points(made.indices) * (operations + (made.sums() || outermost ? 0 : 1));
  // And the one that does not sum along rows: what is left of these are vectors of results.
  for (FactorSet part : parts)
    if (const auto f = static_cast<size_t>(__builtin_ctz(part));
        !outermost && !made.makes(part) && (rows_[f] & made.indices & ~made.kept))
      made.cost += kAlongRows * points(made.indices & read_[f]);
  if (!outermost)
    made.cost +=
        element_cost(made.kept) + static_cast<double>(machine_.least(machine::kNestedSavings));
  add_conditions(parts, outermost, made);
  return made;
}

/// Equal ones are made once.
double Contraction::cost_of_parts(const PartialProduct& product,
                                  const std::vector<FactorSet>& parts) const {
  double cost = 0;
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto known = costs_.find(*part);
    if (known == costs_.end() || !product.makes(*part) || known->second == 0) continue;
    const bool again = std::any_of(parts.begin(), part, [&](FactorSet other) {
      return count(other) == count(*part) && product.makes(other) &&
             signature(other).number == signature(*part).number;
    });
    if (!again) cost += known->second;
  }
  return cost;
}

/// All ways to take a set of factors apart; returns the cost of the best one.
std::optional<double> Contraction::search(FactorSet set, PartialProduct& best,
                                          bool outermost) const {
  std::vector<FactorSet> units, parts;
  for (FactorSet unit : units_)
    if ((unit & set) == unit) units.push_back(unit);
  std::optional<double> least;
  auto try_parts = [&] {
    PartialProduct product = multiply(set, parts, outermost);
    const double cost = product.cost + cost_of_parts(product, parts);
    if (std::isinf(cost) || (least && cost >= *least)) return;
    least = cost;
    best = std::move(product);
    best.parts = parts;
  };
  // Every part has the first unit that those before it do not have.
  std::function<void(FactorSet)> split = [&](FactorSet left) {
    if (!left) {
      if (parts.size() > 1 || outermost) try_parts();
      return;
    }
    std::vector<FactorSet> others;
    FactorSet first = 0;
    for (FactorSet unit : units)
      if ((unit & left) == unit) first ? others.push_back(unit) : void(first = unit);
    for (FactorSet chosen = 0; chosen < FactorSet{1} << others.size(); ++chosen) {
      FactorSet part = first;
      for_each_in(chosen, [&](size_t o) { part |= others[o]; });
      if (count(part) > 1 && (!costs_.count(part) || (part == set && !outermost))) continue;
      parts.push_back(part);
      split(left & ~part);
      parts.pop_back();
    }
  };
  split(set);
  return least;
}

/// Joins pairs until few enough units are left for the search: first those whose result has least
/// elements beside what it takes the place of.
void Contraction::join_units() {
  while (units_.size() > kSearchedFactors) {
    FactorSet a = 0, b = 0;
    double least = 0;
    auto elements = [&](FactorSet set) {
      return points(indices_of(set).all & ~indices_of(set).inner);
    };
    for (auto x = units_.begin(); x != units_.end(); ++x)
      for (auto y = x + 1; y != units_.end(); ++y) {
        if (!may_be_made(*x | *y)) continue;
        const double grows = elements(*x | *y) - elements(*x) - elements(*y);
        if (!a || grows < least) a = *x, b = *y, least = grows;
      }
    if (!a) return;
    joined_[a | b] = multiply(a | b, {a, b}, false);
    joined_[a | b].parts = {a, b};
    units_.erase(std::remove(units_.begin(), units_.end(), b), units_.end());
    std::replace(units_.begin(), units_.end(), a, a | b);
  }
}

double Contraction::choose(const std::function<double(int)>& share) {
  products_.clear();
  costs_.clear();
  join_units();
  auto enter = [&](FactorSet set, PartialProduct product, double cost) {
    products_[set] = std::move(product);
    costs_[set] = cost * share(signature(set).number);
  };
  for (size_t f = 0; f < factors_.size(); ++f) {
    const FactorSet set = FactorSet{1} << f;
    if (!is_summed_alone(set)) continue;
    PartialProduct product = multiply(set, {set}, false);
    if (std::isinf(product.cost)) continue;
    product.parts = {set};
    const double cost = product.cost;
    enter(set, std::move(product), cost);
  }
  // Those of fewer factors come first.
  std::vector<std::pair<int, FactorSet>> joined;
  for (const auto& [set, product] : joined_) joined.emplace_back(count(set), set);
  std::sort(joined.begin(), joined.end());
  for (const auto& [size, set] : joined) {
    const PartialProduct& product = joined_[set];
    enter(set, product, product.cost + cost_of_parts(product, product.parts));
  }
  if (units_.size() <= kSearchedFactors)
    for (FactorSet chosen = 1; chosen < FactorSet{1} << units_.size(); ++chosen) {
      FactorSet set = 0;
      for_each_in(chosen, [&](size_t u) { set |= units_[u]; });
      if (count(chosen) == 1 || !may_be_made(set)) continue;
      PartialProduct best;
      if (const std::optional<double> cost = search(set, best, false))
        enter(set, std::move(best), *cost);
    }
  const FactorSet all = static_cast<FactorSet>((uint64_t{1} << factors_.size()) - 1);
  std::optional<double> cost;
  if (units_.size() <= kSearchedFactors) cost = search(all, outermost_, true);
  if (cost) return *cost;
  std::vector<FactorSet> each;
  for (size_t f = 0; f < factors_.size(); ++f) each.push_back(FactorSet{1} << f);
  outermost_ = multiply(all, each, true);
  outermost_.parts = each;
  return outermost_.cost;
}

std::vector<FactorSet> Contraction::candidates() const {
  std::vector<FactorSet> sets;
  for (const auto& [set, product] : products_) sets.push_back(set);
  return sets;
}

const Signature& Contraction::signature(FactorSet set) const {
  auto known = signatures_.find(set);
  if (known == signatures_.end()) known = signatures_.emplace(set, sign(set)).first;
  return known->second;
}

/// The factors by their shapes, with indices that count in order of appearance, their extents and
/// whether they are summed. Of equal shapes, the order with the least text.
Signature Contraction::sign(FactorSet set) const {
  struct Shape {
    int number;
    std::vector<int> indices;
  };
  const auto& [all, inner] = indices_of(set);
  std::map<std::string, int> numbers;
  std::map<std::string, Expr> anonymous;
  for (size_t i = 0; i < indices_.size(); ++i) {
    numbers[indices_[i].iterator.name] = static_cast<int>(i);
    anonymous[indices_[i].iterator.name] = make_variable("#");
  }
  std::vector<Shape> shapes;
  for_each_in(set, [&](size_t f) {
    const Expr made = value(f, all);
    Shape shape;
    for_each<Variable>(made, [&](const Variable* op) {
      const auto index = numbers.find(op->name);
      if (index != numbers.end()) shape.indices.push_back(index->second);
    });
    std::vector<int> writes;
    for (const std::string& name : names_read(made)) writes.push_back(writes_(name));
    const int number = table_.find_shape(substitute(anonymous, made), writes);
    shape.number = 2 * number + factors_[f].divides;
    shapes.push_back(std::move(shape));
  });
  std::optional<std::string> least;
  Signature signature;
  int compared = 0;
  auto compare = [&](const std::vector<const Shape*>& order) {
    ++compared;
    std::ostringstream text;
    const Type type = factors_[0].value.type();
    text << static_cast<int>(type.code()) << '.' << type.bits();
    std::vector<int> found;
    for (const Shape* shape : order) {
      text << ';' << shape->number;
      for (int index : shape->indices) {
        const auto known = std::find(found.begin(), found.end(), index);
        text << ',' << known - found.begin();
        if (known == found.end()) found.push_back(index);
      }
    }
    for (size_t k = 0; k < limits_.conditions.size(); ++k) {
      if (!is_expressible(k, all)) continue;
      std::map<std::string, Expr> places;
      for (size_t place = 0; place < found.size(); ++place)
        places[indices_[static_cast<size_t>(found[place])].iterator.name] =
            make_variable("#" + std::to_string(place));
      text << " if " << substitute(places, condition(k, all));
    }
    for (int index : found)
      text << ' ' << extent_of(indices_[static_cast<size_t>(index)].iterator)
           << (inner & bit(static_cast<size_t>(index)) ? "+" : "");
    if (least && text.str() >= *least) return;
    least = text.str();
    signature.indices = found;
  };
  std::vector<const Shape*> order;
  std::vector<bool> taken(shapes.size());
  std::function<void()> go_on = [&] {
    if (order.size() == shapes.size()) return compare(order);
    std::optional<int> next;
    for (size_t s = 0; s < shapes.size(); ++s)
      if (!taken[s] && (!next || shapes[s].number < *next)) next = shapes[s].number;
    for (size_t s = 0; s < shapes.size() && compared < kComparedOrders; ++s) {
      if (taken[s] || shapes[s].number != *next) continue;
      taken[s] = true;
      order.push_back(&shapes[s]);
      go_on();
      order.pop_back();
      taken[s] = false;
    }
  };
  go_on();
  signature.number = table_.find_signature(*least);
  return signature;
}

}  // namespace tc::ir
