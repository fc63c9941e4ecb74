#include "lang/recurrences.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/in_place.h"
#include "ir/reads.h"
#include "ir/simplify.h"
#include "ir/wide_integers.h"
#include "lang/tree.h"
#include "poly/affine.h"
#include "poly/isl.h"

namespace tc::lang {
namespace {

using Halide::Internal::as_const_int;
using Halide::Internal::Call;
using Halide::Internal::Interval;
using Halide::Internal::IRMutator;
using Halide::Internal::IRVisitor;
using ir::Expr;

// Larger than any size: what is known of an index of which the end is not.
constexpr int32_t kFar = 1 << 30;
// Of isl's, on one statement: two thousand are usual. What takes more is left to the call, where
// sizes are numbers.
constexpr unsigned long kMostOperations = 200'000;

/// A read of what the statement writes, under conditions that all hold.
struct OwnRead {
  std::vector<Expr> subscripts;
  std::vector<Expr> conditions;
};

/// The reads of a tensor in an expression that no size makes go away.
class OwnReads : public IRVisitor {
 public:
  explicit OwnReads(const std::string& tensor) : tensor_(tensor) {}
  std::vector<OwnRead> found;

 private:
  using IRVisitor::visit;

  void under(const Expr& condition, const Expr& value) {
    size_t before = conditions_.size();
    add(condition);
    value.accept(this);
    conditions_.resize(before);
  }

  void add(const Expr& condition) {
    using namespace Halide::Internal;
    if (const auto* both = condition.as<And>()) {
      add(both->a);
      add(both->b);
      return;
    }
    if (const auto* negation = condition.as<Not>()) {
      if (const auto* either = negation->a.as<Or>()) {
        add(!either->a);
        add(!either->b);
        return;
      }
      if (const auto* twice = negation->a.as<Not>()) return add(twice->a);
    }
    conditions_.push_back(condition);
  }

  void choice(const Expr& condition, const Expr& yes, const Expr& no) {
    condition.accept(this);
    under(condition, yes);
    under(!condition, no);
  }
  void visit(const Halide::Internal::Select* op) override {
    choice(op->condition, op->true_value, op->false_value);
  }
  void visit(const Halide::Internal::And* op) override {
    op->a.accept(this);
    under(op->a, op->b);
  }
  void visit(const Halide::Internal::Or* op) override {
    op->a.accept(this);
    under(!op->a, op->b);
  }

  /// Of integers, what no data decides may come to a number that leaves the rest without effect.
  template <class Node>
  void combination(const Node* op) {
    if (op->type.is_float()) return IRVisitor::visit(op);
    for (auto [operand, other] : {std::pair(op->a, op->b), std::pair(op->b, op->a)})
      if (ir::has_data(other) || Halide::Internal::is_const(other)) operand.accept(this);
  }
  void visit(const Halide::Internal::Mul* op) override { combination(op); }
  void visit(const Halide::Internal::Div* op) override { combination(op); }
  void visit(const Halide::Internal::Mod* op) override { combination(op); }
  void visit(const Halide::Internal::Min* op) override { combination(op); }
  void visit(const Halide::Internal::Max* op) override { combination(op); }

  void visit(const Call* op) override {
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3)
      return choice(op->args[0], op->args[1], op->args[2]);
    if (op->is_intrinsic() && op->args.size() == 2 && !op->type.is_float() &&
        ir::read_name(op).empty()) {
      for (size_t k = 0; k < 2; ++k)
        if (ir::has_data(op->args[1 - k]) || Halide::Internal::is_const(op->args[1 - k]))
          op->args[k].accept(this);
      return;
    }
    if (ir::read_name(op) == tensor_) found.push_back({op->args, conditions_});
    IRVisitor::visit(op);
  }

  const std::string& tensor_;
  std::vector<Expr> conditions_;
};

/// Expressions of indices and sizes in isl's syntax. Each min and max is a number more, of which
/// `conditions` say what it is.
class IslText {
 public:
  IslText(std::map<std::string, std::string> names, std::vector<ir::Iterator> known,
          std::string prefix)
      : names_(std::move(names)), known_(std::move(known)), prefix_(std::move(prefix)) {}

  std::vector<std::string> more;        ///< the numbers
  std::vector<std::string> conditions;  ///< what they are

  std::optional<std::string> operator()(const Expr& e) {
    Replace replace(*this);
    Expr plain = replace.mutate(e);
    if (replace.failed) return std::nullopt;
    return poly::affine_text(plain, names_, known_);
  }

  std::optional<std::string> condition(const Expr& e) {
    Replace replace(*this);
    Expr plain = replace.mutate(e);
    if (replace.failed) return std::nullopt;
    return poly::affine_condition(plain, names_, known_);
  }

 private:
  struct Replace : IRMutator {
    explicit Replace(IslText& text) : text(text) {}
    IslText& text;
    bool failed = false;
    using IRMutator::visit;

