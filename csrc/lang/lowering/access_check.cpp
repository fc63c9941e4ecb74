// `check_accesses` of definition.h: interval arithmetic proves most accesses right at once;
// isl finds the smallest offending point of the others, and what isl cannot describe is computed
// point by point.

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/notes.h"
#include "ir/expressions/choices.h"
#include "ir/expressions/integer_value.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/wide_integers.h"
#include "ir/intervals.h"
#include "ir/visit.h"
#include "lang/lowering/definition.h"
#include "machine/limits.h"
#include "poly/index_sets.h"

namespace tc::lang {
namespace {

using namespace Halide::Internal;
using ir::Expr;

int64_t constant(const Expr& e) {
  std::optional<int64_t> value = as_const_int(e);
  TC_INTERNAL_CHECK(value, e, " is not a constant: the program is not specialised");
  return *value;
}

bool holds_data(const Expr& e) { return ir::any<Call>(e); }

/// Whether the subscript multiplies or divides what varies by what varies so often that Halide's
/// intervals, in which every operand stands four times, would fill the memory.
bool is_too_long_a_product(const Expr& subscript) {
  int products = 0;
  auto count = [&](const auto* op) { products += !is_const(op->a) && !is_const(op->b); };
  ir::for_each<Mul>(subscript, count);
  ir::for_each<Div>(subscript, count);
  ir::for_each<Mod>(subscript, count);
  return products > 4;
}

/// The values of tensors that hold nothing but places of extremes, all of one statement: between
/// the ranges of several there may be elements that none of them writes.
std::map<std::string, ConstantInterval> position_limits(const ir::Program& program) {
  std::map<std::string, ConstantInterval> limits;
  std::set<std::string> others;
  for (const auto& [name, tensor] : program.tensors)
    if (tensor.role == ir::TensorRole::Input || tensor.role == ir::TensorRole::InOut)
      others.insert(name);
  for (const ir::Statement& statement : program.statements) {
    if (!ir::is_position(statement.reduction) || statement.domain.empty()) {
      others.insert(statement.tensor);
      continue;
    }
    const std::vector<ir::Iterator> reduced = ir::reduced_indices(statement);
    const int64_t count = std::max<int64_t>(1, ir::count_points(reduced));
    // One index gives its own values, several the place in row-major order.
    const int64_t first = reduced.size() == 1 ? constant(reduced[0].min) : 0;
    const ConstantInterval places(first, first + (count - 1));
    if (!limits.emplace(statement.tensor, places).second) others.insert(statement.tensor);
  }
  for (const std::string& name : others) limits.erase(name);
  return limits;
}

/// All accesses of one statement, with the conditions they stand under.
class StatementCheck : public IRVisitor {
 public:
  StatementCheck(const ir::Program& program, const ir::Statement& statement, size_t place,
                 const std::map<std::string, ConstantInterval>& positions)
      : program_(program),
        place_(place),
        statement_(statement),
        positions_(positions),
        limits_(ir::index_intervals(statement.domain)) {
    for (const ir::Iterator& iterator : statement_.domain) {
      const int64_t last = constant(iterator.min) + constant(iterator.extent) - 1;
      bounds_.push(iterator.name, Interval(iterator.min, Expr(static_cast<int32_t>(last))));
    }
  }

  std::string run() {
    for (const ir::Iterator& iterator : statement_.domain) {
      if (constant(iterator.extent) >= 0) continue;
      return concat("the range of index ", iterator.name, " is empty: it would take ",
                    iterator.extent, " values, from ", iterator.min,
                    " up; a size is too small for the subscripts of ", iterator.name, at_line());
    }
    for (const ir::Iterator& iterator : statement_.domain) {
      if (constant(iterator.extent) == 0) return "";
    }
    if (statement_.guard.defined()) guards_.push_back(statement_.guard);
    for (const Expr& subscript : statement_.subscripts) subscript.accept(this);
    check("writes", program_.tensor(statement_.tensor), statement_.subscripts, Expr());
    statement_.value.accept(this);
    context_.require_memory();
    return message_;
  }

