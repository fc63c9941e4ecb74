#include "ir/program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/notes.h"
#include "base/passes.h"
#include "base/text_stream.h"
#include "ir/dtypes.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/wide_integers.h"
#include "ir/expressions/wrap_integers.h"
#include "ir/scan.h"

namespace tc::ir {

namespace {

const Pass kWrapAround("specialize", "wrap_around");
const Pass kExactSubscript("specialize", "exact_subscript");

// The vocabulary is spelled as pure calls whose names no Halide pass knows, so that Halide's
// simplifier may copy and drop them but never looks inside.
constexpr char kRead[] = "tc.read.";
constexpr char kScalar[] = "tc.scalar.";
constexpr char kMath[] = "tc.math.";
constexpr char kCheckedIndex[] = "tc.checked_index";

/// Int(32) constant of a size or specialised scalar.
Expr size_constant(const std::string& name, int64_t value) {
  TC_INTERNAL_CHECK(
      value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max(),
      name, " = ", value, " does not fit a 32-bit index");
  return make_const(Halide::Int(32), value);
}

const char* role_name(TensorRole role) {
  switch (role) {
    case TensorRole::Input: return "input";
    case TensorRole::Output: return "output";
    case TensorRole::InOut: return "inout";
    case TensorRole::Temporary: return "temporary";
  }
  return "";
}

/// An operand of arithmetic that wraps around, without the change to unsigned; undefined when it is
/// none.
Expr wrapped_operand(const Expr& e) {
  Type type = e.type().with_code(Halide::Type::Int);
  if (auto value = as_const_uint(e))
    return make_const(type,
                      static_cast<int64_t>(*value << (64 - type.bits())) >> (64 - type.bits()));
  const auto* cast = e.as<Cast>();
  return cast && cast->value.type() == type ? cast->value : Expr();
}

/// Prints reads and builtins as a user would write the call, A(i, j), and arithmetic without the
/// detour by which it wraps around.
class PlainCalls : public IRMutator {
  using IRMutator::visit;
  Expr visit(const Cast* op) override {
    const Type from = op->value.type();
    if (op->type.is_int() && from == op->type.with_code(Halide::Type::UInt)) {
      Expr plain = signed_again<Add>(op->value);
      if (!plain.defined()) plain = signed_again<Sub>(op->value);
      if (!plain.defined()) plain = signed_again<Mul>(op->value);
      if (plain.defined()) return mutate(plain);
    }
    return IRMutator::visit(op);
  }
  template <class Node>
  static Expr signed_again(const Expr& e) {
    const auto* op = e.as<Node>();
    if (!op) return Expr();
    Expr a = wrapped_operand(op->a), b = wrapped_operand(op->b);
    return a.defined() && b.defined() ? Node::make(a, b) : Expr();
  }
  /// The shortest number that is the same; Halide writes six digits behind the point.
  Expr visit(const FloatImm* op) override {
    std::array<char, 32> digits;
    const auto end = op->type.bits() > 32 ? std::to_chars(digits.begin(), digits.end(), op->value)
                                          : std::to_chars(digits.begin(), digits.end(),
                                                          static_cast<float>(op->value));
    std::string text(digits.begin(), end.ptr);
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return Variable::make(op->type, text);
  }
  /// Division that truncates and its remainder are what c_div and c_mod made of them.
  Expr visit(const Div* op) override {
    const auto* sum = op->a.as<Add>();
    const auto* up = sum ? sum->b.as<Select>() : nullptr;
    const std::optional<int64_t> divisor = as_const_int(op->b);
    if (!up || !divisor || !is_negative(up->condition, sum->a) ||
        !is_const(up->true_value, std::abs(*divisor) - 1) || !is_const_zero(up->false_value))
      return IRMutator::visit(op);
    return Div::make(mutate(sum->a), mutate(op->b));
  }
  Expr visit(const Add* op) override {
    for (const auto& [down, other] : {std::pair(op->a, op->b), {op->b, op->a}}) {
      const auto* choice = down.as<Select>();
      const auto* both = choice ? choice->condition.as<And>() : nullptr;
      const auto* remainder = other.as<Mod>();
      if (both && remainder && is_negative(both->a, remainder->a) &&
          is_const_zero(choice->false_value))
        return mutate(other);
    }
    return IRMutator::visit(op);
  }
  Expr visit(const Select* op) override {
    return choice_text(op->condition, op->true_value, op->false_value);
  }
  static bool is_negative(const Expr& condition, const Expr& e) {
    const auto* less = condition.as<LT>();
    return less && is_const_zero(less->b) && equal(less->a, e);
  }
  static Expr choice_text(const Expr& condition, const Expr& yes, const Expr& no) {
    if (yes.type().is_bool() && is_const_zero(no))
      return Variable::make(yes.type(), concat(part(condition), " && ", part(yes)));
    return Variable::make(yes.type(), concat("(", part(condition), " ? ", plain_text(yes), " : ",
                                             plain_text(no), ")"));
  }
  static std::string part(const Expr& e) {
    const std::string text = plain_text(e);
    return text.find('?') == std::string::npos ? text : "(" + text + ")";
  }
  Expr visit(const Call* op) override {
    if (auto scan = find_scan(op)) return mutate(scan_value(scan->scan, scan->term));
    if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3)
      return choice_text(op->args[0], op->args[1], op->args[2]);
    if (auto checked = find_checked_index(op)) {
      // The index, which may have another type than the subscript.
      std::string text = plain_text(checked->index);
      if (text.find(' ') != std::string::npos) text = "(" + text + ")";
      return Variable::make(op->type, text);
    }
    std::string name = read_name(op);
    bool builtin = name.empty();
    if (builtin) name = math_name(op);
    if (name.empty()) return IRMutator::visit(op);
    if (builtin || !op->args.empty()) name += list_text(op->args);
    return Variable::make(op->type, name);
  }
};

}  // namespace

