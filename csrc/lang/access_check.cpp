// `find_access_outside` of definition.h: interval arithmetic proves most accesses right at once;
// isl finds the smallest offending point of the others.
#include <isl/point.h>
#include <isl/set.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text_stream.h"
#include "ir/simplify.h"
#include "ir/wide_integers.h"
#include "lang/definition.h"
#include "poly/affine.h"
#include "poly/isl.h"

namespace tc::lang {
namespace {

using Halide::Internal::Call;
using Halide::Internal::ConstantInterval;
using Halide::Internal::Interval;
using Halide::Internal::IRVisitor;
using ir::Expr;

int64_t constant(const Expr& e) {
  std::optional<int64_t> value = Halide::Internal::as_const_int(e);
  TC_INTERNAL_CHECK(value, e, " is not a constant: the program is not specialised");
  return *value;
}

/// One piece of a subscript without min, max and choices: `value` where all of `conditions` hold.
struct Piece {
  std::vector<Expr> conditions;
  Expr value;
};

/// Finds one Min, Max or Select inside an expression that has none inside, so that it may be affine
/// which side is taken: abs(abs(i) - 5).
struct FindChoice : IRVisitor {
  Expr found;
  using IRVisitor::visit;
  template <class Node>
  void note(const Node* op) {
    IRVisitor::visit(op);
    if (!found.defined()) found = Expr(op);
  }
  void visit(const Halide::Internal::Min* op) override { note(op); }
  void visit(const Halide::Internal::Max* op) override { note(op); }
  void visit(const Halide::Internal::Select* op) override { note(op); }
};

/// Splits an expression into pieces, up to a number no sensible subscript reaches.
std::vector<Piece> pieces(const Expr& e) {
  std::vector<Piece> todo = {{{}, e}}, done;
  while (!todo.empty() && todo.size() + done.size() < 64) {
    Piece piece = todo.back();
    todo.pop_back();
    FindChoice choice;
    piece.value.accept(&choice);
    if (!choice.found.defined()) {
      done.push_back(piece);
      continue;
    }
    Expr condition, yes, no;
    if (const auto* op = choice.found.as<Halide::Internal::Min>()) {
      condition = op->a <= op->b, yes = op->a, no = op->b;
    } else if (const auto* op = choice.found.as<Halide::Internal::Max>()) {
      condition = op->a >= op->b, yes = op->a, no = op->b;
    } else {
      const auto* select = choice.found.as<Halide::Internal::Select>();
      condition = select->condition, yes = select->true_value, no = select->false_value;
    }
    for (bool taken : {true, false}) {
      Piece half = piece;
      half.conditions.push_back(taken ? condition : !condition);
      half.value = Halide::Internal::simplify(
          Halide::Internal::substitute(choice.found, taken ? yes : no, piece.value));
      todo.push_back(half);
    }
  }
  if (!todo.empty()) return {};
  return done;
}

bool holds_data(const Expr& e) {
  struct FindCall : IRVisitor {
    bool found = false;
    using IRVisitor::visit;
    void visit(const Call*) override { found = true; }
  } finder;
  e.accept(&finder);
  return finder.found;
}

/// Whether the subscript multiplies or divides what varies by what varies so often that Halide's
/// intervals, in which every operand stands four times, would fill the memory.
bool is_too_long_a_product(const Expr& subscript) {
  struct Count : IRVisitor {
    int products = 0;
    using IRVisitor::visit;
    void count(const Expr& a, const Expr& b) {
      products += !Halide::Internal::is_const(a) && !Halide::Internal::is_const(b);
    }
    void visit(const Halide::Internal::Mul* op) override {
      count(op->a, op->b);
      IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Div* op) override {
      count(op->a, op->b);
      IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Mod* op) override {
      count(op->a, op->b);
      IRVisitor::visit(op);
    }
  } counter;
  subscript.accept(&counter);
  return counter.products > 4;
}

/// All accesses of one statement, with the conditions they stand under.
class StatementCheck : public IRVisitor {
 public:
  StatementCheck(const ir::Program& program, const ir::Statement& statement)
      : program_(program), statement_(statement) {
    for (size_t i = 0; i < statement.domain.size(); ++i) {
      const ir::Iterator& iterator = statement.domain[i];
      int64_t first = constant(iterator.min), last = first + constant(iterator.extent) - 1;
      names_[iterator.name] = poly::iterator_name(i);
      bounds_.push(iterator.name, Interval(iterator.min, Expr(static_cast<int32_t>(last))));
      // Of an empty range nothing is looked at.
      limits_.push(iterator.name, ConstantInterval(first, std::max(first, last)));
    }
  }

