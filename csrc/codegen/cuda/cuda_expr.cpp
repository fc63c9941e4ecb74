#include "codegen/cuda/cuda_expr.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "base/text_stream.h"
#include "codegen/names.h"
#include "ir/program.h"

namespace tc::codegen {

namespace {

// Identifiers that C++ or the prelude has already, beside CUDA's functions, which texts only call
// with a leading "::" so that a variable may hide them.
const std::set<std::string>& reserved_names() {
  static const std::set<std::string> names = [] {
    std::istringstream words(
        "alignas alignof and and_eq asm auto bitand bitor blockDim blockIdx bool break case "
        "catch char class compl const constexpr const_cast continue decltype default delete "
        "do double dynamic_cast else enum explicit export extern false float for friend goto "
        "gridDim if inline int long mutable namespace new noexcept not not_eq nullptr "
        "operator or or_eq private protected public register reinterpret_cast return short "
        "signed sizeof static static_assert static_cast struct switch tc template this "
        "thread_local threadIdx throw true try typedef typeid typename union unsigned using "
        "virtual void volatile warpSize wchar_t while xor xor_eq tc_shared concept requires "
        "char16_t char32_t char8_t co_await co_return co_yield consteval constinit NULL NAN "
        "INFINITY NDEBUG EOF assert signbit isnan isinf isfinite errno linux unix near far");
    return std::set<std::string>(std::istream_iterator<std::string>(words), {});
  }();
  return names;
}

std::string integer_literal(int64_t value, int bits) {
  const std::string suffix = bits == 64 ? "ll" : "";
  // The smallest value has no literal: its minus would apply to a number out of range.
  if (bits >= 32 && value == (bits == 64 ? INT64_MIN : INT64_C(-2147483648)))
    return "(" + std::to_string(value + 1) + suffix + " - 1)";
  return std::to_string(value) + suffix;
}

std::string float_literal(double value, bool is_double) {
  char text[40];
  const InCLocale numbers;
  std::snprintf(text, sizeof(text), is_double ? "%.17g" : "%.9g", value);
  if (!std::strpbrk(text, ".e")) std::strcat(text, ".0");
  return text + std::string(is_double ? "" : "f");
}

}  // namespace

bool is_16_bit_float(const Type& type) { return type.is_float() && type.bits() == 16; }

std::string value_type(const Type& type) {
  TC_INTERNAL_CHECK(type.is_scalar(), "vector type ", type, " in a GPU kernel");
  if (type.is_bool()) return "bool";
  if (type.is_float()) return type.bits() == 64 ? "double" : "float";
  TC_INTERNAL_CHECK(type.is_int_or_uint(), "type ", type, " in a GPU kernel");
  const std::string prefix = type.is_uint() ? "unsigned " : "";
  switch (type.bits()) {
    case 8: return type.is_uint() ? "unsigned char" : "signed char";
    case 16: return prefix + "short";
    case 32: return type.is_uint() ? "unsigned" : "int";
    case 64: return prefix + "long long";
  }
  TC_INTERNAL_CHECK(false, "type ", type, " in a GPU kernel");
  return "";
}

std::string storage_type(const Type& type) {
  if (!is_16_bit_float(type)) return value_type(type);
  return type.is_bfloat() ? "tc::bfloat16" : "tc::half";
}

// ---- names

std::string CudaExprPrinter::unique_name(const std::string& name) {
  std::string base;
  for (char c : name) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  // Identifiers with two underscores belong to the compiler.
  for (size_t at; (at = base.find("__")) != std::string::npos;) base.erase(at, 1);
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "v" + base;
  if (base[0] == '_') base = "v" + base;
  if (reserved_names().count(base)) base += "_";
  // Macros of CUDA's own headers, as cudaStreamDefault and CUDART_VERSION.
  for (const std::string prefix : {"cuda", "CUDA", "CU_", "NV_"})
    if (base.compare(0, prefix.size(), prefix) == 0) base = "v" + base;
  std::string result = base;
  const std::string separator = base.back() == '_' ? "" : "_";
  for (int i = 1; !used_names_.insert(result).second; ++i)
    result = base + separator + std::to_string(i);
  return result;
}

const CudaExprPrinter::Binding& CudaExprPrinter::binding(const std::string& name) const {
  const auto found = bindings_.find(name);
  TC_INTERNAL_CHECK(found != bindings_.end() && !found->second.empty(), "\"", name,
                    "\" is neither an argument of the GPU kernel nor declared in it");
  return found->second.back();
}

void CudaExprPrinter::declare_let(const std::string& name, const Expr& value) {
  const std::string text = print(value);
  const Interval range = value.type().is_int_or_uint() && !value.type().is_bool()
                             ? bounds_of_expr_in_scope(value, ranges_)
                             : Interval::everything();
  const std::string unique = unique_name(name);
  line("const " + value_type(value.type()) + " " + unique + " = " + text + ";");
  bindings_[name].push_back({unique});
  ranges_.push(name, range);
}

void CudaExprPrinter::drop_let(const std::string& name) {
  bindings_[name].pop_back();
  ranges_.pop(name);
}

void CudaExprPrinter::line(const std::string& text) {
  out_ += std::string(2 * indent_, ' ') + text + "\n";
}

void CudaExprPrinter::start_function() {
  bindings_.clear();
  used_names_.clear();
}

// ---- expressions

std::string CudaExprPrinter::print(const Expr& e, Precedence context) {
  const Text text = dispatch(e);
  return text.precedence < context ? "(" + text.text + ")" : text.text;
}

std::string CudaExprPrinter::element(const std::string& buffer, const Expr& index) {
  return binding(buffer).text + "[" + print(index) + "]";
}

std::string CudaExprPrinter::print_for_storage(const Expr& e) {
  if (!is_16_bit_float(e.type())) return print(e);
  // Storing rounds, so the rounding of the outermost operation can be left out.
  const Text text = dispatch(e);
  return (e.type().is_bfloat() ? "tc::to_bfloat16(" : "tc::to_half(") +
         (text.unrounded.empty() ? text.text : text.unrounded) + ")";
}

/// An operand that is evaluated only under a condition. What it declares may load, so it must not
/// move before the statement.
std::string CudaExprPrinter::lazily(const Expr& e, Precedence context) {
  ScopedValue<bool> lazy(lazy_, true);
  return print(e, context);
}

CudaExprPrinter::Text CudaExprPrinter::binary(const Expr& a, const char* op, const Expr& b,
                                              Precedence precedence) {
  // Left-associative: an equal operator on the right needs parentheses. Around the operands of bit
  // operations they are for readers.
  const bool bitwise = precedence == kShift || (precedence >= kBitOr && precedence <= kBitAnd);
  const std::string left = print(a, bitwise ? kUnary : precedence);
  const std::string right = print(b, bitwise ? kUnary : Precedence(precedence + 1));
  return {left + " " + op + " " + right, precedence};
}

/// Brings what C computed in int or float back to the type the operation has.
CudaExprPrinter::Text CudaExprPrinter::wrapped(const Type& type, Text text) {
  if (is_16_bit_float(type)) {
    (type.is_bfloat() ? prelude_.bfloat16 : prelude_.half) = true;
    return {(type.is_bfloat() ? "tc::round_bfloat16(" : "tc::round_half(") + text.text + ")",
            kPrimary, text.text};
  }
  if (type.is_int_or_uint() && type.bits() < 32) {
    if (text.precedence < kUnary) text.text = "(" + text.text + ")";
    return {"(" + value_type(type) + ")" + text.text, kUnary};
  }
  return text;
}

CudaExprPrinter::Text CudaExprPrinter::arithmetic(const Type& type, const Expr& a, const char* op,
                                                  const Expr& b, Precedence precedence) {
  return wrapped(type, binary(a, op, b, precedence));
}

/// A call of a function of the prelude, with the type spelled out where literals would not have it.
CudaExprPrinter::Text CudaExprPrinter::helper(const std::string& name, const Type& type,
                                              const std::vector<Expr>& args) {
  std::string text = "tc::" + name;
  if (type.is_int_or_uint() && !(type.is_int() && type.bits() == 32))
    text += "<" + value_type(type) + ">";
  text += "(";
  for (size_t i = 0; i < args.size(); ++i) text += (i ? ", " : "") + print(args[i]);
  return {text + ")", kPrimary};
}

bool CudaExprPrinter::never_negative(const Expr& e) const {
  if (e.type().is_uint()) return true;
  const Interval range = bounds_of_expr_in_scope(e, ranges_);
  if (!range.has_lower_bound()) return false;
  const auto lower = as_const_int(simplify(range.min));
  return lower && *lower >= 0;
}

CudaExprPrinter::Text CudaExprPrinter::divide(const Type& type, const Expr& a, const Expr& b,
                                              bool remainder) {
  TC_INTERNAL_CHECK(!type.is_float() || !remainder, "remainder of floats in a GPU kernel: ", a);
  if (type.is_float()) return arithmetic(type, a, "/", b, kProduct);
  if (is_positive_const(b)) {
    if (never_negative(a)) return arithmetic(type, a, remainder ? "%" : "/", b, kProduct);
    if (const auto log = is_const_power_of_two_integer(b)) {
      if (remainder)
        return arithmetic(type, a, "&", make_const(type, (int64_t{1} << *log) - 1), kBitAnd);
      // The assembler of CUDA 13.0 makes LEA.HI.SX32 of (-x >> k) + c, with the complement of x
      // where its negation should be: too large by one unless 2^k divides x. x rounded up has no
      // negation.
      const Sub* difference = a.as<Sub>();
      if (difference && is_const_zero(difference->a)) {
        const Expr rounded_up = difference->b + make_const(type, (int64_t{1} << *log) - 1);
        const std::string text =
            "-(" + print(rounded_up, kUnary) + " >> " + std::to_string(*log) + ")";
        return wrapped(type, {text, kUnary});
      }
      return wrapped(type, {print(a, kUnary) + " >> " + std::to_string(*log), kShift});
    }
  }
  prelude_.floor_div = true;
  return helper(remainder ? "floor_mod" : "floor_div", type, {a, b});
}

CudaExprPrinter::Text CudaExprPrinter::cast(const Type& type, const Expr& value) {
  const Type from = value.type();
  if (type.is_bool()) {
    if (from.is_bool()) return dispatch(value);
    return {print(value, kEquality) + " != 0", kEquality};
  }
  if (is_16_bit_float(type)) {
    if (from == type) return dispatch(value);
    std::string text = print(value);
    if (!from.is_float() || from.bits() == 64) text = "(float)" + print(value, kUnary);
    return wrapped(type, {text, kUnary});
  }
  // A 16-bit float is a float already.
  if (value_type(type) == value_type(from)) return dispatch(value);
  return {"(" + value_type(type) + ")" + print(value, kUnary), kUnary};
}

CudaExprPrinter::Text CudaExprPrinter::reinterpret(const Type& type, const Expr& value) {
  TC_INTERNAL_CHECK(type.bits() == value.type().bits(), "reinterpret changes the size: ", value);
  std::string text = print(value);
  if (is_16_bit_float(value.type()))
    text = (value.type().is_bfloat() ? "tc::to_bfloat16(" : "tc::to_half(") + text + ").bits";
  if (is_16_bit_float(type)) {
    const std::string bits = type == value.type() ? text : "tc::bits<unsigned short>(" + text + ")";
    prelude_.bits = true;
    return {"tc::to_float(" + storage_type(type) + "{" + bits + "})", kPrimary};
  }
  prelude_.bits = true;
  return {"tc::bits<" + value_type(type) + ">(" + text + ")", kPrimary};
}

CudaExprPrinter::Text CudaExprPrinter::conditional(const Expr& condition, const Expr& yes,
                                                   const Expr& no) {
  const std::string test = print(condition, kOr);
  const std::string first = lazily(yes, kOr);
  const std::string second = lazily(no, kOr);
  std::string text = test + " ? " + first + " : " + second;
  // C gives a conditional of two chars the type int, which is harmless: the value is the same.
  return {text, kConditional};
}

CudaExprPrinter::Text CudaExprPrinter::dispatch(const Expr& e) {
  TC_INTERNAL_CHECK(e.defined(), "undefined expression in a GPU kernel");
  const Type type = e.type();
  if (is_16_bit_float(type)) (type.is_bfloat() ? prelude_.bfloat16 : prelude_.half) = true;
  switch (e->node_type) {
    case IRNodeType::IntImm: {
      const int64_t value = e.as<IntImm>()->value;
      return {integer_literal(value, type.bits()), value < 0 ? kUnary : kPrimary};
    }
    case IRNodeType::UIntImm: {
      const uint64_t value = e.as<UIntImm>()->value;
      if (type.is_bool()) return {value ? "true" : "false", kPrimary};
      const char* suffix = type.bits() == 64 ? "ull" : type.bits() == 32 ? "u" : "";
      return {std::to_string(value) + suffix, kPrimary};
    }
    case IRNodeType::FloatImm: {
      const double value = e.as<FloatImm>()->value;
      const bool is_double = type.bits() == 64;
      if (std::isfinite(value))
        return {float_literal(value, is_double), std::signbit(value) ? kUnary : kPrimary};
      prelude_.bits = true;
      const char* bits = std::isnan(value) ? (is_double ? "7ff8000000000000ull" : "7fc00000u")
                         : value < 0       ? (is_double ? "fff0000000000000ull" : "ff800000u")
                                           : (is_double ? "7ff0000000000000ull" : "7f800000u");
      return {"tc::bits<" + value_type(type) + ">(0x" + bits + ")", kPrimary};
    }
    case IRNodeType::Cast: return cast(type, e.as<Cast>()->value);
    case IRNodeType::Reinterpret: return reinterpret(type, e.as<Reinterpret>()->value);
    case IRNodeType::Variable: return {binding(e.as<Variable>()->name).text, kPrimary};
    case IRNodeType::Load: {
      const Load* op = e.as<Load>();
      TC_INTERNAL_CHECK(is_const_one(op->predicate), "predicated load in a GPU kernel: ", e);
      const std::string text = element(op->name, op->index);
      return {is_16_bit_float(type) ? "tc::to_float(" + text + ")" : text, kPrimary};
    }
    case IRNodeType::Add: return arithmetic(type, e.as<Add>()->a, "+", e.as<Add>()->b, kSum);
    case IRNodeType::Sub: return arithmetic(type, e.as<Sub>()->a, "-", e.as<Sub>()->b, kSum);
    case IRNodeType::Mul: return arithmetic(type, e.as<Mul>()->a, "*", e.as<Mul>()->b, kProduct);
    case IRNodeType::Div: return divide(type, e.as<Div>()->a, e.as<Div>()->b, false);
    case IRNodeType::Mod: return divide(type, e.as<Mod>()->a, e.as<Mod>()->b, true);
    case IRNodeType::Min:
      prelude_.min_max = true;
      return helper("min", type, {e.as<Min>()->a, e.as<Min>()->b});
    case IRNodeType::Max:
      prelude_.min_max = true;
      return helper("max", type, {e.as<Max>()->a, e.as<Max>()->b});
    case IRNodeType::EQ: return binary(e.as<EQ>()->a, "==", e.as<EQ>()->b, kEquality);
    case IRNodeType::NE: return binary(e.as<NE>()->a, "!=", e.as<NE>()->b, kEquality);
    case IRNodeType::LT: return binary(e.as<LT>()->a, "<", e.as<LT>()->b, kRelation);
    case IRNodeType::LE: return binary(e.as<LE>()->a, "<=", e.as<LE>()->b, kRelation);
    case IRNodeType::GT: return binary(e.as<GT>()->a, ">", e.as<GT>()->b, kRelation);
    case IRNodeType::GE: return binary(e.as<GE>()->a, ">=", e.as<GE>()->b, kRelation);
    case IRNodeType::And: {
      const std::string left = print(e.as<And>()->a, kAnd);
      return {left + " && " + lazily(e.as<And>()->b, kEquality), kAnd};
    }
    case IRNodeType::Or: {
      // Parentheses around && inside || keep compilers and readers quiet.
      const Expr a = e.as<Or>()->a, b = e.as<Or>()->b;
      const std::string left = print(a, a.as<Or>() ? kOr : kEquality);
      return {left + " || " + lazily(b, kEquality), kOr};
    }
    case IRNodeType::Not: return {"!" + print(e.as<Not>()->a, kUnary), kUnary};
    case IRNodeType::Select:
      return conditional(e.as<Select>()->condition, e.as<Select>()->true_value,
                         e.as<Select>()->false_value);
    case IRNodeType::Let: {
      const Let* op = e.as<Let>();
      if (!lazy_) {
        declare_let(op->name, op->value);
        Text body = dispatch(op->body);
        drop_let(op->name);
        return body;
      }
      const std::string before = std::move(out_);
      out_.clear();
      ScopedValue<bool> lazy(lazy_, false);
      ++indent_;
      declare_let(op->name, op->value);
      line("return " + print(op->body) + ";");
      drop_let(op->name);
      --indent_;
      const std::string inside = std::move(out_);
      out_ = before;
      return {"[&] {\n" + inside + std::string(2 * indent_, ' ') + "}()", kPrimary};
    }
    case IRNodeType::Call: return call(e.as<Call>());
    default: TC_INTERNAL_CHECK(false, "expression in a GPU kernel: ", e);
  }
  return {};
}

// ---- calls

CudaExprPrinter::Text CudaExprPrinter::call(const Call* op) {
  const std::string name = ir::math_name(op);
  if (!name.empty()) return math(name, op);
  if (op->name == "tc_shuffle_xor") {
    return {"__shfl_xor_sync(0xffffffffu, " + print(op->args[0]) + ", " + print(op->args[1]) + ")",
            kPrimary};
  }
  if (auto checked = ir::find_checked_index(op)) {
    std::string args;
    for (const Expr& e : {checked->index, checked->size, checked->check, checked->position})
      args += print(e) + ", ";
    return {"tc::checked_index<" + value_type(checked->index.type()) + ">(" + args + report_ +
                ", " + report_kernel_ + ")",
            kPrimary};
  }
  TC_INTERNAL_CHECK(op->is_intrinsic(), "call in a GPU kernel: ", Expr(op));
  return intrinsic(op);
}

CudaExprPrinter::Text CudaExprPrinter::math(const std::string& name, const Call* op) {
  // The order of jn and yn, their first argument, is an integer.
  const Type type = op->args.empty() ? op->type : op->args.back().type();
  std::string args;
  for (const Expr& arg : op->args) {
    const bool order = args.empty() && op->args.size() == 2 && arg.type() == Halide::Int(32);
    TC_INTERNAL_CHECK((arg.type() == type || order) && type.is_float(), name, " on ", arg.type(),
                      ": ", Expr(op));
    args += (args.empty() ? "" : ", ") + print(arg);
  }
  if (name == "isnan" || name == "isinf") {
    prelude_.classify = true;
    return {"tc::" + name + "(" + args + ")", kPrimary};
  }
  std::string function = name == "abs" ? "fabs" : name;
  if (type.bits() != 64) function += "f";
  return wrapped(op->type, {"::" + function + "(" + args + ")", kPrimary});
}

CudaExprPrinter::Text CudaExprPrinter::intrinsic(const Call* op) {
  const Type type = op->type;
  const auto& args = op->args;
  const auto is = [&](Call::IntrinsicOp what) { return op->is_intrinsic(what); };
  if (is(Call::if_then_else)) {
    TC_INTERNAL_CHECK(args.size() == 3, "if_then_else without an else: ", Expr(op));
    return conditional(args[0], args[1], args[2]);
  }
  if (is(Call::bitwise_and)) return arithmetic(type, args[0], "&", args[1], kBitAnd);
  if (is(Call::bitwise_or)) return arithmetic(type, args[0], "|", args[1], kBitOr);
  if (is(Call::bitwise_xor)) return arithmetic(type, args[0], "^", args[1], kBitXor);
  if (is(Call::bitwise_not)) {
    if (type.is_bool()) return {"!" + print(args[0], kUnary), kUnary};
    return wrapped(type, {"~" + print(args[0], kUnary), kUnary});
  }
  if (is(Call::shift_left) || is(Call::shift_right)) {
    TC_INTERNAL_CHECK(never_negative(args[1]), "shift in a GPU kernel: ", Expr(op));
    return arithmetic(type, args[0], is(Call::shift_left) ? "<<" : ">>", args[1], kShift);
  }
  if (is(Call::div_round_to_zero) || is(Call::mod_round_to_zero)) {
    const bool remainder = is(Call::mod_round_to_zero);
    const auto divisor = as_const_int(args[1]);
    const bool harmless = (divisor && *divisor != 0 && *divisor != -1) ||
                          (type.is_uint() && is_const(args[1]) && !is_const_zero(args[1]));
    if (harmless) return arithmetic(type, args[0], remainder ? "%" : "/", args[1], kProduct);
    prelude_.truncate_div = true;
    return helper(remainder ? "truncate_mod" : "truncate_div", type, args);
  }
  TC_INTERNAL_CHECK(false, "call in a GPU kernel: ", Expr(op));
  return {};
}

}  // namespace tc::codegen