  /// The same of where results are written that no term is added to, since these indices, which are
  /// reduced, take no values: the statement has one of each in their place.
  std::string run_initialization(const std::set<std::string>& empty) {
    auto varies = [&](const Expr& e) {
      const std::set<std::string> used = ir::variables_of(e);
      return std::any_of(used.begin(), used.end(),
                         [&](const std::string& name) { return empty.count(name) > 0; });
    };
    if (statement_.guard.defined()) add_guards(statement_.guard, varies);
    const ir::Tensor& tensor = program_.tensor(statement_.tensor);
    for (size_t d = 0; d < statement_.subscripts.size() && message_.empty(); ++d)
      if (!varies(statement_.subscripts[d]) && !holds_data(statement_.subscripts[d]))
        check_dimension("writes", tensor, statement_.subscripts, d);
    context_.require_memory();
    return message_;
  }

  std::vector<ir::OpenAccess> open;

 private:
  using IRVisitor::visit;

  /// Of a conjunction, the conditions that do not vary.
  template <class Varies>
  void add_guards(const Expr& condition, Varies varies) {
    if (const auto* both = condition.as<And>()) {
      add_guards(both->a, varies);
      add_guards(both->b, varies);
    } else if (!varies(condition)) {
      guards_.push_back(condition);
    }
  }

  void visit(const Call* op) override {
    if (!message_.empty()) return;
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3)
      return visit_choice(op->args[0], op->args[1], op->args[2]);
    IRVisitor::visit(op);
    auto tensor = program_.tensors.find(ir::read_name(op));
    if (tensor != program_.tensors.end()) check("reads", tensor->second, op->args, op);
  }

  void visit(const Select* op) override {
    visit_choice(op->condition, op->true_value, op->false_value);
  }

  void visit_choice(const Expr& condition, const Expr& yes, const Expr& no) {
    condition.accept(this);
    // Whatever the condition is, what both sides read is read: so does the sign of a remainder.
    const Evaluated of_no = evaluated_in(no);
    for (const Expr& read : evaluated_in(yes))
      if (of_no.count(read)) read.accept(this);
    guards_.push_back(condition);
    yes.accept(this);
    guards_.back() = !condition;
    no.accept(this);
    guards_.pop_back();
  }

  /// What is evaluated wherever an expression is: the reads in it, and the choices as a whole.
  using Evaluated = std::set<Expr, IRDeepCompare>;
  static Evaluated evaluated_in(const Expr& e) {
    Evaluated found;
    ir::visit(
        e,
        [&](const Call* op, ir::Visitor& self) {
          found.insert(Expr(op));
          op->is_intrinsic(Call::if_then_else) ? op->args[0].accept(&self) : self.inside(op);
        },
        [&](const Select* op, ir::Visitor& self) {
          found.insert(Expr(op));
          op->condition.accept(&self);
        });
    return found;
  }

  std::string at_line() const {
    if (!statement_.where.valid()) return "";
    return concat(" (line ", statement_.where.line(), ")");
  }

  void check(const char* verb, const ir::Tensor& tensor, const std::vector<Expr>& subscripts,
             const Expr& read) {
    for (size_t d = 0; d < subscripts.size() && message_.empty(); ++d) {
      const int64_t size = constant(tensor.sizes[d]);
      const bool decided = holds_data(subscripts[d]) ? stays_inside(name_reads(subscripts[d]), size)
                                                     : check_dimension(verb, tensor, subscripts, d);
      if (!decided) note_open(read, d);
    }
  }

  /// A value and a number that is added to it; `reach` adds up the parts of that.
  struct Shifted {
    Expr value;
    int64_t offset = 0, reach = 0;
  };