  std::string run() {
    for (const ir::Iterator& iterator : statement_.domain) {
      if (constant(iterator.extent) < 0) return empty_range(iterator);
    }
    for (const ir::Iterator& iterator : statement_.domain) {
      if (constant(iterator.extent) == 0) return "";
    }
    if (statement_.guard.defined()) guards_.push_back(statement_.guard);
    for (const Expr& subscript : statement_.subscripts) subscript.accept(this);
    check("writes", program_.tensor(statement_.tensor), statement_.subscripts);
    statement_.value.accept(this);
    return message_;
  }

 private:
  using IRVisitor::visit;

  void visit(const Call* op) override {
    if (!message_.empty()) return;
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3) {
      return visit_choice(op->args[0], op->args[1], op->args[2]);
    }
    IRVisitor::visit(op);
    auto tensor = program_.tensors.find(ir::read_name(op));
    if (tensor != program_.tensors.end()) check("reads", tensor->second, op->args);
  }

  void visit(const Halide::Internal::Select* op) override {
    visit_choice(op->condition, op->true_value, op->false_value);
  }

  void visit_choice(const Expr& condition, const Expr& yes, const Expr& no) {
    condition.accept(this);
    // Whatever the condition is, what both sides read is read: so does the sign of a remainder.
    Reads of_yes, of_no;
    yes.accept(&of_yes);
    no.accept(&of_no);
    for (const Expr& read : of_yes.found) {
      if (of_no.found.count(read)) read.accept(this);
    }
    guards_.push_back(condition);
    yes.accept(this);
    guards_.back() = !condition;
    no.accept(this);
    guards_.pop_back();
  }

  /// What is evaluated wherever an expression is: the reads in it, and the choices as a whole.
  struct Reads : IRVisitor {
    std::set<Expr, Halide::Internal::IRDeepCompare> found;
    using IRVisitor::visit;
    void visit(const Call* op) override {
      found.insert(Expr(op));
      if (op->is_intrinsic(Call::if_then_else))
        op->args[0].accept(this);
      else
        IRVisitor::visit(op);
    }
    void visit(const Halide::Internal::Select* op) override {
      found.insert(Expr(op));
      op->condition.accept(this);
    }
  };

  std::string empty_range(const ir::Iterator& iterator) const {
    return concat("the range of index ", iterator.name, " is empty: it would take ",
                  iterator.extent, " values, from ", iterator.min,
                  " up; a size is too small for "
                  "the subscripts of ",
                  iterator.name, at_line());
  }

  std::string at_line() const {
    if (!statement_.where.valid()) return "";
    return concat(" (line ", statement_.where.line(), ")");
  }

  void check(const char* verb, const ir::Tensor& tensor, const std::vector<Expr>& subscripts) {
    for (size_t d = 0; d < subscripts.size() && message_.empty(); ++d) {
      if (!holds_data(subscripts[d])) check_dimension(verb, tensor, subscripts, d);
    }
  }