const char* spelling(Reduction reduction) {
  switch (reduction) {
    case Reduction::None: return "=";
    case Reduction::Sum: return "+=";
    case Reduction::Product: return "*=";
    case Reduction::Min: return "min=";
    case Reduction::Max: return "max=";
    case Reduction::And: return "&&=";
    case Reduction::Or: return "||=";
    case Reduction::ArgMin: return "argmin=";
    case Reduction::ArgMax: return "argmax=";
  }
  return "";
}

Expr read(const Tensor& tensor, const std::vector<Expr>& subscripts) {
  return Call::make(tensor.type, kRead + tensor.name, subscripts, Call::PureExtern);
}

Expr read_scalar(const Scalar& scalar) {
  return Call::make(scalar.type, kScalar + scalar.name, std::vector<Expr>{}, Call::PureExtern);
}

Expr math(const std::string& name, Type type, const std::vector<Expr>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    bool order = i == 0 && (name == "jn" || name == "yn");
    const Expr& argument = arguments[i];
    TC_INTERNAL_CHECK(argument.type() == (order ? Halide::Int(32) : type), name, " of ",
                      dtype_name(argument.type()), " where ", dtype_name(type), " is meant");
  }
  Type result = name == "isnan" || name == "isinf" ? Halide::Bool() : type;
  return Call::make(result, kMath + name, arguments, Call::PureExtern);
}

Expr checked_index(const Expr& index, const Expr& size, int check, const Expr& position) {
  return Call::make(Halide::Int(32), kCheckedIndex, {index, size, check, position},
                    Call::PureExtern);
}

std::optional<CheckedIndex> find_checked_index(const Call* call) {
  if (call->name != kCheckedIndex) return std::nullopt;
  return CheckedIndex{call->args[0], call->args[1], call->args[2], call->args[3]};
}

std::string read_name(const Call* call) {
  if (starts_with(call->name, kRead)) return call->name.substr(sizeof(kRead) - 1);
  if (starts_with(call->name, kScalar)) return call->name.substr(sizeof(kScalar) - 1);
  return "";
}

std::string math_name(const Call* call) {
  return starts_with(call->name, kMath) ? call->name.substr(sizeof(kMath) - 1) : "";
}

namespace {

Expr magnitude(const Expr& b) {
  // The type does not hold that of the smallest number: see ir/expressions/wrap_integers.
  if (auto constant = as_const_int(b); constant && !equal(b, b.type().min()))
    return make_const(b.type(), *constant < 0 ? -*constant : *constant);
  return Halide::select(b < make_zero(b.type()), make_zero(b.type()) - b, b);
}

/// |a| as an unsigned integer, which has room for that of the smallest. Halide's own abs takes part
/// in rules that hold without overflow only, as |a| * |b| = |a * b|.
Expr unsigned_magnitude(const Expr& a) {
  Type bits = a.type().with_code(Halide::Type::UInt);
  Expr same = Halide::cast(bits, a);
  return Halide::select(a < make_zero(a.type()), make_zero(bits) - same, same);
}

Expr with_sign(const Expr& negative, const Expr& magnitude, Type type) {
  Expr zero = make_zero(magnitude.type());
  return Halide::cast(type, Halide::select(negative, zero - magnitude, magnitude));
}

}  // namespace