  /// Of a sum, which may have wrapped around in 32 bits or be an exact one in more.
  static Shifted split_offset(const Expr& e) {
    Expr added, to = e;
    if (const auto* cast = e.as<Cast>()) {
      const ir::Type from = cast->value.type();
      const auto* wrapped = cast->value.as<Add>();
      const auto* first = wrapped ? wrapped->a.as<Cast>() : nullptr;
      if (e.type().is_int() && from.is_int_or_uint() && e.type().can_represent(from))
        return split_offset(cast->value);
      if (e.type() == Halide::Int(32) && from == Halide::UInt(32) && first &&
          first->value.type() == Halide::Int(32)) {
        added = Halide::cast<int32_t>(wrapped->b);
        to = first->value;
      }
    } else if (const auto* sum = e.as<Add>(); sum && e.type().is_int() && e.type().bits() >= 32) {
      added = sum->b;
      to = sum->a;
    }
    const auto number = added.defined() ? as_const_int(simplify(added)) : std::nullopt;
    if (!number) return {e};
    Shifted shifted = split_offset(to);
    shifted.offset += *number;
    shifted.reach += std::abs(*number);
    return shifted;
  }

  /// What is compared as x + 2^31 without a sign, as sums that wrap around are, with its sign; in
  /// 64 bits likewise.
  static Expr with_sign(const Expr& e) {
    const int bits = e.type().bits();
    if (!e.type().is_uint() || bits < 32) return e;
    const uint64_t sign = uint64_t{1} << (bits - 1);
    const Halide::Type with_sign = Halide::Int(bits);
    if (const auto number = as_const_uint(e)) {
      const uint64_t flipped = *number ^ sign;
      return make_const(with_sign,
                        bits == 32 ? static_cast<int32_t>(flipped) : static_cast<int64_t>(flipped));
    }
    const auto* sum = e.as<Add>();
    const auto* cast = sum && as_const_uint(sum->b) == sign ? sum->a.as<Cast>() : nullptr;
    return cast && cast->value.type() == with_sign ? cast->value : e;
  }

  /// Whether conditions that data decide keep a subscript inside, as y >= 0 && y < H ? X(y) : 0.
  /// They may be about the value that a number is added to, or about the sum, wrapped around: what
  /// is inside then is the exact one, since sizes and numbers are far from what 32 bits hold.
  bool is_guarded(const Expr& subscript, int64_t size) const {
    const int64_t far = int64_t{1} << 30;
    const Shifted place = split_offset(exact(subscript));
    if (place.reach > far || size > far) return false;
    for (const int64_t offset : {int64_t{0}, place.offset}) {
      bool above = false, below = false;
      const auto compare = [&](Expr smaller, Expr larger, bool equal_too) {
        smaller = with_sign(smaller), larger = with_sign(larger);
        const Shifted a = split_offset(smaller), b = split_offset(larger);
        if (a.reach > far || b.reach > far) return;
        const auto least = as_const_int(smaller), most = as_const_int(larger);
        const int64_t apart = place.offset - offset;
        if (least && b.offset == offset && equal(b.value, place.value))
          above = above || *least + !equal_too + apart >= 0;
        if (most && a.offset == offset && equal(a.value, place.value))
          below = below || *most - !equal_too + apart < size;
      };
      for (const Expr& guard : guards_)
        for (const Expr& condition : ir::list_conditions(guard)) {
          if (const auto* op = condition.as<LT>()) compare(op->a, op->b, false);
          if (const auto* op = condition.as<LE>()) compare(op->a, op->b, true);
          if (const auto* op = condition.as<GT>()) compare(op->b, op->a, false);
          if (const auto* op = condition.as<GE>()) compare(op->b, op->a, true);
        }
      if (above && below) return true;
    }
    return false;
  }

  /// Names for the reads of tensors of which limits are known.
  Expr name_reads(const Expr& subscript) {
    return ir::mutate(subscript, [&](const Call* op, ir::Mutator& self) {
      auto found = positions_.find(ir::read_name(op));
      if (found == positions_.end()) return self.inside(op);
      const std::string name = "position of " + found->first;
      if (!limits_.contains(name)) limits_.push(name, found->second);
      return ir::make_variable(name, op->type);
    });
  }