  void check_dimension(const char* verb, const ir::Tensor& tensor,
                       const std::vector<Expr>& subscripts, size_t d) {
    const Expr subscript = exact(subscripts[d]);
    const Expr size = Halide::cast(subscript.type(), tensor.sizes[d]);
    // Of quotients by what varies this knows more than what follows.
    ConstantInterval numbers = Halide::Internal::constant_integer_bounds(subscript, limits_);
    if (numbers.is_bounded() && numbers.min >= 0 && numbers.max < constant(tensor.sizes[d])) return;
    if (is_too_long_a_product(subscript)) {
      return check_limits(verb, tensor, subscripts, d);
    }
    Expr inside = Halide::Internal::and_condition_over_domain(
        subscript >= Halide::Internal::make_zero(subscript.type()) && subscript < size, bounds_);
    if (Halide::Internal::is_const_one(Halide::Internal::simplify(inside))) return;
    std::optional<std::string> guard = condition_text(guards_);
    if (!guard) return;  // a condition over data: the user's promise
    std::vector<Piece> parts = pieces(subscript);
    bool affine = !parts.empty();
    for (const Piece& piece : parts) {
      std::optional<std::string> value = poly::affine_text(piece.value, names_, statement_.domain);
      std::optional<std::string> conditions = condition_text(piece.conditions);
      affine = affine && value && conditions;
      if (!affine) break;
      report_offence(verb, tensor, subscripts, d, *guard + " and " + *conditions, *value);
      if (!message_.empty()) return;
    }
    if (!affine && guards_.empty()) report_bounds(verb, tensor, subscripts, d);
  }

  /// Without the cast around one that is computed in 64 bits (ir/wrap_integers): its number counts,
  /// not what of it fits 32 bits.
  static Expr exact(const Expr& subscript) {
    const auto* cast = subscript.as<Halide::Internal::Cast>();
    return cast && cast->value.type() == Halide::Int(64) ? cast->value : subscript;
  }

  /// By the smallest and largest numbers that the operations may come to.
  void check_limits(const char* verb, const ir::Tensor& tensor, const std::vector<Expr>& subscripts,
                    size_t d) {
    ConstantInterval interval =
        Halide::Internal::constant_integer_bounds(exact(subscripts[d]), limits_);
    if (!guards_.empty() || !interval.is_bounded()) return;
    if (interval.min >= 0 && interval.max < constant(tensor.sizes[d])) return;
    int64_t reached = interval.min < 0 ? interval.min : interval.max;
    report(verb, tensor, subscripts, d, {}, Halide::Internal::make_const(Halide::Int(64), reached));
  }

  std::optional<std::string> condition_text(const std::vector<Expr>& conditions) const {
    std::string text = "true";
    for (const Expr& condition : conditions) {
      std::optional<std::string> part =
          poly::affine_condition(condition, names_, statement_.domain);
      if (!part) return std::nullopt;
      text += " and (" + *part + ")";
    }
    return text;
  }

  void report_offence(const char* verb, const ir::Tensor& tensor,
                      const std::vector<Expr>& subscripts, size_t d, const std::string& condition,
                      const std::string& value) {
    TextStream text;
    text << "{ [";
    for (size_t i = 0; i < statement_.domain.size(); ++i) {
      text << (i ? ", " : "") << poly::iterator_name(i);
    }
    text << "] : " << condition << " and ((" << value << ") < 0 or (" << value
         << ") >= " << constant(tensor.sizes[d]) << ")";
    for (size_t i = 0; i < statement_.domain.size(); ++i) {
      int64_t min = constant(statement_.domain[i].min);
      text << " and " << min << " <= " << poly::iterator_name(i) << " < "
           << min + constant(statement_.domain[i].extent);
    }
    text << " }";
    isl::set offending(context_.get(), text.str());
    if (offending.is_empty()) return;
    isl_point* point = isl_set_sample_point(isl_set_lexmin(offending.release()));
    std::map<std::string, Expr> values;
    for (size_t i = 0; i < statement_.domain.size(); ++i) {
      isl_val* coordinate = isl_point_get_coordinate_val(point, isl_dim_set, static_cast<int>(i));
      values[statement_.domain[i].name] =
          Expr(static_cast<int32_t>(isl_val_get_num_si(coordinate)));
      isl_val_free(coordinate);
    }
    isl_point_free(point);
    report(verb, tensor, subscripts, d, values,
           Halide::Internal::simplify(Halide::Internal::substitute(values, exact(subscripts[d]))));
  }

