#include "rewrite/domains/split_residues.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numbers.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "poly/index_sets.h"

namespace tc::rewrite {
namespace {

using namespace ir;

/// Terms count where y = sign * k + offset + modulus * z for some z. Without k, they read at the
/// residue and the quotient of y - offset.
struct Residues {
  size_t result = 0;                ///< iterator y
  std::optional<size_t> reduction;  ///< iterator k
  int64_t modulus = 1, offset = 0;
  int sign = 1;
};

/// Residues of y, from `first` on, whose quotients are the same in number, as are those of k; the
/// residue of k is slope * (residue of y) + shift.
struct ResiduePiece {
  int64_t first = 0, count = 0;
  int64_t results = 0, terms = 0;
  int64_t slope = 1, shift = 0;
};

/// With every variable of a sum that is divided in one term: what is a multiple shows as one.
Expr collect_dividends(const Expr& e) {
  return mutate(
      e,
      [](const Mod* op, Mutator& self) {
        return Mod::make(collect_terms(self.mutate(op->a)), op->b);
      },
      [](const Div* op, Mutator& self) {
        return Div::make(collect_terms(self.mutate(op->a)), op->b);
      });
}

/// Whether the condition says of one index of the results and one of the reduction, whatever
/// their ranges are, that they have fitting residues, and nothing else.
std::optional<Residues> match_residues(const Statement& statement, const Expr& condition) {
  Residues residues;
  std::vector<Iterator> results, reductions;
  for (size_t i = 0; i < statement.domain.size(); ++i) {
    const Iterator& it = statement.domain[i];
    if (!expr_uses_var(condition, it.name)) continue;
    if (extent_of(it) == 0) return std::nullopt;
    if (it.reduction)
      residues.reduction = i;
    else
      residues.result = i;
    (it.reduction ? reductions : results).push_back(it);
  }
  if (results.size() != 1 || reductions.size() != 1 || has_data(condition)) return std::nullopt;
  poly::Context context;
  const poly::IndexSets sets(context.get(), {results[0], reductions[0]}, false);
  const std::optional<isl::set> fitting = sets.where(condition);
  if (!fitting || fitting->is_empty()) return std::nullopt;
  isl_stride_info* y = isl_set_get_stride_info(fitting->get(), 0);
  residues.modulus = poly::to_integer(isl::manage(isl_stride_info_get_stride(y)));
  const isl::aff first = isl::manage(isl_stride_info_get_offset(y));
  isl_stride_info_free(y);
  // Sums of two residues are indices, of 32 bits.
  if (residues.modulus < 2 || residues.modulus > std::numeric_limits<int>::max() / 2)
    return std::nullopt;
  const isl::pw_aff steps = sets.value(make_variable(results[0].name))->sub(first);
  const isl::set stride = steps.mod(static_cast<long>(residues.modulus)).eq_set(sets.constant(0));
  const int64_t factor =
      poly::to_integer(isl::manage(isl_aff_get_coefficient_val(first.get(), isl_dim_in, 1)));
  residues.sign = mod_imp(factor, residues.modulus) == 1 ? 1 : -1;
  residues.offset = poly::to_integer(isl::manage(isl_aff_get_constant_val(first.get())));
  if (mod_imp(factor - residues.sign, residues.modulus) != 0 || !stride.is_equal(*fitting))
    return std::nullopt;
  context.require_memory();
  return residues;
}

/// What a sum adds up where a condition holds, or all of it.
Choice terms_of(const Statement& statement) {
  const Expr other = identity(statement.reduction, statement.value.type());
  const std::optional<Choice> choice = find_choice(statement.value);
  return choice && equal(choice->no, other) ? *choice
                                            : Choice{const_true(), statement.value, other};
}

/// Whether everything that a statement reads along an index of the results lies at its quotient and
/// its residue by the same number, and something at either.
std::optional<Residues> match_digits(const Statement& statement, size_t result) {
  const Iterator& it = statement.domain[result];
  std::set<std::pair<int64_t, int64_t>> found;  // moduli, and residues of offsets by them
  bool quotients = false, remainders = false, others = false;
  const auto add = [&](const Expr& dividend, const Expr& divisor, bool& kind) {
    const auto modulus = as_const_int(divisor);
    const auto offset = as_const_int(simplify(make_variable(it.name) - dividend));
    const bool fits = modulus && *modulus > 1 && offset;
    if (fits) found.insert({*modulus, mod_imp(*offset, *modulus)});
    (fits ? kind : others) = true;
  };
  visit(
      statement.value,
      [&](const Div* op, Visitor& self) {
        if (!expr_uses_var(op->a, it.name)) return self.inside(op);
        add(op->a, op->b, quotients);
      },
      [&](const Mod* op, Visitor& self) {
        if (!expr_uses_var(op->a, it.name)) return self.inside(op);
        add(op->a, op->b, remainders);
      },
      [&](const Variable* op, Visitor&) { others = others || op->name == it.name; });
  if (!quotients || !remainders || others || found.size() != 1) return std::nullopt;
  Residues residues;
  residues.result = result;
  std::tie(residues.modulus, residues.offset) = *found.begin();
  if (residues.modulus >= extent_of(it)) return std::nullopt;
  return residues;
}

/// Those of indices that no condition has tied to one of the reduction, where rows of results are
/// read by them: without that, what lies along rows are vectors already.
void add_digits(const Statement& statement, std::vector<Residues>& all) {
  if (count_points(reduced_indices(statement)) < machine::kTermsOfResidues ||
      reads(statement, statement.tensor))
    return;
  std::vector<Residues> digits;
  bool cuts_rows = false;
  for (size_t i = 0; i < statement.domain.size(); ++i) {
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const Residues& one) { return one.result == i; });
    if (known || statement.domain[i].reduction) continue;
    if (const std::optional<Residues> residues = match_digits(statement, i)) {
      digits.push_back(*residues);
      cuts_rows = cuts_rows || expr_uses_var(statement.subscripts.back(), statement.domain[i].name);
    }
  }
  if (cuts_rows) all.insert(all.end(), digits.begin(), digits.end());
}

