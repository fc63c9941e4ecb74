#include "rewrite/algebra/find_scans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/scan.h"
#include "ir/visit.h"
#include "machine/limits.h"
#include "rewrite/algebra/rescaled_sums.h"
#include "rewrite/algebra/scaled_terms.h"
#include "rewrite/domains/inside.h"

namespace tc::ir {

namespace {

/// What a comparison of integers says is not negative.
std::optional<Expr> not_negative(const Expr& condition, bool holds = true) {
  if (const auto* op = condition.as<Not>()) return not_negative(op->a, !holds);
  auto difference = [&](const Expr& more, const Expr& less, bool strict) -> std::optional<Expr> {
    if (more.type() != Halide::Int(32)) return std::nullopt;
    // more > less, or not: less >= more.
    Expr e = holds ? more - less : less - more;
    return strict == holds ? e - 1 : e;
  };
  if (const auto* op = condition.as<LE>()) return difference(op->b, op->a, false);
  if (const auto* op = condition.as<GE>()) return difference(op->a, op->b, false);
  if (const auto* op = condition.as<LT>()) return difference(op->b, op->a, true);
  if (const auto* op = condition.as<GT>()) return difference(op->a, op->b, true);
  return std::nullopt;
}

/// A reduction whose terms are those with term <= result + offset, or those with term >= result +
/// offset.
struct Prefix {
  Iterator result, term;
  bool up_to = true;
  int64_t offset = 0;
  Expr value;      ///< of every term
  Expr elsewhere;  ///< undefined where it is the identity
  /// Which results have terms at all; undefined: all that the comparison leaves some.
  Expr outside;
  /// A read at the term. Only terms count for which it is what it is for the result; undefined:
  /// all.
  Expr segment;
  std::optional<RescaledTerm> rescaled;  ///< of which `value` is then the value
  std::vector<Factor> factors;           ///< of each result, which terms are without
  /// Indices of the reduction that these factors have: each point of them has a scan of its own,
  /// and the results are summed over them.
  std::vector<Iterator> beside;
};

/// What is maximal up to an index, or from it on.
struct Rising {
  size_t dimension = 0;
  bool up_to = true;
  Expr value;                         ///< of which it is the maximum
  std::string term;                   ///< the index that this runs along
  std::vector<std::string> elements;  ///< the indices of the elements written
};

/// The condition's opposite, without `||`, of which the second part may be evaluated lazily.
Expr negate(const Expr& condition) {
  if (const auto* either = condition.as<Or>()) return negate(either->a) && negate(either->b);
  if (auto lazy = find_choice(condition); lazy && is_const_one(lazy->yes))
    return negate(lazy->condition) && negate(lazy->no);
  return Not::make(condition);
}

/// Whether the term changes no result; data may be no number whatever it is multiplied by.
bool is_identity(const Expr& term, Reduction reduction) {
  return !has_data(term) && equal(simplify(term), simplify(identity(reduction, term.type())));
}

/// Whether an integer cannot be negative.
bool is_natural(const Expr& e) {
  if (auto choice = find_choice(e)) return is_natural(choice->yes) && is_natural(choice->no);
  return e.type().is_int_or_uint() && can_prove(e >= 0);
}

/// The most that an integer can be, as far as that is a number of 64 bits.
std::optional<int64_t> most_of(const Expr& e) {
  if (auto choice = find_choice(e)) {
    const std::optional<int64_t> yes = most_of(choice->yes), no = most_of(choice->no);
    return yes && no ? std::optional(std::max(*yes, *no)) : std::nullopt;
  }
  const Expr most = find_constant_bound(e, Direction::Upper);
  return most.defined() ? as_const_int(simplify(Halide::cast(Halide::Int(64), most)))
                        : std::nullopt;
}

/// Whether sums of so many of these terms only grow: terms are not negative, and sums do not wrap
/// around.
bool only_grows(const Expr& term, int64_t terms) {
  const std::optional<int64_t> most = most_of(term), limit = most_of(term.type().max());
  return most && limit && is_natural(term) && *most <= *limit / terms;
}

class Find {
 public:
  explicit Find(Program& program) : program_(program) {}

