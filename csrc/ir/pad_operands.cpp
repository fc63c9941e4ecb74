#include "ir/pad_operands.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/choices.h"
#include "ir/loops.h"
#include "ir/reads.h"
#include "ir/simplify.h"
#include "poly/strides.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

// Uses of each element from which on a statement of its own pays. It costs some 1.7 cycles an
// element; a use costs 1/27 to 1/11.
constexpr int64_t kUses = 64;

/// A sum of multiples of indices that a subscript takes, apart from what it adds: all values from
/// `first` on, `count` of them, each for some indices.
struct Sum {
  std::vector<std::pair<Iterator, int64_t>> terms;  ///< smallest multiple first
  int64_t first = 0, count = 1;

  Expr value() const {
    Expr sum = 0;
    for (const auto& [it, step] : terms)
      sum = sum + make_variable(it.name) * static_cast<int>(step);
    return simplify(sum);
  }
  bool moved_by(const Iterator& it) const {
    return std::any_of(terms.begin(), terms.end(),
                       [&](const auto& term) { return term.first.name == it.name; });
  }
};

/// The sum in a subscript; nothing where a value is left out or the subscript is no such sum.
std::optional<Sum> match_sum(const Expr& subscript, const std::vector<Iterator>& domain) {
  Sum sum;
  for (const Iterator& it : domain) {
    std::optional<int64_t> step = step_along(subscript, it.name);
    if (!step) return std::nullopt;
    if (*step != 0 && extent_of(it) > 1) sum.terms.emplace_back(it, *step);
  }
  // Multiples of one index are its own values.
  if (sum.terms.size() == 1) sum.terms[0].second = 1;
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
  for (const auto& [it, step] : sum.terms) {
    if (std::abs(step) > sum.count) return std::nullopt;
    auto min = as_const_int(simplify(it.min));
    if (!min) return std::nullopt;
    const int64_t reach = (extent_of(it) - 1) * std::abs(step);
    sum.first += *min * step - (step < 0 ? reach : 0);
    sum.count += reach;
  }
  return sum;
}

/// The sums of all subscripts without reads inside, each once, where conditions are of indices.
class FindSums : public IRVisitor {
 public:
  explicit FindSums(const std::vector<Iterator>& domain) : domain_(domain) {}
  std::vector<Sum> sums;
  std::set<std::string> tensors;
  std::string first;  ///< that has subscripts
  bool known = true;

 private:
  using IRVisitor::visit;
  void visit(const Select* op) override {
    known = known && !has_data(op->condition);
    IRVisitor::visit(op);
  }
  void visit(const Call* op) override {
    IRVisitor::visit(op);
    if (find_choice(op)) known = known && !has_data(op->args[0]);
    if (read_name(op).empty()) return;
    tensors.insert(read_name(op));
    if (first.empty() && !op->args.empty()) first = read_name(op);
    for (const Expr& subscript : op->args) {
      if (subscript.type() != Halide::Int(32) || has_data(subscript)) continue;
      std::optional<Sum> sum = match_sum(subscript, domain_);
      known = known && sum;
      if (!sum || sum->terms.empty()) continue;
      Expr value = sum->value();
      if (std::none_of(sums.begin(), sums.end(),
                       [&](const Sum& other) { return equal(other.value(), value); }))
        sums.push_back(*sum);
    }
  }
  const std::vector<Iterator>& domain_;
};

class FindNames : public IRVisitor {
 public:
  std::set<std::string> found;

 private:
  using IRVisitor::visit;
  void visit(const Variable* op) override { found.insert(op->name); }
};

class PadOperands {
 public:
  PadOperands(Program& program, std::map<std::string, Layout>& layouts,
              const poly::CpuMachine& machine)
      : program_(program), layouts_(layouts), machine_(machine) {}

  void run() {
    put_in_front(program_, [&](Statement& statement) { return rewrite(statement); });
  }