/// One for each index of the results that some condition ties to one of the reduction, or whose
/// quotients and residues are what is read.
std::vector<Residues> find_residues(const Statement& statement) {
  if (statement.reduction == Reduction::None || is_scatter(statement) || statement.guard.defined())
    return {};
  std::vector<Residues> all;
  std::set<size_t> used;
  for (const Expr& condition : list_conditions(terms_of(statement).condition)) {
    std::optional<Residues> residues = match_residues(statement, condition);
    if (residues && used.insert(residues->result).second &&
        used.insert(*residues->reduction).second)
      all.push_back(*residues);
  }
  add_digits(statement, all);
  return all;
}

/// The residues of y at which pieces may begin, in order: where the number of quotients of y
/// changes, and where the residue of k wraps around or the number of its quotients changes. There
/// are at most six, whatever the modulus is.
std::set<int64_t> find_firsts(const Residues& residues, int64_t results, int64_t terms) {
  const int64_t modulus = residues.modulus;
  std::set<int64_t> firsts = {0, results % modulus};
  if (!residues.reduction) {
    firsts.insert(residues.offset);
    return firsts;
  }
  for (const int64_t k : {int64_t{0}, terms}) {
    // Residues of k run up to the boundary in front of k or down to it.
    const int64_t y = mod_imp(residues.sign * k + residues.offset, modulus);
    firsts.insert({y, (y + 1) % modulus});
  }
  return firsts;
}

/// In the order of the residues of y. Without `join` each has a piece of its own: loops over
/// residues would be in the way of those over results.
std::vector<ResiduePiece> pieces(const Statement& statement, const Residues& residues, bool join) {
  const int64_t modulus = residues.modulus;
  const int64_t results = extent_of(statement.domain[residues.result]);
  const int64_t terms =
      residues.reduction ? extent_of(statement.domain[*residues.reduction]) : modulus;
  const int64_t end = std::min(modulus, results);
  std::set<int64_t> firsts = find_firsts(residues, results, terms);
  firsts.insert(end);
  std::vector<ResiduePiece> all;
  for (int64_t y = 0; y < end;) {
    const int64_t k =
        residues.reduction ? mod_imp(residues.sign * (y - residues.offset), modulus) : 0;
    ResiduePiece one;
    one.first = y;
    one.count = join ? *firsts.upper_bound(y) - y : 1;
    one.results = divide_up(results - y, modulus);
    one.terms = k < terms ? divide_up(terms - k, modulus) : 0;
    one.slope = residues.sign;
    // Without k, what tells pieces apart is the quotient.
    one.shift = residues.reduction ? k - residues.sign * y : div_imp(y - residues.offset, modulus);
    y += one.count;
    if (join && !all.empty() && all.back().results == one.results &&
        all.back().terms == one.terms && (all.back().shift == one.shift || one.terms == 0))
      all.back().count += one.count;
    else
      all.push_back(one);
  }
  return all;
}