Expr wrapping_negative(const Expr& a) {
  Type bits = a.type().with_code(Halide::Type::UInt);
  return Halide::cast(a.type(), make_zero(bits) - Halide::cast(bits, a));
}

// Data is divided without signs: the smallest number by -1 would trap on some processors. Of
// indices and sizes Halide's quotient, which leaves a remainder in [0, |b|), keeps a
// form that later passes understand: for a < 0, adding |b| - 1 to the dividend turns its rounding
// into the one towards zero, and cannot overflow.
Expr c_div(const Expr& a, const Expr& b) {
  Type type = a.type();
  if (type.is_uint()) return a / b;
  Expr zero = make_zero(type), one = make_one(type);
  std::optional<int64_t> constant = as_const_int(b);
  if (constant && *constant == 0) return zero;
  if ((!constant || *constant < 0) && (has_data(a) || has_data(b)))
    return with_sign((a < zero) != (b < zero), unsigned_magnitude(a) / unsigned_magnitude(b), type);
  return (a + Halide::select(a < zero, magnitude(b) - one, zero)) / b;
}

Expr c_mod(const Expr& a, const Expr& b) {
  Type type = a.type();
  if (type.is_uint()) return a % b;
  Expr zero = make_zero(type);
  std::optional<int64_t> constant = as_const_int(b);
  if (constant && *constant == 0) return zero;
  if ((!constant || *constant < 0) && (has_data(a) || has_data(b)))
    return with_sign(a < zero, unsigned_magnitude(a) % unsigned_magnitude(b), type);
  // A divisor's sign does not count.
  const Expr divisor = constant ? magnitude(b) : b;
  Expr remainder = a % divisor;
  return Halide::select(a < zero && remainder != zero, remainder - magnitude(b), remainder);
}

Expr identity(Reduction reduction, Type type) {
  switch (reduction) {
    case Reduction::None:
    case Reduction::Sum: return make_zero(type);
    case Reduction::Product: return make_one(type);
    case Reduction::Min: return type.max();
    case Reduction::Max: return type.min();
    case Reduction::And: return make_one(type);
    case Reduction::Or: return make_zero(type);
    case Reduction::ArgMin:
    case Reduction::ArgMax: break;
  }
  TC_INTERNAL_CHECK(false, "no such reduction of this type");
  return Expr();
}

Expr combine(Reduction reduction, const Expr& a, const Expr& b) {
  if (reduction == Reduction::None) return b;
  if (a.type().is_bool()) {
    bool any =
        reduction == Reduction::Sum || reduction == Reduction::Max || reduction == Reduction::Or;
    // CUDA C evaluates the second one where the first one leaves it open: what is added comes
    // first, since it may look at an index.
    return any ? b || a : b && a;
  }
  // Sums and products of signed integers wrap around, which LLVM must not take for impossible.
  if (a.type().is_int() && a.type().bits() >= 32 &&
      (reduction == Reduction::Sum || reduction == Reduction::Product)) {
    const Type wrapping = a.type().with_code(Type::UInt);
    const Expr x = Halide::cast(wrapping, a), y = Halide::cast(wrapping, b);
    return Halide::cast(a.type(), reduction == Reduction::Sum ? x + y : x * y);
  }
  switch (reduction) {
    case Reduction::None: return b;
    case Reduction::Sum: return a + b;
    case Reduction::Product: return a * b;
    case Reduction::Min: return Halide::min(a, b);
    case Reduction::Max: return Halide::max(a, b);
    case Reduction::And:
    case Reduction::Or:  // of bool alone
    case Reduction::ArgMin:
    case Reduction::ArgMax: break;
  }
  TC_INTERNAL_CHECK(false, "no such reduction of this type");
  return b;
}

void number_statements(Program& program) {
  for (size_t s = 0; s < program.statements.size(); ++s)
    program.statements[s].name = "S" + std::to_string(s);
}

const Tensor& add_temporary(Program& program, std::string name, Type type,
                            std::vector<Expr> sizes) {
  while (program.tensors.count(name)) name += "_";
  return program.tensors[name] = {name, type, TensorRole::Temporary, std::move(sizes), {}};
}

Expr write_temporary(Program& program, Statement& statement, const std::string& name, Type type,
                     const std::vector<Iterator>& over) {
  std::vector<Expr> sizes;
  statement.subscripts.clear();
  for (const Iterator& it : over) {
    sizes.push_back(it.extent);
    statement.subscripts.push_back(simplify(make_variable(it.name) - it.min));
  }
  const Tensor& temporary = add_temporary(program, name, type, std::move(sizes));
  statement.tensor = temporary.name;
  return read(temporary, statement.subscripts);
}