 private:
  std::vector<Statement> rewrite(Statement& statement) {
    if (statement.reduction == Reduction::None || is_scatter(statement) ||
        statement.guard.defined())
      return {};
    Rewrite rewrite(*this, statement);
    statement.value = rewrite.mutate(statement.value);
    return rewrite.statements;
  }

  /// Replaces choices that every point of the statement makes.
  class Rewrite : public IRMutator {
   public:
    Rewrite(PadOperands& pass, const Statement& statement) : pass_(pass), statement_(statement) {}
    std::vector<Statement> statements;

    Expr mutate(const Expr& e) override {
      if (e.type().is_bool()) return e;  // what && and || guard
      if (!find_choice(e)) return IRMutator::mutate(e);
      for (const auto& [before, after] : done_)
        if (equal(before, e)) return after;
      std::optional<Expr> padded = pass_.pad(statement_, e, statements);
      if (padded) done_.emplace_back(e, *padded);
      return padded ? *padded : e;
    }

   private:
    PadOperands& pass_;
    const Statement& statement_;
    std::vector<std::pair<Expr, Expr>> done_;
  };

  /// What a statement reads instead of a choice, made by another that is added; nothing where that
  /// is not possible or does not pay.
  std::optional<Expr> pad(const Statement& statement, const Expr& choice,
                          std::vector<Statement>& statements) {
    FindSums find(statement.domain);
    choice.accept(&find);
    if (!find.known || find.sums.empty() || find.tensors.count(statement.tensor))
      return std::nullopt;
    int64_t points = 1, elements = 1;
    for (const Sum& sum : find.sums) elements *= sum.count;
    for (const Iterator& it : statement.domain) {
      points *= extent_of(it);
      if (std::count_if(find.sums.begin(), find.sums.end(),
                        [&](const Sum& sum) { return sum.moved_by(it); }) > 1)
        return std::nullopt;
    }
    if (points / machine_.least(kUses) < elements) return std::nullopt;

    Statement made;
    made.where = statement.where;
    made.meaning = concat(find.first, " with what its conditions say");
    std::vector<Expr> sizes, subscripts;
    Expr value = choice;
    for (const Sum& sum : find.sums) {
      // The index of the smallest multiple is what the others leave of the sum.
      const auto& [pivot, sign] = sum.terms[0];
      Iterator it = pivot;
      for (size_t i = 1; i < sum.terms.size(); ++i) it.name += "_" + sum.terms[i].first.name;
      it.min = 0;
      it.extent = static_cast<int>(sum.count);
      it.reduction = false;
      if (sum.terms.size() > 1) it.meaning = plain_text(sum.value());
      Expr rest = make_variable(it.name) + static_cast<int>(sum.first) -
                  (sum.value() - make_variable(pivot.name) * static_cast<int>(sign));
      value = substitute(pivot.name, simplify(rest * static_cast<int>(sign)), value);
      subscripts.push_back(simplify(sum.value() - static_cast<int>(sum.first)));
      made.subscripts.push_back(make_variable(it.name));
      made.domain.push_back(it);
      sizes.push_back(it.extent);
    }
    for (const Iterator& it : statement.domain)
      if (extent_of(it) == 1) value = substitute(it.name, it.min, value);
    made.value = simplify_integers(value, {});
    // A condition of other sums than those of subscripts keeps its indices.
    FindNames names;
    made.value.accept(&names);
    for (const Iterator& it : made.domain) names.found.erase(it.name);
    if (!names.found.empty()) return std::nullopt;
    const Tensor& padded =
        add_temporary(program_, find.first + ".padded", choice.type(), sizes, statement.where);
    layouts_[padded.name] = row_major(padded);
    made.tensor = padded.name;
    statements.push_back(std::move(made));
    return read(padded, subscripts);
  }

  Program& program_;
  std::map<std::string, Layout>& layouts_;
  const poly::CpuMachine& machine_;
};

}  // namespace

void pad_operands(Program& program, std::map<std::string, Layout>& layouts,
                  const poly::CpuMachine& machine) {
  PadOperands(program, layouts, machine).run();
}

}  // namespace tc::ir