  std::vector<Statement> scan(const Statement& statement) {
    // Levels of what is written now are levels of something else afterwards.
    for (auto level = rising_.begin(); level != rising_.end();)
      level =
          reads(level->second.value, statement.tensor) ? rising_.erase(level) : std::next(level);
    const std::optional<Prefix> prefix = find(statement);
    return prefix ? scan(statement, *prefix) : std::vector<Statement>{statement};
  }

  std::optional<double> operations(const Statement& statement) const {
    const std::optional<Prefix> prefix = find(statement);
    return prefix ? std::optional(operations(statement, *prefix)) : std::nullopt;
  }

 private:
  std::optional<Prefix> find(const Statement& statement) const {
    const Type type = program_.tensor(statement.tensor).type;
    std::optional<Choice> choice = find_choice(statement.value);
    if (statement.reduction == Reduction::None || !choice || type.is_bool() ||
        statement.guard.defined() || is_scatter(statement) || reads(statement, statement.tensor))
      return std::nullopt;
    // The simplifier joins a choice inside of another one with it: !(k <= d) || c ? 0 : 1.
    const bool turned = is_identity(choice->yes, statement.reduction);
    if (turned) std::swap(choice->yes, choice->no);
    const std::vector<Expr> terms =
        list_conditions(turned ? negate(choice->condition) : choice->condition);
    for (size_t t = 0; t < terms.size(); ++t) {
      std::vector<Expr> others = terms;
      others.erase(others.begin() + static_cast<long>(t));
      std::optional<Prefix> prefix = compare(statement, terms[t]);
      if (prefix && complete(statement, *choice, others, *prefix)) return prefix;
    }
    return std::nullopt;
  }

  /// The comparison of a reduction's index with one of the results, if there is nothing else in it.
  static std::optional<Prefix> compare(const Statement& statement, const Expr& condition) {
    std::optional<Expr> e = not_negative(condition);
    if (!e) return std::nullopt;
    for (const Iterator& result : statement.domain)
      for (const Iterator& term : statement.domain) {
        if (result.reduction || !term.reduction) continue;
        const Expr distance = make_variable(result.name) - make_variable(term.name);
        // term <= result + offset, or result - offset <= term.
        if (auto offset = as_const_int(simplify(*e - distance)))
          return Prefix{result, term, true, *offset, {}, {}, {}, {}, {}, {}, {}};
        if (auto offset = as_const_int(simplify(*e + distance)))
          return Prefix{result, term, false, -*offset, {}, {}, {}, {}, {}, {}, {}};
      }
    return std::nullopt;
  }

  bool complete(const Statement& statement, const Choice& choice, const std::vector<Expr>& others,
                Prefix& prefix) const {
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
    prefix.value = inside.defined() ? choose_lazily(inside, choice.yes, choice.no) : choice.yes;
    // The scan has the terms of all results, also of those that do not exist.
    if (prefix.outside.defined() &&
        rewrite::reads_outside(prefix.value, program_, statement.domain))
      return false;
    if (!is_identity(choice.no, statement.reduction)) {
      if (!is_extreme(statement.reduction) || !others.empty() ||
          count_points(reduced_indices(statement)) == 0)
        return false;
      // The first term once more says nothing new.
      const bool has_first = prefix.up_to || terms >= results + prefix.offset;
      const Expr first = prefix.up_to ? 0 : static_cast<int>(terms - 1);
      if (prefix.offset == 0 && has_first &&
          equal(simplify_integers(substitute(prefix.term.name, first, prefix.value), {}),
                simplify_integers(choice.no, {})))
        return !expr_uses_var(prefix.value, prefix.result.name);
      for (const Iterator& it : statement.domain)
        if ((it.reduction || it.name == prefix.result.name) && expr_uses_var(choice.no, it.name))
          return false;
      prefix.elsewhere = choice.no;
    }
    if (!expr_uses_var(prefix.value, prefix.result.name)) return true;
    if (statement.reduction != Reduction::Sum) return false;
    return rescale(statement, prefix) || take_out_factors(statement, choice, inside, prefix);
  }