/// Where residues stand in a domain. In front of the first of their indices: indices in front of
/// it are the same for all of them, so that loops over these can be shared with what comes before
/// and behind. Many residues of rows that are sums of few terms stand behind the quotients, in the
/// order of the row: there the last statement takes most of the time, and copies whole rows so.
size_t place_of_residues(const Statement& statement, const std::vector<Residues>& all) {
  size_t first = all.front().result;
  for (const Residues& residues : all) first = std::min(first, residues.result);
  if (first + 1 != kept_indices(statement).size()) return first;
  int64_t terms = count_points(reduced_indices(statement));
  if (all.front().reduction) terms = divide_up(terms, all.front().modulus);
  const int64_t count = std::min(all.front().modulus, extent_of(statement.domain[first]));
  const bool ordered = count >= machine::kOrderedResidues && terms <= machine::kOrderedTerms;
  return ordered ? first + 1 : first;
}

bool have_terms(const std::vector<ResiduePiece>& chosen) {
  return std::all_of(chosen.begin(), chosen.end(),
                     [](const ResiduePiece& p) { return p.terms > 0; });
}

/// The results of these residues.
Statement part_of(const Statement& statement, const std::vector<Residues>& all,
                  const std::vector<ResiduePiece>& chosen, const Tensor* temporary) {
  Statement part = statement;
  if (temporary) {
    part.tensor = temporary->name;
    part.initializes = true;
  }
  part.meaning = concat(statement.tensor, " by residues");
  std::map<std::string, Expr> values;
  std::vector<Iterator> residues_of;
  std::vector<Expr> residue_places;
  const size_t position = place_of_residues(statement, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const ResiduePiece& piece = chosen[i];
    Iterator& y = part.domain[all[i].result];
    const auto modulus = static_cast<int>(all[i].modulus);
    Iterator residue = make_index(statement, y.name + "_residue", static_cast<int>(piece.count),
                                  concat(y.name, " % ", modulus));
    Expr place = static_cast<int>(piece.first);
    if (temporary) place = make_variable(residue.name) + place;
    values[y.name] = make_variable(y.name) * modulus + place;
    y.extent = static_cast<int>(piece.results);
    y.meaning = concat(y.name, " / ", modulus);
    if (all[i].reduction) {
      Iterator& k = part.domain[*all[i].reduction];
      values[k.name] = make_variable(k.name) * modulus + place * static_cast<int>(piece.slope) +
                       static_cast<int>(piece.shift);
      k.extent = static_cast<int>(piece.terms);
      k.meaning = concat(k.name, " / ", modulus);
    }
    residue_places.push_back(simplify(place));
    residues_of.push_back(std::move(residue));
  }
  if (!temporary)
    for (Expr& subscript : part.subscripts)
      subscript = simplify_index(substitute(values, subscript));
  if (temporary) part.subscripts.clear();
  for (size_t i = 0; temporary && i < part.domain.size(); ++i) {
    if (i == position)
      part.subscripts.insert(part.subscripts.end(), residue_places.begin(), residue_places.end());
    if (!part.domain[i].reduction) part.subscripts.push_back(make_variable(part.domain[i].name));
  }
  if (temporary)
    part.domain.insert(part.domain.begin() + static_cast<long>(position), residues_of.begin(),
                       residues_of.end());
  if (have_terms(chosen)) {
    Bounds bounds;
    for (const Iterator& it : part.domain)
      bounds.push(it.name, Interval(0, static_cast<int>(extent_of(it) - 1)));
    auto rewrite = [&](const Expr& e) {
      Expr moved = collect_dividends(substitute(values, e));
      return decide_repeated_conditions(simplify_integers(moved, bounds));
    };
    const Choice choice = terms_of(part);
    const Expr condition = rewrite(choice.condition);
    part.value = rewrite(choice.yes);
    if (!is_const_one(condition)) part.value = choose_lazily(condition, part.value, choice.no);
    return part;
  }
  // No term fits.
  part.value = identity(statement.reduction, statement.value.type());
  assign(part);
  part.domain = kept_indices(part);
  return part;
}