  /// What is open under weaker conditions already is not listed again: divisions, for instance,
  /// mention their operands several times, under conditions on their signs.
  void note_open(const Expr& read, size_t d) {
    auto covers = [&](size_t known) {
      const ir::OpenAccess& access = open[known];
      return access.dimension == d && access.conditions.size() <= guards_.size() &&
             std::equal(access.conditions.begin(), access.conditions.end(), guards_.begin(),
                        [](const Expr& a, const Expr& b) { return equal(a, b); });
    };
    std::vector<size_t>& known = known_open_[read.defined() ? read : Expr(0)];
    if (std::any_of(known.begin(), known.end(), covers)) return;
    known.push_back(open.size());
    open.push_back({place_, read, d, guards_});
  }

  /// Whether a subscript that holds data does, in both branches of a choice.
  bool stays_inside(const Expr& subscript, int64_t size) {
    if (is_limited(subscript, size) || is_guarded(subscript, size)) return true;
    const std::optional<ir::Choice> choice = ir::find_choice(subscript);
    if (!choice) return false;
    guards_.push_back(choice->condition);
    const bool yes = stays_inside(choice->yes, size);
    guards_.back() = !choice->condition;
    const bool both = yes && stays_inside(choice->no, size);
    guards_.pop_back();
    return both;
  }

  /// Whether the types of what it holds, and what the text does with them, keep a subscript inside.
  bool is_limited(const Expr& subscript, int64_t size) const {
    ConstantInterval interval = constant_integer_bounds(subscript, limits_);
    return interval.is_bounded() && interval.min >= 0 && interval.max < size;
  }

  /// Whether sizes say that it stays inside, or leaves, which is kept as the message.
  bool check_dimension(const char* verb, const ir::Tensor& tensor,
                       const std::vector<Expr>& subscripts, size_t d) {
    const Expr subscript = exact(subscripts[d]);
    const Expr size = Halide::cast(subscript.type(), tensor.sizes[d]);
    // Of quotients by what varies this knows more than what follows.
    if (is_limited(subscript, constant(tensor.sizes[d]))) return true;
    if (is_too_long_a_product(subscript)) return check_points(verb, tensor, subscripts, d);
    Expr inside = and_condition_over_domain(
        subscript >= make_zero(subscript.type()) && subscript < size, bounds_);
    if (is_const_one(simplify(inside))) return true;
    const std::optional<Offence> found = find_offence(subscript, constant(tensor.sizes[d]));
    if (!found) return check_points(verb, tensor, subscripts, d);
    if (found->none) return true;
    // Only data knows whether what leaves the tensor is reached.
    if (!found->exact) return false;
    report(verb, tensor, subscripts, d, found->point,
           simplify(substitute(found->point, subscript)));
    return true;
  }

  /// Without the cast around one that is computed in 64 bits (ir/expressions/wrap_integers): its
  /// number counts, not what of it fits 32 bits.
  static Expr exact(const Expr& subscript) {
    const auto* cast = subscript.as<Cast>();
    return cast && cast->value.type() == Halide::Int(64) ? cast->value : subscript;
  }

  /// Point by point: in products and quotients of what varies operands depend on each other, of
  /// which intervals know nothing. Of many points only the corners of their box are looked at,
  /// where most that leave a tensor do; then what stays inside there is checked when it is run.
  bool check_points(const char* verb, const ir::Tensor& tensor, const std::vector<Expr>& subscripts,
                    size_t d) {
    if (!guards_.empty()) return false;
    const Expr subscript = exact(subscripts[d]);
    const std::set<std::string> used = ir::variables_of(subscript);
    std::vector<const ir::Iterator*> indices;
    int64_t points = 1;
    for (const ir::Iterator& iterator : statement_.domain) {
      if (!used.count(iterator.name)) continue;
      indices.push_back(&iterator);
      points = std::min(points, machine::kMostPointsOfSubscript + 1) * constant(iterator.extent);
    }
    const bool all = points <= machine::kMostPointsOfSubscript;
    if (!all) points = int64_t{1} << std::min<size_t>(indices.size(), 10);
    std::map<std::string, int64_t> values;
    for (int64_t point = 0; point < points; ++point) {
      int64_t rest = point;
      for (auto index = indices.rbegin(); index != indices.rend(); ++index) {
        const int64_t steps = all ? constant((*index)->extent) : 2;
        const int64_t step = all ? 1 : constant((*index)->extent) - 1;
        values[(*index)->name] = constant((*index)->min) + rest % steps * step;
        rest /= steps;
      }
      const std::optional<int64_t> reached = ir::integer_value(subscript, values);
      if (!reached) return false;
      if (*reached >= 0 && *reached < constant(tensor.sizes[d])) continue;
      std::map<std::string, Expr> place;
      for (const auto& [name, value] : values) place[name] = static_cast<int32_t>(value);
      report(verb, tensor, subscripts, d, place, make_const(Halide::Int(64), *reached));
      return true;
    }
    return all;
  }