  /// For a subscript no polyhedron describes, such as i * j: its extreme values.
  void report_bounds(const char* verb, const ir::Tensor& tensor,
                     const std::vector<Expr>& subscripts, size_t d) {
    Interval interval = Halide::Internal::bounds_of_expr_in_scope(exact(subscripts[d]), bounds_);
    if (!interval.is_bounded()) return;
    Expr low = Halide::Internal::simplify(interval.min);
    Expr high = Halide::Internal::simplify(interval.max);
    if (!Halide::Internal::is_const(low) || !Halide::Internal::is_const(high)) return;
    report(verb, tensor, subscripts, d, {}, constant(low) < 0 ? low : high);
  }

  void report(const char* verb, const ir::Tensor& tensor, const std::vector<Expr>& subscripts,
              size_t d, const std::map<std::string, Expr>& values, const Expr& reached) {
    const std::string index =
        Halide::Internal::is_const(reached) ? concat(constant(reached)) : concat(reached);
    struct FindVariables : IRVisitor {
      std::set<std::string> names;
      using IRVisitor::visit;
      void visit(const Halide::Internal::Variable* op) override { names.insert(op->name); }
    } used;
    subscripts[d].accept(&used);
    TextStream where, ranges;
    for (const ir::Iterator& iterator : statement_.domain) {
      if (!used.names.count(iterator.name)) continue;
      auto value = values.find(iterator.name);
      if (value != values.end()) {
        where << (where.tellp() > 0 ? ", " : "") << iterator.name << " = " << value->second;
      }
      ranges << (ranges.tellp() > 0 ? ", " : "") << iterator.name << " runs over " << iterator.min
             << ":" << constant(iterator.min) + constant(iterator.extent);
    }
    message_ = concat(
        verb, " ", access_text(tensor, subscripts),
        " outside: ", where.str().empty() ? "the subscript" : where.str(),
        where.str().empty() ? " reaches index " : " gives index ", index, ", but dimension ", d,
        " of ", tensor.name, " has size ", tensor.sizes[d],
        ranges.str().empty() ? "" : " (" + ranges.str() + ")",
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
    TextStream text;
    text << tensor.name << "(";
    for (size_t i = 0; i < subscripts.size(); ++i) {
      TextStream one;
      one << (holds_data(subscripts[i]) ? ir::make_variable("...") : shown(subscripts[i]));
      // Halide puts parentheses around every operation.
      std::string subscript = one.str();
      for (size_t at; (at = subscript.find(" + -")) != std::string::npos;) {
        subscript.replace(at, 4, " - ");
      }
      bool wrapped = subscript.size() > 2 && subscript.front() == '(' && subscript.back() == ')';
      text << (i ? ", " : "") << (wrapped ? subscript.substr(1, subscript.size() - 2) : subscript);
    }
    text << ")";
    return text.str();
  }

  const ir::Program& program_;
  const ir::Statement& statement_;
  poly::Context context_;
  std::map<std::string, std::string> names_;
  ir::Bounds bounds_;
  Halide::Internal::Scope<ConstantInterval> limits_;
  std::vector<Expr> guards_;
  std::string message_;
};

}  // namespace

std::string find_access_outside(const ir::Program& program) {
  for (const ir::Statement& statement : program.statements) {
    std::string message = StatementCheck(program, statement).run();
    if (!message.empty()) return message;
  }
  return "";
}

}  // namespace tc::lang
