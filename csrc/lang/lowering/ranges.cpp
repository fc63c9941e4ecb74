#include "lang/lowering/ranges.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/walk.h"
#include "ir/expressions/wide_integers.h"
#include "lang/sema/scope.h"
#include "lang/sema/types.h"

namespace tc::lang {
namespace {

using namespace Halide::Internal;
using ir::variables_of;

/// Whether a subscript says something about the ranges of its indices. Data, remainders, min, max
/// and choices keep many values inside that no single interval describes; a product of two things
/// that vary has no sign that is known. What is made of sizes alone is one number, and has been
/// named.
bool constrains(const Expr& subscript) {
  bool affine = true;
  ir::walk(subscript, [&](const Expr& e) {
    affine = affine && !e.as<Call>() && !e.as<Mod>() && !e.as<Min>() && !e.as<Max>() &&
             !e.as<Select>() && !e.as<Cast>();
    if (const auto* product = e.as<Mul>())
      affine = affine && (is_const(product->a) || is_const(product->b));
    if (const auto* quotient = e.as<Div>()) affine = affine && is_positive_const(quotient->b);
    return affine;
  });
  return affine;
}

class Inference {
 public:
  Inference(const Function& function, const ir::Program& signature,
            const std::vector<LoweredStatement>& statements)
      : function_(function), signature_(signature), statements_(statements) {
    for (const auto& [name, tensor] : signature.tensors) {
      std::vector<std::optional<Range>>& shape = shapes_[name];
      for (const Expr& size : tensor.sizes)
        shape.push_back(size.defined() ? std::optional<Range>({Expr(0), size - 1}) : std::nullopt);
    }
    ranges_.resize(statements.size());
    done_.resize(statements.size());
    recorded_.resize(statements.size());
  }

  std::map<std::string, Range> run_statement(
      size_t i, const std::map<std::string, std::vector<Range>>& shapes) {
    for (const auto& [name, shape] : shapes) shapes_[name] = {shape.begin(), shape.end()};
    std::map<std::string, Range> solved;
    solve(i, /*relaxed=*/false, &solved);
    return solved;
  }

  InferredRanges run() {
    for (;;) {
      if (pass(/*relaxed=*/false)) continue;
      if (std::all_of(done_.begin(), done_.end(), [](bool done) { return done; })) break;
      // Statements wait for each other: let the first one that can do without go ahead, then, if
      // there is none, believe the sizes in the return list.
      if (pass(/*relaxed=*/true) || assume_annotations()) continue;
      report_unsized();
      report_unsolved();
    }
    assume_annotations();
    report_unsized();
    InferredRanges result;
    result.declared = check_annotations();
    result.statements = ranges_;
    for (const auto& [name, shape] : shapes_) {
      if (signature_.tensor(name).role == ir::TensorRole::Input) continue;
      for (const std::optional<Range>& range : shape) result.shapes[name].push_back(*range);
    }
    return result;
  }

 private:
  /// One attempt at every unfinished statement in order; whether anything new was learnt. A relaxed
  /// one ends with the first statement whose ranges it finds.
  bool pass(bool relaxed) {
    bool progress = false;
    for (size_t i = 0; i < statements_.size(); ++i) {
      if (done_[i]) continue;
      std::map<std::string, Range> solved;
      if (!solve(i, relaxed, &solved) || (relaxed && !complete(i, solved))) continue;
      progress = record(i, solved) || progress;
      if (relaxed) return true;
    }
    return progress;
  }

  std::vector<std::string> indices_of(size_t i) const {
    const TreeStatement& statement = function_.statements[i];
    std::vector<std::string> names;
    for (const auto* list :
         {&statement.indices, &statement.reduction_indices, &statement.auxiliary_indices}) {
      for (const Identifier& index : *list) {
        if (!index.name.empty()) names.push_back(index.name);
      }
    }
    return names;
  }

  bool complete(size_t i, const std::map<std::string, Range>& solved) const {
    for (const std::string& name : indices_of(i)) {
      if (!solved.count(name)) return false;
    }
    return true;
  }