  bool rescale(const Statement& statement, Prefix& prefix) const {
    if (prefix.offset != 0 || extent_of(prefix.term) != extent_of(prefix.result) ||
        prefix.segment.defined())
      return false;
    prefix.rescaled = find_rescaled(prefix.value, prefix.result.name, prefix.term.name,
                                    [&](const Expr& read, const Expr& exponent, bool falls) {
                                      return is_level(statement, prefix, read, exponent, falls);
                                    });
    if (!prefix.rescaled) return false;
    prefix.value = prefix.rescaled->value;
    return true;
  }

  /// Whether the result's index is only in factors of all terms, which then are without these.
  /// `inside` are conditions of terms, if there are any.
  bool take_out_factors(const Statement& statement, const Choice& choice, const Expr& inside,
                        Prefix& prefix) const {
    std::optional<ScaledTerm> scaled =
        find_scaled(statement, choice.yes, prefix.result.name, prefix.term.name);
    if (!scaled) return false;
    prefix.value = scaled->value;
    if (inside.defined()) {
      // A result may have no term, and is 0 then, whatever its factors are.
      if (expr_uses_var(inside, prefix.result.name) ||
          !keep_zero(scaled->factors, statement.domain))
        return false;
      // The condition may be what keeps their reads inside.
      for (const Factor& factor : scaled->factors)
        if (rewrite::reads_outside(factor.value, program_, statement.domain)) return false;
      prefix.value = choose_lazily(inside, prefix.value, choice.no);
    }
    prefix.factors = std::move(scaled->factors);
    for (const Iterator& it : reduced_indices(statement))
      if (std::any_of(prefix.factors.begin(), prefix.factors.end(),
                      [&](const Factor& factor) { return factor.indices.count(it.name) != 0; }))
        prefix.beside.push_back(it);
    if (!prefix.beside.empty()) return is_worthwhile(statement, choice, prefix);
    // The sum may be larger than any that the text makes.
    if (prefix.value.type() == Halide::Float(32))
      prefix.value = Halide::cast(Halide::Float(64), prefix.value);
    return true;
  }

  /// Whether scans at all points of other indices of the reduction cost less than the sums of the
  /// text, and do not take too much memory.
  bool is_worthwhile(const Statement& statement, const Choice& choice, const Prefix& prefix) const {
    Statement product = statement;
    product.value = choice.yes;
    const double now =
        points_of(statement.domain) * static_cast<double>(factors_of(product).size());
    const double bytes = points_of(scanned_indices(statement, prefix)) * choice.yes.type().bytes();
    double most = machine::kNestedBytes;
    for (const Call* read : reads_of(statement))
      if (const auto tensor = program_.tensors.find(read_name(read));
          tensor != program_.tensors.end()) {
        double size = tensor->second.type.bytes();
        for (const Expr& extent : tensor->second.sizes)
          size *= static_cast<double>(*as_const_int(extent));
        most = std::max(most, size);
      }
    return bytes <= most && operations(statement, prefix) <= machine::kNestedShare * now;
  }

  static double operations(const Statement& statement, const Prefix& prefix) {
    return points_of(scanned_indices(statement, prefix)) * machine::kScannedOperations;
  }

  /// The results, and the indices beside them that terms have.
  static std::vector<Iterator> scanned_indices(const Statement& statement, const Prefix& prefix) {
    std::vector<Iterator> indices = kept_indices(statement);
    for (const Iterator& it : terms_beside(prefix)) indices.push_back(it);
    return indices;
  }

  static std::vector<Iterator> terms_beside(const Prefix& prefix) {
    std::vector<Iterator> indices;
    for (Iterator it : prefix.beside) {
      it.reduction = false;
      if (expr_uses_var(prefix.value, it.name)) indices.push_back(it);
    }
    return indices;
  }