  /// What polyhedra know of a condition: it holds nowhere else, and at all of them where it is
  /// exact.
  struct Known {
    isl::set points;
    bool exact = true;
  };
  Known both(const Known& a, const Known& b) const {
    const isl::set points = a.points.intersect(b.points);
    // One of both conditions holds nowhere else either.
    if (!sets_->is_simple(points)) return {a.points, false};
    return {points, a.exact && b.exact};
  }

  /// Of the condition, or of its opposite.
  Known known(const Expr& e, bool holds) const {
    // The opposite of a conjunction is the disjunction of the opposites.
    auto joined = [&](const Expr& first, const Expr& second, bool conjunction) {
      const Known a = known(first, holds), b = known(second, holds);
      return conjunction == holds ? both(a, b)
                                  : Known{a.points.unite(b.points), a.exact && b.exact};
    };
    if (const auto* op = e.as<Not>()) return known(op->a, !holds);
    if (const auto* op = e.as<And>()) return joined(op->a, op->b, true);
    if (const auto* op = e.as<Or>()) return joined(op->a, op->b, false);
    // `&&` and `||` whose second operand reads.
    const std::optional<ir::Choice> choice = ir::find_choice(e);
    if (choice && e.type().is_bool()) {
      if (is_const_zero(choice->no)) return joined(choice->condition, choice->yes, true);
      if (is_const_one(choice->yes)) return joined(choice->condition, choice->no, false);
    }
    const std::optional<isl::set> points = sets_->where(e);
    if (!points) return {sets_->points(), false};
    return {holds ? *points : sets_->points().subtract(*points), true};
  }

  /// A point that leads outside of a dimension, or that there is none.
  struct Offence {
    bool none = true, exact = true;
    std::map<std::string, Expr> point;
  };

  /// Nothing where the subscript is not affine piece by piece.
  std::optional<Offence> find_offence(const Expr& subscript, int64_t size) {
    std::vector<Expr> question = guards_;
    question.push_back(subscript);
    question.push_back(make_const(Halide::Int(64), size));
    const Expr key = Call::make(Halide::Int(32), "inside", question, Call::PureExtern);
    auto [entry, added] = offences_.emplace(key, std::nullopt);
    if (!added) return entry->second;
    if (!sets_) sets_.emplace(context_.get(), statement_.domain);
    const std::optional<isl::set> inside = sets_->inside(subscript, size);
    if (!inside) return std::nullopt;
    Known offending{sets_->points().subtract(*inside)};
    for (const Expr& condition : guards_) offending = both(offending, known(condition, true));
    Offence offence{offending.points.is_empty(), offending.exact, {}};
    if (!offence.none && offence.exact) {
      const isl::multi_val place = offending.points.lexmin().sample_point().multi_val();
      for (size_t i = 0; i < statement_.domain.size(); ++i)
        offence.point[statement_.domain[i].name] =
            static_cast<int32_t>(poly::to_integer(place.at(static_cast<int>(i))));
    }
    return entry->second = offence;
  }