std::vector<Iterator> kept_indices(const Statement& statement) {
  std::vector<Iterator> kept;
  for (const Iterator& it : statement.domain)
    if (!it.reduction) kept.push_back(it);
  return kept;
}

std::vector<Iterator> reduced_indices(const Statement& statement) {
  std::vector<Iterator> reduced;
  for (const Iterator& it : statement.domain)
    if (it.reduction) reduced.push_back(it);
  return reduced;
}

int64_t count_points(const std::vector<Iterator>& domain) {
  // The largest int64 where there are more.
  int64_t points = 1;
  bool fits = true;
  for (const Iterator& it : domain) {
    if (extent_of(it) <= 0) return 0;
    fits = fits && !__builtin_mul_overflow(points, extent_of(it), &points);
  }
  return fits ? points : std::numeric_limits<int64_t>::max();
}

Expr position_in(const std::vector<Iterator>& domain, Type type) {
  Expr position = make_zero(type);
  for (const Iterator& it : domain)
    position = position * Halide::cast(type, it.extent) +
               Halide::cast(type, simplify(make_variable(it.name) - it.min));
  return simplify(position);
}

void assign(Statement& statement) {
  statement.reduction = Reduction::None;
  statement.initializes = false;
}

const Iterator* find_index(const std::vector<Iterator>& domain, const std::string& name) {
  for (const Iterator& it : domain)
    if (it.name == name) return &it;
  return nullptr;
}

bool is_variable(const Expr& e, const std::string& name) {
  const auto* variable = e.as<Variable>();
  return variable && variable->name == name;
}

std::string unused_index(const Statement& statement, std::string name) {
  while (find_index(statement.domain, name)) name += "_";
  return name;
}

Iterator make_index(const Statement& statement, const std::string& name, const Expr& extent,
                    const std::string& meaning) {
  return {unused_index(statement, name), 0, extent, false, meaning};
}

void replace_statements(Program& program, const MakeStatements& make) {
  std::vector<Statement> result;
  for (Statement& statement : program.statements)
    for (Statement& each : make(statement)) result.push_back(std::move(each));
  program.statements = std::move(result);
  number_statements(program);
}

void put_in_front(Program& program, const MakeStatements& make) {
  replace_statements(program, [&](Statement& statement) {
    std::vector<Statement> made = make(statement);
    made.push_back(std::move(statement));
    return made;
  });
}

Program specialize(const Program& program, const std::map<std::string, int64_t>& values) {
  std::map<std::string, Expr> constants;
  auto add = [&](const std::string& name) {
    auto found = values.find(name);
    TC_INTERNAL_CHECK(found != values.end(), "no value for ", name, " of ", program.name);
    constants[name] = size_constant(name, found->second);
  };
  for (const std::string& size : program.sizes) add(size);
  // Scalars that were specialised are constants in the program already; a value is only needed
  // where range inference was not given one.
  for (const auto& [name, scalar] : program.scalars) {
    if (scalar.specialized && values.count(name)) add(name);
  }
  auto fixed = [&](const Expr& e) {
    if (!e.defined()) return e;
    return simplify_wide(substitute(constants, e), {});
  };

  auto too_large = [&](const std::string& what) {
    throw ShapeError(concat(program.name, ": ", what,
                            " does not fit 32 bits for these inputs; pass smaller "
                            "ones, or give the index a smaller range in a where clause"));
  };

  Program result = program;
  for (auto& [name, tensor] : result.tensors) {
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
      Expr& size = tensor.sizes[d];
      size = fixed(size);
      if (overflows(size)) too_large(concat("dimension ", d, " of ", name));
      TC_INTERNAL_CHECK(!size.defined() || is_const(size), "a size of ", name, " stays symbolic");
    }
  }
  for (DeclaredSize& declared : result.declared_sizes) declared.value = fixed(declared.value);
  for (Statement& statement : result.statements) {
    // Iterators of extent 1 stay in the subscripts: how an access looks must not depend on a size.
    Scope<Interval> bounds;
    for (Iterator& iterator : statement.domain) {
      iterator.min = fixed(iterator.min);
      iterator.extent = fixed(iterator.extent);
      const auto first = as_const_int(iterator.min), count = as_const_int(iterator.extent);
      if (overflows(iterator.min) || overflows(iterator.extent) ||
          (first && count && *first + *count - 1 > std::numeric_limits<int32_t>::max()))
        too_large("the range of index " + iterator.name);
      TC_INTERNAL_CHECK(is_const(iterator.min) && is_const(iterator.extent), "the range of ",
                        iterator.name, " in ", statement.name, " stays symbolic");
      if (*count > 1) {
        bounds.push(iterator.name,
                    Interval(iterator.min, simplify(iterator.min + iterator.extent - 1)));
      }
    }
    auto simplified = [&](const Expr& e, const Pass& pass, auto exact) {
      if (!e.defined()) return e;
      const Expr plain = substitute(constants, e);
      Expr sized = run_pass(
          pass, [&] { return exact(plain, result, statement); },
          [&](const Expr& made) { return !graph_equal(plain, made); });
      Expr simple = evaluate_eagerly(simplify_integers(sized, bounds), result, bounds);
      if (overflows(simple)) too_large("a number in " + assignment_text(statement));
      return simple;
    };
    for (Expr& subscript : statement.subscripts)
      subscript = simplified(subscript, kExactSubscript, exact_subscript);
    statement.value = simplified(statement.value, kWrapAround, wrap_around);
    statement.guard = simplified(statement.guard, kWrapAround, wrap_around);
    if (statement.guard.defined() && is_const_one(statement.guard)) statement.guard = Expr();
  }
  return result;
}

