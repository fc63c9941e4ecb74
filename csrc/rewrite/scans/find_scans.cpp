#include "rewrite/scans/find_scans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/scan.h"
#include "ir/visit.h"
#include "rewrite/scans/prefix_reductions.h"
#include "rewrite/scans/split_addends.h"

namespace tc::ir {

namespace {

/// A scan that the program has, whose results statements behind it may read.
struct KnownScan {
  std::string description;
  std::string tensor;
  std::string result;         ///< the index along which it is
  std::vector<Expr> element;  ///< of the tensor, for this index and carried ones
  std::set<std::string> reads;
};

/// The steps of a scan. They run through the results in the order in which these have more terms.
struct Walk {
  Statement scan;                    ///< but for its value
  std::vector<Expr> sizes, element;  ///< of the tensor that it writes, and of the result in that
  Expr index;                        ///< of the step
  Expr at, one_back;                 ///< the results of the step and of the one before
};

/// Where carried indices are among those of the results: neighbours in most of what is read
/// are neighbours in what is written.
size_t place_carried(const Statement& statement, const Prefix& prefix,
                     const std::vector<Iterator>& carried) {
  const size_t behind = statement.subscripts.size();
  if (carried.empty() || behind == 0) return behind;
  const auto* last = statement.subscripts.back().as<Variable>();
  if (!last || last->name == prefix.result.name) return behind;
  auto along = [&](const std::string& index) {
    return elements_along(index, statement.value, statement.domain);
  };
  return along(carried.back().name) > along(last->name) ? behind : behind - 1;
}

Walk make_walk(const Statement& statement, const Prefix& prefix) {
  Walk walk{statement, {}, statement.subscripts, {}, {}, {}};
  const std::vector<Iterator> carried = carried_indices(prefix);
  Iterator step = prefix.result;
  step.reduction = true;
  walk.scan.domain.clear();
  for (const Iterator& it : statement.domain)
    if (!it.reduction && it.name != prefix.result.name) walk.scan.domain.push_back(it);
  walk.scan.domain.insert(walk.scan.domain.end(), carried.begin(), carried.end());
  walk.scan.domain.push_back(step);
  walk.index = make_variable(step.name);
  const int last = static_cast<int>(extent_of(prefix.result)) - 1;
  walk.at = prefix.up_to ? walk.index : last - walk.index;
  walk.one_back = prefix.up_to ? walk.at - 1 : walk.at + 1;
  assign(walk.scan);
  return walk;
}

class FindScans {
 public:
  explicit FindScans(Program& program) : program_(program), reductions_(program) {}

  std::vector<Statement> rewrite(const Statement& statement) {
    forget(statement.tensor);
    if (const std::optional<Prefix> prefix = reductions_.go_on(statement))
      return rewrite(statement, *prefix);
    const auto parts = split_until(
        statement, [&](const Statement& part) { return reductions_.find(part).has_value(); });
    if (parts) {
      std::vector<Statement> made;
      for (const Statement& part : *parts) {
        forget(statement.tensor);
        for (Statement& scan : rewrite(part, *reductions_.find(part)))
          made.push_back(std::move(scan));
      }
      return made;
    }
    return {statement};
  }

 private:
  std::vector<Statement> rewrite(const Statement& statement, Prefix prefix) {
    std::vector<Statement> statements;
    if (reduced_indices(statement).size() > 1 + prefix.carried.size()) {
      statements.push_back(make_terms(statement, prefix));
      const Statement& made = statements.back();
      prefix.value = read(program_.tensor(made.tensor), made.subscripts);
    }
    const std::string description = describe(statement, prefix);
    const KnownScan* known = find_known(description);

    Walk walk = make_walk(statement, prefix);
    place(walk, statement, prefix);
    Expr result;
    if (known) {
      result = graph_substitute({{known->result, make_variable(prefix.result.name)}},
                                read(program_.tensor(known->tensor), known->element));
    } else {
      if (is_apart(statement, prefix)) write_scan(walk, statement, prefix);
      const Expr term = at_term(prefix.value, walk, prefix);
      walk.scan.value = make_scan(start(walk, prefix), term);
      statements.push_back(walk.scan);
      know(description, walk, prefix);
      if (!is_apart(statement, prefix)) return statements;
      result = read(program_.tensor(walk.scan.tensor), walk.element);
    }
    std::vector<Expr> sums = {result};  // with each power of the factor with increments
    const int degree = prefix.recurrence ? prefix.recurrence->degree : 0;
    while (static_cast<int>(sums.size()) <= degree) {
      const Expr term = power_term(sums, start(walk, prefix), walk, prefix);
      write_scan(walk, statement, prefix);
      walk.scan.value = make_scan(start(walk, prefix), term);
      statements.push_back(walk.scan);
      sums.push_back(read(program_.tensor(walk.scan.tensor), walk.element));
    }
    statements.push_back(make_result(statement, prefix, sums.back()));
    return statements;
  }