  void report(const char* verb, const ir::Tensor& tensor, const std::vector<Expr>& subscripts,
              size_t d, const std::map<std::string, Expr>& values, const Expr& reached) {
    const std::string index = is_const(reached) ? concat(constant(reached)) : concat(reached);
    const std::set<std::string> used = ir::variables_of(subscripts[d]);
    std::vector<std::string> where, ranges;
    for (const ir::Iterator& iterator : statement_.domain) {
      if (!used.count(iterator.name)) continue;
      auto value = values.find(iterator.name);
      if (value != values.end()) where.push_back(concat(iterator.name, " = ", value->second));
      ranges.push_back(concat(iterator.name, " runs over ", iterator.min, ":",
                              constant(iterator.min) + constant(iterator.extent)));
    }
    message_ = concat(
        verb, " ", access_text(tensor, subscripts),
        " outside: ", where.empty() ? "the subscript" : join(where),
        where.empty() ? " reaches index " : " gives index ", index, ", but dimension ", d, " of ",
        tensor.name, " has size ", tensor.sizes[d], ranges.empty() ? "" : " (" + join(ranges) + ")",
        where.empty() && is_const(reached) && constant(reached) < 0
            ? concat("; indices count from 0, and the last one is ", constant(tensor.sizes[d]) - 1)
            : std::string(),
        verb == std::string("writes")
            ? "; declare or pass larger tensors, or give the index a smaller range in a where "
              "clause"
            : concat("; pass larger tensors, give the index a smaller range in a where clause, or "
                     "guard the access: condition ? ",
                     tensor.name, "(...) : 0"),
        at_line());
  }

  /// What is computed in 64 bits as if in 32.
  static Expr shown(const Expr& subscript) {
    const Expr wide = exact(subscript);
    return wide.type() == Halide::Int(64) ? ir::narrow(wide).value_or(subscript) : subscript;
  }

  static std::string access_text(const ir::Tensor& tensor, const std::vector<Expr>& subscripts) {
    std::vector<std::string> texts;
    for (const Expr& subscript : subscripts) {
      // Halide puts parentheses around every operation.
      std::string text =
          concat(holds_data(subscript) ? ir::make_variable("...") : shown(subscript));
      for (size_t at; (at = text.find(" + -")) != std::string::npos;) text.replace(at, 4, " - ");
      bool wrapped = text.size() > 2 && text.front() == '(' && text.back() == ')';
      texts.push_back(wrapped ? text.substr(1, text.size() - 2) : text);
    }
    return concat(tensor.name, "(", join(texts), ")");
  }

  const ir::Program& program_;
  const size_t place_;
  const ir::Statement& statement_;
  const std::map<std::string, ConstantInterval>& positions_;
  poly::Context context_;
  std::optional<poly::IndexSets> sets_;  ///< of the domain, where anything is asked of them
  ir::Bounds bounds_;
  Scope<ConstantInterval> limits_;
  std::vector<Expr> guards_;
  /// What isl was asked: guards, subscript and size.
  std::map<Expr, std::optional<Offence>, IRDeepCompare> offences_;
  std::map<Expr, std::vector<size_t>, IRDeepCompare> known_open_;
  std::string message_;
};

/// A reduction of no terms writes what it begins with.
std::string check_empty_reduction(const ir::Program& program, size_t place,
                                  const std::map<std::string, ConstantInterval>& positions) {
  ir::Statement statement = program.statements[place];
  if (!statement.initializes) return "";
  std::set<std::string> empty;
  for (ir::Iterator& iterator : statement.domain) {
    if (constant(iterator.extent) != 0) continue;
    if (!iterator.reduction) return "";
    empty.insert(iterator.name);
    iterator.extent = Expr(1);
  }
  if (empty.empty()) return "";
  return StatementCheck(program, statement, place, positions).run_initialization(empty);
}

}  // namespace

AccessCheck check_accesses(const ir::Program& program) {
  AccessCheck result;
  const std::map<std::string, ConstantInterval> positions = position_limits(program);
  for (size_t s = 0; s < program.statements.size(); ++s) {
    StatementCheck check(program, program.statements[s], s, positions);
    result.outside = check.run();
    if (result.outside.empty()) result.outside = check_empty_reduction(program, s, positions);
    result.open.insert(result.open.end(), check.open.begin(), check.open.end());
    if (!result.outside.empty()) break;
  }
  return result;
}

}  // namespace tc::lang
