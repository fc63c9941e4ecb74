// The program: statements over integer domains, with bodies as Halide expressions. Both frontends
// (lang, einsum) make it, and the middle end (poly) starts from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "ir/halide.h"

namespace tc::ir {

enum class TensorRole {
  Input,      ///< read only
  Output,     ///< written before it is read; its initial contents do not matter
  InOut,      ///< an output whose initial contents are read: the caller must pass it
  Temporary,  ///< a left-hand side that is not returned; allocated by the kernel
};

struct Tensor {
  std::string name;
  Type type;
  TensorRole role = TensorRole::Input;
  /// One Int(32) expression a dimension, over `Program::sizes` and specialised scalars; constants
  /// after `specialize`. Empty for a 0-d tensor.
  std::vector<Expr> sizes;
  SourceRange where;
};

/// A scalar of the signature. One that appears in a subscript, range or size is `specialized`: its
/// value is part of the kernel's identity. The others are read at run time from a 0-d buffer.
struct Scalar {
  std::string name;
  Type type;
  bool specialized = false;
};

/// A parameter of the signature in order: names a tensor (role Input) or a scalar.
struct Parameter {
  std::string name;
  bool scalar = false;
};

/// One dimension of a statement's domain: name in [min, min + extent).
struct Iterator {
  std::string name;
  Expr min, extent;
  bool reduction = false;  ///< is no plain subscript of the left-hand side
  /// What an index is that the text has not as it is: "h and w as one", "parts of k".
  std::string meaning = {};
};

/// Of a specialised program.
int64_t extent_of(const Iterator& iterator);
/// Whether two indices run over the same values.
bool have_same_range(const Iterator& a, const Iterator& b);

/// And and Or are of bool. ArgMin and ArgMax store where the first extreme value is, counted from 0
/// and row-major over the reductions, or the index itself where there is one; they always start
/// afresh. `rewrite/canonical/expand_positions` writes them with the others.
enum class Reduction { None, Sum, Product, Min, Max, And, Or, ArgMin, ArgMax };
/// Whether the result is a position, so that value and result have types of their own.
inline bool is_position(Reduction reduction) {
  return reduction == Reduction::ArgMin || reduction == Reduction::ArgMax;
}
/// "+=" as in the text, without "!".
const char* spelling(Reduction reduction);

/// write(subscripts) reduction= value, for every point of the domain where `guard` holds.
/// Semantics are functional: all of `value` is read before anything is written, for the statement
/// as a whole; `poly/scop` rejects statements that cannot keep that in place.
struct Statement {
  std::string name;  ///< "S0", "S1", ... in program order
  std::string tensor;
  /// Left-hand side subscripts, over iterator names; element 0 of a dimension belongs to the lower
  /// bound of its index, so a subscript is `index - min`.
  std::vector<Expr> subscripts;
  /// Which dimensions are scattered: their subscript is some other expression, which may read data
  /// and take the same value at several points. Empty where none is. Such a statement reduces.
  std::vector<bool> scattered;
  Reduction reduction = Reduction::None;
  bool initializes = false;  ///< `+=!`: the reduction's identity is stored first
  /// Plain left-hand side iterators in order of subscripts, then reductions in order of appearance.
  std::vector<Iterator> domain;
  Expr value;  ///< of the written tensor's type, unless the result is a position
  Expr guard;  ///< Bool; undefined when every point runs
  /// A scatter whose points may run at the same time: each combines its value with what its place
  /// holds in one step that no other point interrupts.
  bool atomic = false;
  /// Computes places from its indices: these may become quotients and remainders of one index.
  bool counts = false;
  SourceRange where;
  /// For the reader, of a statement that stands for another one of the text: that one.
  std::string meaning = {};
};

/// Whether some dimension of the left-hand side is scattered.
bool is_scatter(const Statement& statement);

/// Whether it gives every element that it writes a value at once: its subscripts are its indices.
bool is_definition(const Statement& statement);

/// A size that the return list gives and that only a call's sizes can show to be the inferred one.
struct DeclaredSize {
  std::string tensor;
  size_t dimension = 0;
  std::string text;  ///< as written
  Expr value;
  /// Of whose declaration in a called definition: "B of matmul"; empty for the return list.
  std::string called = {};
};

/// One dimension of an access that neither intervals nor polyhedra show to stay inside its tensor:
/// its subscript holds data, or a condition does that keeps it inside.
struct OpenAccess {
  size_t statement = 0;  ///< by its place in the program
  Expr read;             ///< undefined for the left-hand side
  size_t dimension = 0;
  std::vector<Expr> conditions;  ///< under which the access happens
};

struct Program {
  std::string name;
  std::vector<std::string> sizes;  ///< size names in order of appearance in the signature
  std::vector<Parameter> parameters;
  std::vector<std::string> outputs;  ///< names in order of the return list
  std::map<std::string, Tensor> tensors;
  std::map<std::string, Scalar> scalars;
  std::vector<Statement> statements;
  std::vector<DeclaredSize> declared_sizes;
  /// Of a specialised program as it was checked, inner reads before those whose subscripts hold
  /// them; what compiles it takes them out.
  std::vector<OpenAccess> open_accesses;