  /// Whether the results are not the scan's as they are.
  static bool is_apart(const Statement& statement, const Prefix& prefix) {
    return prefix.elsewhere.defined() || prefix.outside.defined() || !prefix.factors.empty() ||
           !prefix.carried.empty() || (prefix.rescaled && prefix.rescaled->outside.defined()) ||
           (prefix.recurrence && prefix.recurrence->degree > 0) ||
           prefix.value.type() != statement.value.type() || !statement.initializes;
  }

  /// Where the steps write.
  void place(Walk& walk, const Statement& statement, const Prefix& prefix) const {
    const std::vector<Iterator> carried = carried_indices(prefix);
    const auto place = static_cast<std::ptrdiff_t>(place_carried(statement, prefix, carried));
    walk.sizes = program_.tensor(statement.tensor).sizes;
    for (auto it = carried.rbegin(); it != carried.rend(); ++it) {
      walk.sizes.insert(walk.sizes.begin() + place, it->extent);
      walk.element.insert(walk.element.begin() + place, make_variable(it->name));
    }
    walk.scan.subscripts = walk.element;
    for (Expr& subscript : walk.scan.subscripts)
      if (expr_uses_var(subscript, prefix.result.name)) subscript = walk.at;
  }

  void write_scan(Walk& walk, const Statement& statement, const Prefix& prefix) {
    walk.scan.tensor =
        add_temporary(program_, statement.tensor + ".scan", prefix.value.type(), walk.sizes).name;
  }

  /// What the steps go on from.
  Scan start(const Walk& walk, const Prefix& prefix) const {
    Scan from;
    from.reduction = prefix.reduction;
    from.position = walk.index;
    from.neighbour = at_result(read(program_.tensor(walk.scan.tensor), walk.element), prefix,
                               simplify(walk.one_back));
    if (prefix.segment.defined()) {
      auto segment = [&](const Expr& place) {
        return substitute(prefix.term.name, simplify(place), prefix.segment);
      };
      from.goes_on = segment(walk.at) == segment(walk.one_back);
    }
    if (prefix.rescaled) rescale(from, walk, prefix);
    if (!prefix.recurrence) return from;
    auto here = [&](const Expr& e) { return at_result(e, prefix, walk.at); };
    from.adds = prefix.recurrence->adds;
    if (!is_const_one(prefix.recurrence->step) || from.adds)
      from.scale = Halide::cast(prefix.value.type(), here(prefix.recurrence->step));
    if (prefix.recurrence->may_end) {
      const Expr goes_on = from.scale != make_zero(from.scale.type());
      from.goes_on = from.goes_on.defined() ? from.goes_on && goes_on : goes_on;
    }
    return from;
  }

  static void rescale(Scan& from, const Walk& walk, const Prefix& prefix) {
    const RescaledTerm& rescaled = *prefix.rescaled;
    // Where it falls, the level is that of the term that a result has first.
    auto place = [&](const Expr& result) {
      return simplify(rescaled.falls ? result + static_cast<int>(prefix.offset) : result);
    };
    const Expr first = place(rescaled.falls ? walk.at : walk.one_back);
    const Expr second = place(rescaled.falls ? walk.one_back : walk.at);
    const Expr low = at_result(rescaled.level.read, prefix, first);
    const Expr high = at_result(rescaled.level.read, prefix, second);
    const Expr lowest = identity(Reduction::Max, low.type());
    Expr same = low == high, difference = low - high;
    if (rescaled.level.step.defined()) {
      // Levels are rounded, and so may their difference be nothing where the step is small: that
      // of both is exact, in front of the step.
      same = same && (high == lowest || high == identity(Reduction::Min, low.type()));
      difference = difference + at_result(rescaled.level.step, prefix, second);
    }
    const Expr scale =
        Halide::select(same, make_one(low.type()), math("exp", low.type(), {difference}));
    from.scale = Halide::cast(prefix.value.type(), scale);
    // Terms at a level of -infinity are NaN, and nothing at any other level.
    if (!rescaled.falls) from.goes_on = low > lowest || same;
    const Expr exist = has_terms(prefix, walk.one_back);
    if (exist.defined())
      from.scale = choose_lazily(simplify(exist), from.scale, make_one(from.scale.type()));
  }