  /// Replaces `T.1` of computed tensors by their sizes; nothing when one is not known yet.
  std::optional<Expr> resolve(const Expr& e) const {
    std::map<std::string, Expr> sizes;
    for (const std::string& name : variables_of(e)) {
      size_t dot = name.find('.');
      if (dot == std::string::npos) continue;
      const std::optional<Range>& range =
          shapes_.at(name.substr(0, dot))[std::stoul(name.substr(dot + 1))];
      if (!range) return std::nullopt;
      sizes[name] = range->last - range->first + 1;
    }
    Expr sized = substitute(sizes, e);
    // Data bounds nothing, also where it would cancel out: x - x may be NaN.
    if (ir::has_data(sized)) return sized;
    Expr simple = simplify_size(sized, signature_);
    return ir::overflows(simple) ? sized : simple;  // i - -2147483648
  }

  struct Constraint {
    Expr subscript;
    Range range;
    std::map<std::string, Expr> numbers;  ///< that names in the subscript stand for
  };

  /// Names what sizes alone decide by more than a sum, as (K - 1) / 2 does, which rounds up for
  /// K = 0: whatever it is, the solver has to move it to the other side only.
  Constraint constraint(const Expr& subscript, const Range& range,
                        const std::vector<std::string>& indices) const {
    Constraint made{Expr(), range, {}};
    made.subscript = ir::rewrite(subscript, [&](const Expr& part) {
      if (constrains(part) || ir::has_data(part)) return Expr();
      for (const std::string& name : variables_of(part))
        if (std::count(indices.begin(), indices.end(), name)) return Expr();
      const std::string name = concat("number ", made.numbers.size());  // which no size can have
      made.numbers[name] = wide(part);
      return ir::make_variable(name, part.type());
    });
    return made;
  }

  /// Whether statement i may be the one that gives its tensor its sizes, so that what it reads of
  /// the tensor itself does not make it wait: no statement before it will.
  bool goes_first(size_t i) const {
    for (size_t j = 0; j < i; ++j) {
      std::map<std::string, Range> solved;
      if (!done_[j] && function_.statements[j].target.name == function_.statements[i].target.name &&
          solve(j, /*relaxed=*/true, &solved) && !solved.empty())
        return false;
    }
    return true;
  }

  /// Fills what the rounds find for statement i. False when it must wait for another statement;
  /// a relaxed attempt does without the dimensions that are not known.
  bool solve(size_t i, bool relaxed, std::map<std::string, Range>* solved) const {
    std::vector<Constraint> constraints;
    const std::vector<std::string> indices = indices_of(i);
    const std::string& target = function_.statements[i].target.name;
    for (const Access& access : statements_[i].accesses) {
      const std::vector<std::optional<Range>>& shape = shapes_.at(access.tensor);
      for (size_t d = 0; d < shape.size(); ++d) {
        if (!access.subscripts[d].defined()) continue;
        std::optional<Expr> subscript = resolve(access.subscripts[d]);
        bool writes_at_expression = access.write && function_.statements[i].scattered(d);
        std::optional<Constraint> bounds;
        if (subscript) bounds = constraint(*subscript, shape[d].value_or(Range{}), indices);
        const bool bounding = bounds && constrains(bounds->subscript);
        // Where data says what is written, there is nothing to wait for.
        if (writes_at_expression && subscript && !bounding) continue;
        if (!shape[d] || !subscript) {
          bool own = !shape[d] && access.tensor == target;
          if (writes_at_expression || (!relaxed && !(own && goes_first(i)))) return false;
        } else if (bounding) {
          constraints.push_back(std::move(*bounds));
        }
      }
    }
    for (const ExplicitRange& range : statements_[i].ranges) {
      std::optional<Expr> first = resolve(range.first), last = resolve(range.last);
      if (!first || !last) return false;
      (*solved)[range.index.name] = {*first, *last};
    }
    while (round(i, constraints, solved) || take_shape(i, solved)) {
    }
    return true;
  }