bool have_same_range(const Iterator& a, const Iterator& b) {
  return equal(a.min, b.min) && equal(a.extent, b.extent);
}

int64_t extent_of(const Iterator& iterator) { return *as_const_int(iterator.extent); }

bool is_scatter(const Statement& statement) {
  return std::find(statement.scattered.begin(), statement.scattered.end(), true) !=
         statement.scattered.end();
}

bool is_definition(const Statement& statement) {
  if (statement.reduction != Reduction::None || is_scan(statement) || statement.guard.defined() ||
      statement.domain.size() != statement.subscripts.size())
    return false;
  for (size_t d = 0; d < statement.subscripts.size(); ++d)
    if (!is_variable(statement.subscripts[d], statement.domain[d].name)) return false;
  return true;
}

std::string plain_text(const Expr& e) {
  if (!e.defined()) return "?";
  TextStream out;
  out << PlainCalls().mutate(e);
  std::string text = out.str();
  // Halide writes the type of everything that is no int in front of it, in parentheses.
  for (const char* prefix : {"(uint", "(int", "(float", "(bfloat"}) {
    for (size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
      size_t end = text.find_first_not_of("0123456789", at + std::string(prefix).size());
      bool is_type = end != std::string::npos && text[end] == ')';
      if (is_type) {
        text.erase(at, end + 1 - at);
      } else {
        ++at;
      }
    }
  }
  for (size_t at; (at = text.find(" + -")) != std::string::npos;) text.replace(at, 4, " - ");
  bool wrapped = text.size() > 2 && text.front() == '(' && text.back() == ')';
  for (size_t i = 0, depth = 0; wrapped && i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    wrapped = depth > 0;
  }
  return wrapped ? text.substr(1, text.size() - 2) : text;
}

std::string list_text(const std::vector<Expr>& list) {
  std::vector<std::string> texts;
  for (const Expr& e : list) texts.push_back(plain_text(e));
  return "(" + join(texts) + ")";
}

std::string assignment_text(const Statement& statement) {
  return concat(statement.tensor, list_text(statement.subscripts), " ",
                spelling(statement.reduction), statement.initializes ? "! " : " ",
                plain_text(statement.value),
                statement.guard.defined() ? " if " + plain_text(statement.guard) : "");
}

std::string to_string(const Program& program) {
  TextStream out;
  out << program.name << "(";
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    out << (i ? ", " : "");
    if (parameter.scalar) {
      const Scalar& scalar = program.scalars.at(parameter.name);
      out << dtype_name(scalar.type) << (scalar.specialized ? " specialized " : " ") << scalar.name;
    } else {
      const Tensor& tensor = program.tensors.at(parameter.name);
      out << dtype_name(tensor.type) << list_text(tensor.sizes) << " " << tensor.name;
    }
  }
  out << ") -> (" << join(program.outputs) << ")\n";
  for (const auto& [name, tensor] : program.tensors) {
    if (tensor.role == TensorRole::Input) continue;
    out << "  " << role_name(tensor.role) << " " << dtype_name(tensor.type)
        << list_text(tensor.sizes) << " " << name << "\n";
  }
  for (const Statement& statement : program.statements) {
    out << "  " << statement.name << ": " << assignment_text(statement) << " for {";
    for (size_t i = 0; i < statement.domain.size(); ++i) {
      const Iterator& iterator = statement.domain[i];
      out << (i ? ", " : "") << iterator.name << (iterator.reduction ? "*" : "") << " in "
          << plain_text(iterator.min) << " + " << plain_text(iterator.extent);
    }
    out << "}\n";
  }
  return out.str();
}

}  // namespace tc::ir