  static Expr at_result(const Expr& e, const Prefix& prefix, const Expr& place) {
    return substitute(prefix.result.name, place, e);
  }

  /// Of the term that the result of a step has first, which may not exist.
  static Expr at_term(const Expr& e, const Walk& walk, const Prefix& prefix) {
    const Expr value =
        substitute(prefix.term.name, simplify(walk.at + static_cast<int>(prefix.offset)), e);
    const Expr exists = has_new_term(prefix, walk.at);
    return exists.defined() ? choose_lazily(exists, value, identity(prefix.reduction, value.type()))
                            : value;
  }

  /// The term of a scan with one power more of the factor with increments than the last of the sums
  /// has: (g + i)^k is the sum of (k over j) * i^(k - j) * g^j.
  static Expr power_term(const std::vector<Expr>& sums, const Scan& from, const Walk& walk,
                         const Prefix& prefix) {
    const Recurrence& recurrence = *prefix.recurrence;
    const Type type = sums.front().type();
    auto power = [&](const Expr& e, size_t by) {
      Expr made = Halide::cast(type, e);
      for (size_t k = 1; k < by; ++k) made = made * Halide::cast(type, e);
      return made;
    };
    const Expr increment = at_result(recurrence.increment, prefix, walk.at);
    Expr term;
    double over = 1;  // of the binomial theorem
    for (size_t j = 0; j < sums.size(); ++j) {
      Expr part =
          at_result(sums[j], prefix, simplify(walk.one_back)) * power(increment, sums.size() - j);
      if (over != 1) part = part * Halide::Internal::make_const(type, over);
      term = term.defined() ? term + part : part;
      over = over * static_cast<double>(sums.size() - j) / static_cast<double>(j + 1);
    }
    if (from.scale.defined()) term = term * from.scale;
    if (prefix.rescaled && from.goes_on.defined())
      term = choose_lazily(from.goes_on, term, make_zero(type));
    term = choose_lazily(walk.index > 0, term, make_zero(type));
    return term +
           at_term(prefix.value * power(recurrence.first_increment, sums.size()), walk, prefix);
  }

  /// The statement's results as those of the scan.
  Statement make_result(const Statement& statement, const Prefix& prefix, const Expr& result) {
    Statement last = statement;
    last.domain = kept_indices(statement);
    last.domain.insert(last.domain.end(), prefix.carried.begin(), prefix.carried.end());
    last.value = result;
    if (prefix.rescaled && prefix.rescaled->outside.defined()) {
      last.value = last.value * prefix.rescaled->outside;
      const Expr exist = has_terms(prefix, make_variable(prefix.result.name));
      if (exist.defined())
        last.value = choose_lazily(simplify(exist), last.value, make_zero(last.value.type()));
    }
    if (!prefix.factors.empty()) last.value = multiply_result(last.value, statement, prefix);
    last.value = Halide::cast(statement.value.type(), last.value);
    const Expr same = identity(statement.reduction, last.value.type());
    if (prefix.outside.defined()) last.value = choose_lazily(prefix.outside, last.value, same);
    if (prefix.elsewhere.defined()) {
      const Expr d = make_variable(prefix.result.name);
      const int terms = static_cast<int>(extent_of(prefix.term)),
                offset = static_cast<int>(prefix.offset);
      const Expr others = prefix.up_to ? d + offset < terms - 1 : d + offset > 0;
      last.value = combine(statement.reduction, last.value,
                           choose_lazily(simplify(others), prefix.elsewhere, same));
    }
    if (statement.initializes && prefix.carried.empty()) assign(last);
    return last;
  }

  /// A reduction of terms with the factors that these are without, in the type of the statement. A
  /// sum of no terms is 0 whatever they are.
  static Expr multiply_result(const Expr& sum, const Statement& statement, const Prefix& prefix) {
    const Type type = statement.value.type();
    Expr value = sum;
    for (Factor factor : prefix.factors) {
      factor.value = Halide::cast(sum.type(), factor.value);
      value = multiply(value, factor);
    }
    value = Halide::cast(type, value);
    const Expr exist = has_terms(prefix, make_variable(prefix.result.name));
    return exist.defined()
               ? choose_lazily(simplify(exist), value, identity(statement.reduction, type))
               : value;
  }