  /// Solves every index that some constraint has as its only unsolved one.
  bool round(size_t i, const std::vector<Constraint>& constraints,
             std::map<std::string, Range>* solved) const {
    std::vector<std::string> names = indices_of(i);
    ir::Bounds domain;
    for (const auto& [name, range] : *solved)
      domain.push(name, Interval(wide(range.first), wide(range.last)));
    std::map<std::string, Interval> found;
    for (const Constraint& constraint : constraints) {
      std::vector<std::string> unsolved;
      for (const std::string& name : variables_of(constraint.subscript)) {
        bool index = std::count(names.begin(), names.end(), name) != 0;
        if (index && !solved->count(name)) unsolved.push_back(name);
      }
      if (unsolved.size() != 1) continue;
      const std::string& name = unsolved[0];
      Interval interval = solve_constraint(constraint, name, domain);
      auto [at, inserted] = found.emplace(name, interval);
      if (!inserted) at->second = Interval::make_intersection(at->second, interval);
    }
    bool progress = false;
    for (const auto& [name, interval] : found) {
      if (!interval.is_bounded()) continue;
      (*solved)[name] = {narrow(interval.min, i, name), narrow(interval.max, i, name)};
      progress = true;
    }
    return progress;
  }

  /// The values of `name` for which the subscript stays in range whatever the indices of `domain`
  /// are; unbounded on a side that says nothing.
  Interval solve_constraint(const Constraint& constraint, const std::string& name,
                            const ir::Bounds& domain) const {
    // In 64 bits, where no bound overflows on the way: i + 2147483647 <= N - 1 would be false.
    Interval result = Interval::everything();
    Expr subscript = ir::collect_terms(wide(constraint.subscript));
    for (const Expr& side :
         {subscript >= wide(constraint.range.first), subscript <= wide(constraint.range.last)}) {
      Expr condition = and_condition_over_domain(simplify(side), domain);
      Interval interval = solve_for_inner_interval(condition, name);
      // Empty means here that the solver could not prove any value right.
      if (interval.is_empty()) continue;
      result = Interval::make_intersection(result, interval);
    }
    if (constraint.numbers.empty()) return result;
    if (result.has_lower_bound()) result.min = substitute(constraint.numbers, result.min);
    if (result.has_upper_bound()) result.max = substitute(constraint.numbers, result.max);
    return result;
  }

  static Expr wide(const Expr& e) { return ir::widen(e, /*retyped=*/true); }

  /// A bound of a range in 32 bits again.
  Expr narrow(const Expr& bound, size_t i, const std::string& index) const {
    Expr simple = simplify_size(bound, signature_);
    if (ir::overflows(simple))
      throw LanguageError(function_.statements[i].where, "the range of index ", index,
                          " does not fit 32 bits: its subscripts bound it by ",
                          ir::plain_text(simplify(bound)));
    return simple;
  }

  /// An index on the left that nothing else bounds runs over the whole dimension it writes.
  bool take_shape(size_t i, std::map<std::string, Range>* solved) const {
    const TreeStatement& statement = function_.statements[i];
    const std::vector<std::optional<Range>>& shape = shapes_.at(statement.target.name);
    bool progress = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      const std::string& name = statement.indices[d].name;
      if (!shape[d] || statement.scattered(d) || solved->count(name)) continue;
      (*solved)[name] = *shape[d];
      progress = true;
    }
    return progress;
  }

  /// Notes what a statement says of its tensor's shape; whether that is news.
  bool record(size_t i, const std::map<std::string, Range>& solved) {
    const TreeStatement& statement = function_.statements[i];
    std::vector<std::optional<Range>>& shape = shapes_.at(statement.target.name);
    bool progress = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (statement.scattered(d)) continue;
      auto range = solved.find(statement.indices[d].name);
      if (range == solved.end() || !recorded_[i].insert(d).second) continue;
      if (!shape[d]) {
        shape[d] = range->second;
        progress = true;
      } else if (extends_shape(i, range->first)) {
        shape[d] =
            Range{simplify_size(Halide::min(shape[d]->first, range->second.first), signature_),
                  simplify_size(Halide::max(shape[d]->last, range->second.last), signature_)};
      }
    }
    if (complete(i, solved)) {
      ranges_[i] = solved;
      done_[i] = true;
      progress = true;
    }
    return progress;
  }