/// A statement for every kind of residues; they write `temporary`, or null for their places. Those
/// without terms are left out where there is something already that they would add nothing to.
std::vector<Statement> fill_residues(const Statement& statement, const std::vector<Residues>& all,
                                     const Tensor* temporary) {
  std::vector<std::vector<ResiduePiece>> choices(1);  // a piece for each index
  for (const Residues& residues : all) {
    std::vector<std::vector<ResiduePiece>> longer;
    for (const std::vector<ResiduePiece>& before : choices)
      for (const ResiduePiece& piece : pieces(statement, residues, temporary != nullptr)) {
        longer.push_back(before);
        longer.back().push_back(piece);
      }
    choices = std::move(longer);
  }
  std::vector<Statement> made;
  for (const std::vector<ResiduePiece>& chosen : choices)
    if (temporary || statement.initializes || have_terms(chosen))
      made.push_back(part_of(statement, all, chosen, temporary));
  if (made.empty()) made.push_back(statement);
  return made;
}

/// A temporary by residues and quotients, the statements that fill it, and the one that stores or
/// adds what it holds.
std::vector<Statement> split_rows(Program& program, const Statement& statement,
                                  const std::vector<Residues>& all) {
  std::map<std::string, Expr> places;  // of quotients, by y
  std::vector<Expr> sizes, subscripts, residue_sizes, residue_subscripts;
  for (const Residues& residues : all) {
    const Iterator& it = statement.domain[residues.result];
    const auto modulus = static_cast<int>(residues.modulus);
    residue_sizes.push_back(static_cast<int>(std::min(residues.modulus, extent_of(it))));
    residue_subscripts.push_back(make_variable(it.name) % modulus);
    places[it.name] = make_variable(it.name) / modulus;
  }
  const size_t position = place_of_residues(statement, all);
  Statement last = statement;
  if (statement.initializes) assign(last);
  last.domain.clear();
  for (size_t i = 0; i < statement.domain.size(); ++i) {
    const Iterator& it = statement.domain[i];
    if (i == position) {
      sizes.insert(sizes.end(), residue_sizes.begin(), residue_sizes.end());
      subscripts.insert(subscripts.end(), residue_subscripts.begin(), residue_subscripts.end());
    }
    if (it.reduction) continue;
    int64_t size = extent_of(it);
    for (const Residues& residues : all)
      if (statement.domain[residues.result].name == it.name)
        size = divide_up(size, residues.modulus);
    sizes.push_back(static_cast<int>(size));
    auto quotient = places.find(it.name);
    subscripts.push_back(quotient == places.end() ? make_variable(it.name) : quotient->second);
    last.domain.push_back(it);
  }
  const Tensor& temporary = add_temporary(program, statement.tensor + ".residues",
                                          program.tensor(statement.tensor).type, sizes);
  last.value = read(temporary, subscripts);

  std::vector<Statement> made = fill_residues(statement, all, &temporary);
  made.push_back(std::move(last));
  return made;
}

std::vector<Statement> split(Program& program, const Statement& statement,
                             const std::vector<Residues>& all) {
  // Rows of results that stay whole are written where they belong.
  int64_t statements = 1;
  bool cuts_rows = false;
  for (const Residues& residues : all) {
    const int64_t results = extent_of(statement.domain[residues.result]);
    statements =
        std::min(statements * std::min(residues.modulus, results), machine::kResidueStatements + 1);
    cuts_rows = cuts_rows ||
                expr_uses_var(statement.subscripts.back(), statement.domain[residues.result].name);
  }
  if (!cuts_rows && statements <= machine::kResidueStatements)
    return fill_residues(statement, all, nullptr);
  return split_rows(program, statement, all);
}

}  // namespace

void split_residues(Program& program) {
  replace_statements(program, [&](const Statement& statement) {
    const std::vector<Residues> all = find_residues(statement);
    return all.empty() ? std::vector<Statement>{statement} : split(program, statement, all);
  });
}

}  // namespace tc::rewrite