  /// Where the indices beside results are among those of the scan: neighbours in what is read are
  /// neighbours in what is written.
  static size_t place_beside(const Statement& statement, const Prefix& prefix,
                             const std::vector<Iterator>& beside) {
    const size_t behind = statement.subscripts.size();
    if (beside.empty() || behind == 0) return behind;
    const auto* last = statement.subscripts.back().as<Variable>();
    if (!last || last->name == prefix.result.name) return behind;
    auto rows_along = [&](const std::string& index) {
      int rows = 0;
      for_each<Call>(prefix.value, [&](const Call* call) {
        rows += !read_name(call).empty() && !call->args.empty() &&
                expr_uses_var(call->args.back(), index);
      });
      return rows;
    };
    return rows_along(beside.back().name) > rows_along(last->name) ? behind : behind - 1;
  }

  /// Whether it reads, at the result's index, the largest of these exponents up to there, or from
  /// there on; where it falls, at the term's index. Other levels may be far below the exponents:
  /// the exponential of a difference is infinite, and another one's 0.
  bool is_level(const Statement& statement, const Prefix& prefix, const Expr& e,
                const Expr& exponent, bool falls) const {
    const auto* read = e.as<Call>();
    auto found = read ? rising_.find(read_name(read)) : rising_.end();
    if (found == rising_.end() || found->second.up_to != (prefix.up_to != falls) ||
        e.type() != program_.tensor(statement.tensor).type)
      return false;
    const Rising& level = found->second;
    if (!is_read_at(statement, prefix, *read, level.dimension,
                    falls ? prefix.term.name : prefix.result.name))
      return false;
    std::map<std::string, Expr> here = {
        {level.term, make_variable(falls ? prefix.result.name : prefix.term.name)}};
    for (size_t d = 0; d < read->args.size(); ++d)
      if (d != level.dimension) here[level.elements[d]] = read->args[d];
    return equal(graph_substitute(here, level.value), exponent);
  }

  /// Whether it is read at the index in this dimension, and what else says where is no reduction's
  /// index, nor the result's that the scan walks along.
  static bool is_read_at(const Statement& statement, const Prefix& prefix, const Call& read,
                         size_t dimension, const std::string& index) {
    if (!is_variable(read.args[dimension], index)) return false;
    for (size_t d = 0; d < read.args.size(); ++d)
      if (d != dimension && (expr_uses_var(read.args[d], prefix.result.name) ||
                             uses_reduction(statement, read.args[d])))
        return false;
    return true;
  }

  static bool is_extreme(Reduction reduction) {
    return reduction == Reduction::Min || reduction == Reduction::Max;
  }

  static bool uses_reduction(const Statement& statement, const Expr& e) {
    return std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Iterator& it) {
      return it.reduction && expr_uses_var(e, it.name);
    });
  }

  /// The dimension of the tensor written whose subscript is the index alone.
  static std::optional<size_t> dimension_of(const Statement& statement, const std::string& index) {
    for (size_t d = 0; d < statement.subscripts.size(); ++d)
      if (is_variable(statement.subscripts[d], index)) return d;
    return std::nullopt;
  }