    template <class Node>
    Expr replace(const Node* op, const char* first) {
      if (!op->type.is_int()) return failed = true, Expr(op);
      Expr a = mutate(op->a), b = mutate(op->b);
      auto x = poly::affine_text(a, text.names_, text.known_),
           y = poly::affine_text(b, text.names_, text.known_);
      if (!x || !y) return failed = true, Expr(op);
      const std::string name = concat(text.prefix_, text.more.size());
      text.more.push_back(name);
      text.conditions.push_back(concat("((", name, " = ", *x, " and ", *x, first, *y, ") or (",
                                       name, " = ", *y, " and not (", *x, first, *y, ")))"));
      text.names_[name] = name;
      return ir::make_variable(name);
    }
    Expr visit(const Halide::Internal::Min* op) override { return replace(op, " <= "); }
    Expr visit(const Halide::Internal::Max* op) override { return replace(op, " >= "); }
  };

  std::map<std::string, std::string> names_;
  std::vector<ir::Iterator> known_;
  std::string prefix_;
};

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

/// Says of one statement for which sizes it reads what it writes elsewhere.
class InPlace {
 public:
  InPlace(const ir::Program& program, const ir::Statement& statement)
      : program_(program), statement_(statement) {
    isl_ctx_set_max_operations(context_.raw(), kMostOperations);
    for (size_t k = 0; k < program.sizes.size(); ++k) {
      names_[program.sizes[k]] = concat("size", k);
      parameters_.push_back(concat("size", k));
      known_.push_back(range(program.sizes[k], Expr(0)));
    }
  }

  bool is_never_right(const std::vector<OwnRead>& reads) try {
    isl::set conflicts = isl::set(context_.get(), space() + " : false }");
    for (const OwnRead& read : reads) {
      std::optional<std::string> text = conflict(read);
      if (text) conflicts = conflicts.unite(isl::set(context_.get(), *text));
    }
    if (conflicts.is_empty()) return false;
    std::optional<std::string> counts = what_counts(conflicts);
    if (!counts) return false;
    isl::set sizes(context_.get(), *counts);
    return !sizes.is_empty() && sizes.is_subset(conflicts.params());
  } catch (const isl::exception&) {
    return false;
  }

 private:
  /// From `first` on: what is known of sizes and indices.
  static ir::Iterator range(const std::string& name, const Expr& first) {
    ir::Iterator iterator;
    iterator.name = name;
    iterator.min = first;
    iterator.extent = Expr(kFar);
    return iterator;
  }

  std::string index(const char* point, size_t k) const { return concat(point, k); }

  /// [size0, ...] -> { [p0, ..., q0, ...]
  std::string space() const {
    std::vector<std::string> tuple;
    for (const char* point : {"p", "q"})
      for (size_t k = 0; k < statement_.domain.size(); ++k) tuple.push_back(index(point, k));
    return concat("[", joined(parameters_, ", "), "] -> { [", joined(tuple, ", "), "]");
  }

  IslText text_at(const char* point) const {
    std::map<std::string, std::string> names = names_;
    std::vector<ir::Iterator> known = known_;
    for (size_t k = 0; k < statement_.domain.size(); ++k) {
      const ir::Iterator& iterator = statement_.domain[k];
      names[iterator.name] = index(point, k);
      auto first = as_const_int(iterator.min);
      if (first && *first > -kFar && *first < kFar)
        known.push_back(range(iterator.name, iterator.min));
    }
    return IslText(std::move(names), std::move(known), concat("m", point));
  }

  /// That a point is one of the statement's.
  bool add_domain(const char* point, IslText& text, std::vector<std::string>& conditions) const {
    for (size_t k = 0; k < statement_.domain.size(); ++k) {
      const ir::Iterator& iterator = statement_.domain[k];
      auto first = text(iterator.min), extent = text(iterator.extent);
      if (!first || !extent) return false;
      conditions.push_back(concat(*first, " <= ", index(point, k), " and ", index(point, k), " < ",
                                  *first, " + ", *extent));
    }
    return true;
  }