  /// A statement that fills a part given by `where` adds that part to its tensor; the others must
  /// stay inside what earlier statements made.
  bool extends_shape(size_t i, const std::string& index) const {
    const TreeStatement& statement = function_.statements[i];
    if (statement.reduction != ir::Reduction::None && !statement.initializes) return false;
    return std::any_of(statements_[i].ranges.begin(), statements_[i].ranges.end(),
                       [&](const ExplicitRange& range) { return range.index.name == index; });
  }

  /// The size that the return list declares for a dimension, when its name is known.
  std::optional<Expr> declared_size(const DimensionSize& size) const {
    if (size.name.empty()) return make_const(Halide::Int(32), size.constant);
    bool known = std::count(signature_.sizes.begin(), signature_.sizes.end(), size.name) != 0;
    if (!known) return std::nullopt;
    return ir::make_variable(size.name);
  }

  bool assume_annotations() {
    bool progress = false;
    for (const Declaration& returned : function_.returns) {
      for (size_t d = 0; d < returned.dimensions.size(); ++d) {
        std::optional<Range>& range = shapes_.at(returned.name)[d];
        std::optional<Expr> size = declared_size(returned.dimensions[d]);
        if (range || !size) continue;
        range = Range{Expr(0), simplify_size(*size - 1, signature_)};
        progress = true;
      }
    }
    return progress;
  }

  /// Compares declared sizes with inferred ones; those that only a call can compare.
  std::vector<ir::DeclaredSize> check_annotations() const {
    std::vector<ir::DeclaredSize> open;
    // A name that no input brings stands for the size that it first stands at.
    std::map<std::string, Expr> own;
    for (const Declaration& returned : function_.returns) {
      for (size_t d = 0; d < returned.dimensions.size(); ++d) {
        const DimensionSize& dimension = returned.dimensions[d];
        const Range& range = *shapes_.at(returned.name)[d];
        Expr inferred = simplify_size(range.last - range.first + 1, signature_);
        std::optional<Expr> size = declared_size(dimension);
        if (!size) size = own.emplace(dimension.name, inferred).first->second;
        Expr difference = simplify_size(inferred - *size, signature_);
        if (is_const_zero(difference)) continue;
        std::string text = dimension.name.empty() ? concat(dimension.constant) : dimension.name;
        if (!is_const(difference)) {
          open.push_back({returned.name, d, text, *size});
          continue;
        }
        std::string value = concat(*size);
        throw LanguageError(dimension.where, "dimension ", d, " of ", returned.name,
                            " is declared as ", text, value == text ? "" : " = " + value,
                            " but its index takes ", inferred,
                            " values; drop the sizes from the return list or give the index a "
                            "range in a where clause");
      }
    }
    return open;
  }