  /// M(n, k) of M(n, k) == M(n, d), if M only grows, or only falls, along this dimension: then
  /// places of one value follow each other. Every result has its own term. Undefined for anything
  /// else.
  Expr find_segment(const Statement& statement, const Expr& condition, const Prefix& prefix) const {
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

  /// Notes where a scan's results only grow or only fall.
  void note_monotone(const Statement& statement, const Prefix& prefix) {
    const auto writes = [&](const Statement& other) { return other.tensor == statement.tensor; };
    const auto& all = program_.statements;
    if (prefix.segment.defined() || prefix.rescaled ||
        std::count_if(all.begin(), all.end(), writes) != 1)
      return;
    const size_t dimension = *dimension_of(statement, prefix.result.name);
    const Type type = program_.tensor(statement.tensor).type;
    // What is compared with NaN is not equal to itself.
    if (type.is_int_or_uint() &&
        (is_extreme(statement.reduction) || (statement.reduction == Reduction::Sum &&
                                             only_grows(prefix.value, extent_of(prefix.term)))))
      monotone_[statement.tensor] = dimension;
    // A level is no less than the term of the sum that it is for.
    if (!type.is_float() || statement.reduction != Reduction::Max || prefix.offset != 0 ||
        extent_of(prefix.term) != extent_of(prefix.result))
      return;
    Rising level = {dimension, prefix.up_to, prefix.value, prefix.term.name, {}};
    for (const Expr& subscript : statement.subscripts) {
      const auto* index = subscript.as<Variable>();
      if (!index) return;
      level.elements.push_back(index->name);
    }
    rising_[statement.tensor] = level;
  }

  std::vector<Statement> scan(const Statement& statement, Prefix prefix) {
    std::vector<Statement> statements;
    const int results = static_cast<int>(extent_of(prefix.result));
    const int terms = static_cast<int>(extent_of(prefix.term)),
              offset = static_cast<int>(prefix.offset);
    const Expr same = identity(statement.reduction, prefix.value.type());
    const std::vector<Iterator> beside = terms_beside(prefix);
    if (reduced_indices(statement).size() > 1 + prefix.beside.size()) {
      statements.push_back(make_terms(statement, prefix, beside));
      const Statement& made = statements.back();
      prefix.value = read(program_.tensor(made.tensor), made.subscripts);
    }

    // The index runs through the results in the order in which they have more terms.
    Statement scan = statement;
    Iterator step = prefix.result;
    step.reduction = true;
    scan.domain.clear();
    for (const Iterator& it : statement.domain)
      if (!it.reduction && it.name != prefix.result.name) scan.domain.push_back(it);
    scan.domain.insert(scan.domain.end(), beside.begin(), beside.end());
    scan.domain.push_back(step);
    const auto place = static_cast<std::ptrdiff_t>(place_beside(statement, prefix, beside));
    std::vector<Expr> sizes = program_.tensor(statement.tensor).sizes,
                      element = statement.subscripts;
    for (auto it = beside.rbegin(); it != beside.rend(); ++it) {
      sizes.insert(sizes.begin() + place, it->extent);
      element.insert(element.begin() + place, make_variable(it->name));
    }
    scan.subscripts = element;
    const Expr index = make_variable(step.name);
    const Expr at = prefix.up_to ? index : (results - 1) - index;
    for (Expr& subscript : scan.subscripts)
      if (expr_uses_var(subscript, prefix.result.name)) subscript = at;
    const bool apart = prefix.elsewhere.defined() || prefix.outside.defined() ||
                       (prefix.rescaled && prefix.rescaled->outside.defined()) ||
                       !prefix.factors.empty() || !statement.initializes;
    if (apart)
      scan.tensor =
          add_temporary(program_, statement.tensor + ".scan", prefix.value.type(), sizes).name;
    else
      note_monotone(statement, prefix);

    std::vector<Expr> before = scan.subscripts;
    for (Expr& subscript : before)
      if (expr_uses_var(subscript, step.name))
        subscript = simplify(substitute(step.name, index - 1, subscript));
    const Expr next = simplify(at + offset);
    Expr value = substitute(prefix.term.name, next, prefix.value);
    Expr exists;
    if (offset < 0) exists = next >= 0;
    if (results - 1 + offset >= terms)
      exists = exists.defined() ? exists && next < terms : next < terms;
    if (exists.defined()) value = choose_lazily(exists, value, same);
    Scan from;
    from.reduction = statement.reduction;
    from.position = index;
    from.neighbour = read(program_.tensor(scan.tensor), before);
    const Expr one_back = prefix.up_to ? at - 1 : at + 1;
    if (prefix.segment.defined()) {
      auto segment = [&](const Expr& place) {
        return substitute(prefix.term.name, simplify(place), prefix.segment);
      };
      from.goes_on = segment(at) == segment(one_back);
    }
    if (prefix.rescaled) {
      auto level = [&](const Expr& place) {
        return substitute(prefix.result.name, simplify(place), prefix.rescaled->level);
      };
      const Expr low = level(prefix.rescaled->falls ? at : one_back);
      const Expr high = level(prefix.rescaled->falls ? one_back : at);
      from.scale =
          Halide::select(low == high, make_one(low.type()), math("exp", low.type(), {low - high}));
      // Terms at a level of -infinity are NaN, and nothing at any other level.
      const Expr lowest = -identity(Reduction::Min, low.type());
      if (!prefix.rescaled->falls) from.goes_on = low > lowest || low == high;
    }
    scan.value = make_scan(from, value);
    assign(scan);
    statements.push_back(scan);
    if (!apart) return statements;

    Statement last = statement;
    last.domain = kept_indices(statement);
    last.domain.insert(last.domain.end(), prefix.beside.begin(), prefix.beside.end());
    last.value = read(program_.tensor(scan.tensor), element);
    if (prefix.rescaled && prefix.rescaled->outside.defined())
      last.value = last.value * prefix.rescaled->outside;
    if (!prefix.factors.empty()) last.value = multiply_result(last.value, statement, prefix);
    if (prefix.outside.defined())
      last.value = choose_lazily(prefix.outside, last.value,
                                 identity(statement.reduction, last.value.type()));
    if (prefix.elsewhere.defined()) {
      const Expr d = make_variable(prefix.result.name);
      const Expr others = prefix.up_to ? d + offset < terms - 1 : d + offset > 0;
      last.value = combine(statement.reduction, last.value,
                           choose_lazily(simplify(others), prefix.elsewhere, same));
    }
    if (statement.initializes && prefix.beside.empty()) assign(last);
    statements.push_back(last);
    return statements;
  }

  /// A sum of terms with the factors that these are without, in the type of the statement. A sum of
  /// no terms is 0 whatever they are.
  static Expr multiply_result(const Expr& sum, const Statement& statement, const Prefix& prefix) {
    const Type type = statement.value.type();
    Expr value = sum;
    for (Factor factor : prefix.factors) {
      factor.value = Halide::cast(sum.type(), factor.value);
      value = multiply(value, factor);
    }
    value = Halide::cast(type, value);
    const int64_t terms = extent_of(prefix.term), results = extent_of(prefix.result);
    const int offset = static_cast<int>(prefix.offset);
    const Expr d = make_variable(prefix.result.name);
    const Expr none = make_zero(type);
    if (prefix.up_to && offset < 0) return choose_lazily(d >= -offset, value, none);
    if (!prefix.up_to && results - 1 + prefix.offset >= terms)
      return choose_lazily(simplify(d + offset < static_cast<int>(terms)), value, none);
    return value;
  }

  /// The reduction of what every term is made of, over the indices that are not compared.
  Statement make_terms(const Statement& statement, const Prefix& prefix,
                       const std::vector<Iterator>& beside) {
    Statement made = statement;
    made.domain.clear();
    for (const Iterator& it : kept_indices(statement))
      if (expr_uses_var(prefix.value, it.name)) made.domain.push_back(it);
    made.domain.insert(made.domain.end(), beside.begin(), beside.end());
    // The others are no terms of any result, and may read where nothing is.
    Iterator term = prefix.term;
    if (prefix.up_to)
      term.extent =
          static_cast<int>(std::min(extent_of(term), extent_of(prefix.result) + prefix.offset));
    term.reduction = false;
    made.domain.push_back(term);
    const std::vector<Iterator> over = made.domain;
    for (const Iterator& it : reduced_indices(statement))
      if (it.name != term.name && !find_index(prefix.beside, it.name)) made.domain.push_back(it);
    made.value = prefix.value;
    if (!prefix.up_to && prefix.offset > 0)
      made.value = choose_lazily(make_variable(term.name) >= static_cast<int>(prefix.offset),
                                 made.value, identity(statement.reduction, made.value.type()));
    made.initializes = true;
    made.meaning.clear();
    write_temporary(program_, made, statement.tensor + ".terms", made.value.type(), over);
    return made;
  }

  Program& program_;
  /// Tensors of integers that grow, or fall, along a dimension, and nowhere else are written.
  std::map<std::string, size_t> monotone_;
  std::map<std::string, Rising> rising_;  ///< of floats
};

}  // namespace

std::optional<double> scan_operations(const Program& program, const Statement& statement) {
  Program unchanged = program;
  return Find(unchanged).operations(statement);
}

void find_scans(Program& program) {
  Find find(program);
  replace_statements(program, [&](const Statement& statement) { return find.scan(statement); });
}

}  // namespace tc::ir