  /// The pairs of points of which the second reads here what the first writes.
  std::optional<std::string> conflict(const OwnRead& read) const {
    IslText p = text_at("p"), q = text_at("q");
    std::vector<std::string> conditions;
    if (!add_domain("p", p, conditions) || !add_domain("q", q, conditions)) return std::nullopt;
    for (const Expr& condition : read.conditions) {
      std::optional<std::string> text = q.condition(condition);
      // What data decides may be, whatever the sizes are.
      if (!text && ir::has_data(condition)) continue;
      if (!text) return std::nullopt;
      conditions.push_back(*text);
    }
    for (size_t d = 0; d < statement_.subscripts.size(); ++d) {
      std::optional<std::string> written = p(statement_.subscripts[d]),
                                 place = q(read.subscripts[d]);
      if (!written) return std::nullopt;
      if (place) conditions.push_back(concat(*written, " = ", *place));
      // Data may lead anywhere.
      if (!place && !ir::has_data(read.subscripts[d])) return std::nullopt;
    }
    std::vector<std::string> differ;
    for (size_t k = 0; k < statement_.domain.size(); ++k)
      differ.push_back(concat(index("p", k), " != ", index("q", k)));
    if (differ.empty()) return std::nullopt;
    conditions.push_back("(" + joined(differ, " or ") + ")");
    for (const std::string& parameter : parameters_) conditions.push_back(parameter + " >= 0");
    std::vector<std::string> more = p.more;
    more.insert(more.end(), q.more.begin(), q.more.end());
    for (const IslText* text : {&p, &q})
      conditions.insert(conditions.end(), text->conditions.begin(), text->conditions.end());
    return concat(space(), " : ", more.empty() ? "" : concat("exists ", joined(more, ", "), " : "),
                  joined(conditions, " and "), " }");
  }

  /// The sizes that leave several values to every index along which it reads elsewhere, and one to
  /// the others.
  std::optional<std::string> what_counts(const isl::set& conflicts) const {
    IslText text = text_at("p");
    std::vector<std::string> conditions;
    for (size_t k = 0; k < statement_.domain.size(); ++k) {
      isl::set along(context_.get(),
                     concat(space(), " : ", index("p", k), " != ", index("q", k), " }"));
      bool several = !conflicts.intersect(along).is_empty();
      auto extent = text(statement_.domain[k].extent);
      if (!extent) return std::nullopt;
      conditions.push_back(concat(*extent, " >= ", several ? 2 : 1));
    }
    for (const std::string& parameter : parameters_) conditions.push_back(parameter + " >= 0");
    conditions.insert(conditions.end(), text.conditions.begin(), text.conditions.end());
    return concat("[", joined(parameters_, ", "), "] -> { : ",
                  text.more.empty() ? "" : concat("exists ", joined(text.more, ", "), " : "),
                  joined(conditions, " and "), " }");
  }

  const ir::Program& program_;
  const ir::Statement& statement_;
  poly::Context context_;
  std::map<std::string, std::string> names_;
  std::vector<std::string> parameters_;
  std::vector<ir::Iterator> known_;
};

/// Whether every point reads no place but its own.
bool reads_own_place(const ir::Statement& statement, const OwnRead& read) {
  for (const ir::Iterator& iterator : statement.domain)
    if (iterator.reduction) return false;
  for (size_t d = 0; d < read.subscripts.size(); ++d)
    if (!Halide::Internal::equal(read.subscripts[d], statement.subscripts[d])) return false;
  return true;
}

bool reads(const Expression& e, const std::string& name) {
  if (e.kind != ExpressionKind::Dimension && e.name == name) return true;
  return std::any_of(e.operands.begin(), e.operands.end(),
                     [&](const ExpressionPtr& operand) { return reads(*operand, name); });
}

bool may_read_own(const TreeStatement& statement) {
  if (statement.scatters()) return false;
  const std::string& name = statement.target.name;
  return reads(*statement.value, name) ||
         std::any_of(statement.clauses.begin(), statement.clauses.end(),
                     [&](const WhereClause& clause) {
                       return clause.kind == ClauseKind::Let && reads(*clause.first, name);
                     });
}

/// The value with quotients of what is not negative as such, which only texts of C's make choices.
Expr simple_value(const ir::Program& program, const ir::Statement& statement) {
  ir::Bounds bounds;
  for (const std::string& size : program.sizes)
    bounds.push(size, Interval(Expr(0), Interval::pos_inf()));
  for (const ir::Iterator& it : statement.domain)
    if (!Halide::Internal::is_const_one(it.extent))
      bounds.push(it.name, Interval(it.min, Halide::Internal::simplify(it.min + it.extent - 1)));
  const Expr simple = ir::simplify_integers(statement.value, bounds);
  return ir::overflows(simple) ? statement.value : simple;
}

}  // namespace

void refuse_recurrences(const Definition& definition) {
  const std::vector<TreeStatement>& trees = definition.tree->statements;
  if (std::none_of(trees.begin(), trees.end(), may_read_own)) return;
  for (const auto& entry : definition.signature.scalars)
    if (entry.second.specialized) return;
  const ir::Program program = infer_ranges(definition, {});
  for (const ir::Statement& statement : program.statements) {
    if (ir::is_scatter(statement)) continue;
    OwnReads own(statement.tensor);
    simple_value(program, statement).accept(&own);
    std::vector<OwnRead> elsewhere;
    for (const OwnRead& read : own.found)
      if (!reads_own_place(statement, read)) elsewhere.push_back(read);
    if (elsewhere.empty()) continue;
    if (InPlace(program, statement).is_never_right(elsewhere))
      throw LanguageError(statement.where, ir::in_place_message(statement));
  }
}

}  // namespace tc::lang