  const Tensor& tensor(const std::string& name) const { return tensors.at(name); }
};

/// Enters a temporary under that name, with underscores behind it where it is taken.
const Tensor& add_temporary(Program& program, std::string name, Type type, std::vector<Expr> sizes);
/// Lets a statement write a new temporary instead, which has an element for each point of these
/// indices; returns the read of that element. Indices that are reduced over are the caller's.
Expr write_temporary(Program& program, Statement& statement, const std::string& name, Type type,
                     const std::vector<Iterator>& over);
/// The index of that name; null where the domain has none.
const Iterator* find_index(const std::vector<Iterator>& domain, const std::string& name);
/// Whether an expression is the variable of that name.
bool is_variable(const Expr& e, const std::string& name);
/// That name for another index of the statement, with underscores behind it where it is taken.
std::string unused_index(const Statement& statement, std::string name);
/// Another index of the statement, from 0 on and of no reduction.
Iterator make_index(const Statement& statement, const std::string& name, const Expr& extent,
                    const std::string& meaning);
/// Gives statements their names again, "S0", "S1", ..., after some were added or left out.
void number_statements(Program& program);
using MakeStatements = std::function<std::vector<Statement>(Statement&)>;
/// Puts those that `make` returns in the place of every statement.
void replace_statements(Program& program, const MakeStatements& make);
/// Puts them in front of every statement, which `make` may change.
void put_in_front(Program& program, const MakeStatements& make);

/// Calls `visit` with what a statement computes with: its value, its subscripts, and its guard
/// where it has one.
template <class SomeStatement, class Visit>
void for_each_expression(SomeStatement& statement, const Visit& visit) {
  visit(statement.value);
  for (auto& subscript : statement.subscripts) visit(subscript);
  if (statement.guard.defined()) visit(statement.guard);
}
/// The indices of results, or those that are reduced over, in order.
std::vector<Iterator> kept_indices(const Statement& statement);
std::vector<Iterator> reduced_indices(const Statement& statement);
/// Of a specialised program.
int64_t count_points(const std::vector<Iterator>& domain);
/// Where a point lies in a domain, counted from 0 and row-major.
Expr position_in(const std::vector<Iterator>& domain, Type type);
/// Lets a statement store its value as it is.
void assign(Statement& statement);

// ---- vocabulary of bodies. Size names and iterators are Int(32) variables by name.

/// Reads tensor(subscripts). Subscripts are Int(32) expressions, possibly with reads inside.
Expr read(const Tensor& tensor, const std::vector<Expr>& subscripts);
/// The run-time value of a scalar parameter.
Expr read_scalar(const Scalar& scalar);
/// A builtin by its C name without type suffix ("exp", "fmax", "rsqrt"); all arguments have `type`,
/// but for the order of jn and yn, an int32.
Expr math(const std::string& name, Type type, const std::vector<Expr>& arguments);

/// `index` of a dimension of this size as an Int(32), of which kernels find out while they run that
/// it stays inside: `check` says which access it is, `position` at which point of the statement.
/// One that leaves the dimension is reported, and the value is some place inside, or 0 where there
/// is none.
Expr checked_index(const Expr& index, const Expr& size, int check, const Expr& position);
struct CheckedIndex {
  Expr index, size, check, position;
};
/// Nothing when the call is no such index.
std::optional<CheckedIndex> find_checked_index(const Halide::Internal::Call* call);

/// The tensor or scalar that a call reads; empty when the call is no read.
std::string read_name(const Halide::Internal::Call* call);
/// The builtin's name; empty when the call is no builtin.
std::string math_name(const Halide::Internal::Call* call);

/// Integer division and remainder as in C (towards zero). By zero the result is 0, so that no
/// kernel traps.
Expr c_div(const Expr& a, const Expr& b);
Expr c_mod(const Expr& a, const Expr& b);
/// -a of a signed integer, that of the smallest being itself. Overflow of signed integers has no
/// meaning in Halide from 32 bits on.
Expr wrapping_negative(const Expr& a);

/// The identity of a reduction in a type: 0, 1, +inf or the largest value, -inf or the smallest.
Expr identity(Reduction reduction, Type type);
/// a op b.
Expr combine(Reduction reduction, const Expr& a, const Expr& b);

/// Replaces sizes and specialised scalars by their values and simplifies; every extent and tensor
/// size becomes a constant. ShapeError where one does not fit 32 bits. A missing value is an
/// internal error.
Program specialize(const Program& program, const std::map<std::string, int64_t>& values);

/// An expression as a user would write it.
std::string plain_text(const Expr& e);
/// Of several, in parentheses: "(i, j + 1)".
std::string list_text(const std::vector<Expr>& list);
/// What is written and the value, without the domain: "C(m, n) +=! A(m, k)*B(k, n)".
std::string assignment_text(const Statement& statement);
/// Text for humans and tests: parameters, then one line a statement with its domain.
std::string to_string(const Program& program);

}  // namespace tc::ir