  /// The reduction of what every term is made of, over the indices that are not compared.
  Statement make_terms(const Statement& statement, const Prefix& prefix) {
    const std::vector<Iterator> carried = carried_indices(prefix);
    Statement made = statement;
    made.domain.clear();
    for (const Iterator& it : kept_indices(statement))
      if (expr_uses_var(prefix.value, it.name)) made.domain.push_back(it);
    made.domain.insert(made.domain.end(), carried.begin(), carried.end());
    // The others are no terms of any result, and may read where nothing is.
    Iterator term = prefix.term;
    if (prefix.up_to)
      term.extent =
          static_cast<int>(std::min(extent_of(term), extent_of(prefix.result) + prefix.offset));
    term.reduction = false;
    made.domain.push_back(term);
    const std::vector<Iterator> over = made.domain;
    for (const Iterator& it : reduced_indices(statement))
      if (it.name != term.name && !find_index(prefix.carried, it.name)) made.domain.push_back(it);
    made.value = prefix.value;
    if (!prefix.up_to && prefix.offset > 0)
      made.value = choose_lazily(make_variable(term.name) >= static_cast<int>(prefix.offset),
                                 made.value, identity(statement.reduction, made.value.type()));
    made.initializes = true;
    made.meaning.clear();
    write_temporary(program_, made, statement.tensor + ".terms", made.value.type(), over);
    return made;
  }

  // ---- scans that are equal

  /// What a scan sums, whatever the order of its factors, by the names of indices.
  static std::string describe(const Statement& statement, const Prefix& prefix) {
    const std::map<std::string, Expr> roles = {{prefix.result.name, make_variable("@result")},
                                               {prefix.term.name, make_variable("@term")}};
    std::set<std::string> indices;
    std::vector<Iterator> scanned = kept_indices(statement);
    for (const Iterator& it : carried_indices(prefix)) scanned.push_back(it);
    for (const Iterator& it : scanned)
      if (it.name != prefix.result.name) indices.insert(concat(it.name, " ", it.extent));
    const auto* wide = prefix.value.as<Cast>();
    Statement product = statement;
    product.value = wide ? wide->value : prefix.value;
    std::multiset<std::string> factors;
    for (const Factor& factor : factors_of(product))
      factors.insert(concat(factor.divides ? "/" : "*", graph_substitute(roles, factor.value)));
    std::ostringstream text;
    text << spelling(prefix.reduction) << " of " << prefix.value.type() << " to " << prefix.up_to
         << prefix.offset << " in " << prefix.result.extent << " of " << prefix.term.extent;
    for (const std::string& index : indices) text << ", " << index;
    for (const std::string& factor : factors) text << factor;
    if (prefix.rescaled)
      text << " below " << graph_substitute(roles, prefix.rescaled->level.read)
           << (prefix.rescaled->falls ? " of terms" : "");
    if (prefix.segment.defined()) text << " at " << graph_substitute(roles, prefix.segment);
    if (prefix.recurrence && !is_const_one(prefix.recurrence->step))
      text << (prefix.recurrence->adds ? " plus " : " by ")
           << graph_substitute(roles, prefix.recurrence->step);
    return text.str();
  }

  const KnownScan* find_known(const std::string& description) const {
    for (const KnownScan& known : known_)
      if (known.description == description) return &known;
    return nullptr;
  }

  void know(const std::string& description, const Walk& walk, const Prefix& prefix) {
    KnownScan known{description, walk.scan.tensor, prefix.result.name, walk.element,
                    names_read(walk.scan.value)};
    known.reads.erase(known.tensor);
    known_.push_back(std::move(known));
  }

  /// A tensor is about to be written.
  void forget(const std::string& tensor) {
    auto changes = [&](const KnownScan& known) {
      return known.tensor == tensor || known.reads.count(tensor) != 0;
    };
    known_.erase(std::remove_if(known_.begin(), known_.end(), changes), known_.end());
  }

  Program& program_;
  PrefixReductions reductions_;
  std::vector<KnownScan> known_;
};

}  // namespace

std::optional<double> scan_operations(const Program& program, const Statement& statement) {
  const std::optional<Prefix> prefix = PrefixReductions(program).find(statement);
  return prefix ? std::optional(operations_of(statement, *prefix)) : std::nullopt;
}

void find_scans(Program& program) {
  FindScans scans(program);
  replace_statements(program, [&](const Statement& statement) { return scans.rewrite(statement); });
}

}  // namespace tc::ir