  /// A scattered dimension whose tensor no statement and no annotation gives a size.
  void report_unsized() const {
    for (const TreeStatement& statement : function_.statements) {
      const std::vector<std::optional<Range>>& shape = shapes_.at(statement.target.name);
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] || !statement.scattered(d) || has_plain_index(statement.target.name, d))
          continue;
        const SourceRange& where = statement.scattered(d)->where;
        const std::string& name = statement.target.name;
        auto returned = std::find_if(function_.returns.begin(), function_.returns.end(),
                                     [&](const Declaration& r) { return r.name == name; });
        if (returned != function_.returns.end() && !returned->dimensions.empty()) {
          throw LanguageError(returned->dimensions[d].where, "the size of dimension ", d, " of ",
                              name, " is not known: ", returned->dimensions[d].name,
                              " is the size of no input, and the subscript ", where.str(),
                              " does not say how many places there are. Write an integer, or a "
                              "size that an input brings");
        }
        std::string type = type_name(signature_.tensor(name).type);
        throw LanguageError(
            where, "the size of dimension ", d, " of ", name, " is not known: the subscript ",
            where.str(), " does not say how many places there are. ",
            returned != function_.returns.end()
                ? concat(
                      "Declare the result with its size, as in -> (", type, "(",
                      example_sizes(shape.size()), ") ", name,
                      "), where a size is an integer or has the name of one that an input brings")
                : concat(name, " is not returned, so an earlier statement has to give it, as in ",
                         example_fill(name, shape.size(), d)));
      }
    }
  }

  /// Whether some statement writes a dimension at a plain index, which can give it its size.
  bool has_plain_index(const std::string& tensor, size_t d) const {
    return std::any_of(function_.statements.begin(), function_.statements.end(),
                       [&](const TreeStatement& statement) {
                         return statement.target.name == tensor && !statement.scattered(d);
                       });
  }

  /// "T(v0, v1) = 0 where v1 in 0:16".
  static std::string example_fill(const std::string& tensor, size_t rank, size_t d) {
    std::string left;
    for (size_t k = 0; k < rank; ++k) left += concat(k ? ", v" : "v", k);
    return concat(tensor, "(", left, ") = 0 where v", d, " in 0:16");
  }

  [[noreturn]] void report_unsolved() const {
    // The statement to blame is the one with most known: the first whose reads are not waiting.
    size_t blamed = statements_.size();
    std::map<std::string, Range> known;
    for (bool relaxed : {false, true}) {
      for (size_t i = 0; i < statements_.size() && blamed == statements_.size(); ++i) {
        known.clear();
        if (!done_[i] && solve(i, relaxed, &known)) blamed = i;
      }
    }
    if (blamed == statements_.size())
      blamed = std::find(done_.begin(), done_.end(), false) - done_.begin();
    const TreeStatement& statement = function_.statements[blamed];
    std::vector<std::string> names;
    for (const std::string& name : indices_of(blamed)) {
      if (!known.count(name)) names.push_back(name);
    }
    throw LanguageError(statement.where,
                        "Could not infer ranges for free variables. Use a where clause to give ",
                        enumerate(names), names.size() == 1 ? " its range" : " their ranges",
                        ", as in: where ", names.empty() ? "i" : names[0],
                        " in 0:16. A range is inferred where an index is the only unknown of a "
                        "subscript such as A(2 * i + 1)");
  }

  const Function& function_;
  const ir::Program& signature_;
  const std::vector<LoweredStatement>& statements_;
  std::map<std::string, std::vector<std::optional<Range>>> shapes_;
  std::vector<std::map<std::string, Range>> ranges_;
  std::vector<bool> done_;
  std::vector<std::set<size_t>> recorded_;  ///< dimensions of the target, a statement
};

}  // namespace

std::map<std::string, Range> infer_statement(
    const Function& function, const ir::Program& signature,
    const std::vector<LoweredStatement>& statements,
    const std::map<std::string, std::vector<Range>>& shapes, size_t statement) {
  return Inference(function, signature, statements).run_statement(statement, shapes);
}

InferredRanges infer(const Function& function, const ir::Program& signature,
                     const std::vector<LoweredStatement>& statements) {
  return Inference(function, signature, statements).run();
}

Expr simplify_size(const Expr& e, const ir::Program& signature) {
  ir::Bounds bounds;
  for (const std::string& size : signature.sizes)
    bounds.push(size, Interval(Expr(int64_t{0}), Interval::pos_inf()));
  Expr simple = ir::simplify_wide(e, bounds);
  // (N - 1) / 2 + 1 reads better as (N + 1) / 2, where the sum goes.
  const auto* sum = simple.as<Add>();
  const auto* quotient = sum ? sum->a.as<Div>() : nullptr;
  if (quotient && is_const_one(sum->b) && is_positive_const(quotient->b)) {
    const auto* dividend = quotient->a.as<Add>();
    if (dividend && is_const(dividend->b))
      return ir::simplify_wide((dividend->a + (dividend->b + quotient->b)) / quotient->b, bounds);
  }
  return simple;
}

bool always_equal(const Expr& a, const Expr& b, const ir::Program& signature) {
  return is_const_zero(simplify_size(a - b, signature));
}

bool always_equal(const Range& a, const Range& b, const ir::Program& signature) {
  return always_equal(a.first, b.first, signature) && always_equal(a.last, b.last, signature);
}

}  // namespace tc::lang
