// The part of the CUDA printer that knows expressions: types, names, operators and calls.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/cuda_prelude.h"
#include "codegen/cuda/cuda_printer.h"
#include "ir/halide.h"

namespace tc::codegen {

/// The C type of an expression's value. The 16-bit floats are carried as float.
std::string value_type(const ir::Type& type);
/// The C type of an element in memory.
std::string storage_type(const ir::Type& type);

bool is_16_bit_float(const ir::Type& type);

class CudaExprPrinter {
 public:
  virtual ~CudaExprPrinter() = default;

 protected:
  /// A name of the function's text: where it came from, and how elements are reached.
  struct Binding {
    std::string text;
    bool shared_by_threads = false;
  };

  /// How tightly operators bind, as far as the text needs to know.
  enum Precedence {
    kAny,
    kConditional,
    kOr,
    kAnd,
    kBitOr,
    kBitXor,
    kBitAnd,
    kEquality,
    kRelation,
    kShift,
    kSum,
    kProduct,
    kUnary,
    kPrimary,
  };

  /// The text of an expression, in parentheses where it binds less tightly than `context`. Lets
  /// become declarations before the current statement, or a lambda where they must not be
  /// evaluated yet.
  std::string print(const ir::Expr& e, Precedence context = kAny);
  /// `print` as an element to be stored.
  std::string print_for_storage(const ir::Expr& e);
  /// name[index].
  std::string element(const std::string& buffer, const ir::Expr& index);

  /// An identifier made from a name and used nowhere else in this function.
  std::string unique_name(const std::string& name);
  const Binding& binding(const std::string& name) const;
  void declare_let(const std::string& name, const ir::Expr& value);
  void drop_let(const std::string& name);
  void line(const std::string& text);
  /// Forgets the names of the function before.
  void start_function();

  std::map<std::string, std::vector<Binding>> bindings_;
  Halide::Internal::Scope<Halide::Internal::Interval> ranges_;
  std::set<std::string> used_names_;
  CudaPrelude prelude_;
  std::string report_, report_kernel_;  ///< the arguments that ir::checked_index needs
  std::string out_;
  int indent_ = 0;

 private:
  struct Text {
    std::string text;
    Precedence precedence = kAny;
    /// For a 16-bit float, the float whose rounding `text` is; empty when it is exact already.
    std::string unrounded = "";
  };

  Text dispatch(const ir::Expr& e);
  std::string lazily(const ir::Expr& e, Precedence context);
  Text binary(const ir::Expr& a, const char* op, const ir::Expr& b, Precedence precedence);
  Text arithmetic(const ir::Type& type, const ir::Expr& a, const char* op, const ir::Expr& b,
                  Precedence precedence);
  Text wrapped(const ir::Type& type, Text text);
  Text divide(const ir::Type& type, const ir::Expr& a, const ir::Expr& b, bool remainder);
  Text helper(const std::string& name, const ir::Type& type, const std::vector<ir::Expr>& args);
  Text cast(const ir::Type& type, const ir::Expr& value);
  Text reinterpret(const ir::Type& type, const ir::Expr& value);
  Text conditional(const ir::Expr& condition, const ir::Expr& yes, const ir::Expr& no);
  Text call(const Halide::Internal::Call* op);
  Text intrinsic(const Halide::Internal::Call* op);
  Text math(const std::string& name, const Halide::Internal::Call* op);
  bool never_negative(const ir::Expr& e) const;

  bool lazy_ = false;  ///< what is printed is evaluated only under a condition
};

}  // namespace tc::codegen
