#include "rewrite/canonical/expand_positions.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tc::ir {
namespace {

using namespace Halide::Internal;

constexpr int64_t kMostPositions = int64_t{1} << 31;

Expr zero_based(const Iterator& it) { return simplify(make_variable(it.name) - it.min); }

struct FindFloatArithmetic : IRVisitor {
  bool found = false;
  using IRVisitor::visit;
  template <class Node>
  void note(const Node* op) {
    found = found || op->type.is_float();
    IRVisitor::visit(op);
  }
  void visit(const Add* op) override { note(op); }
  void visit(const Sub* op) override { note(op); }
  void visit(const Mul* op) override { note(op); }
  void visit(const Div* op) override { note(op); }
  void visit(const Call* op) override {
    found = found || !math_name(op).empty();
    IRVisitor::visit(op);
  }
};

/// Whether a value that is computed twice may differ in its last digits: reads cannot, but how a
/// compiler contracts arithmetic is its own affair.
bool has_float_arithmetic(const Expr& e) {
  FindFloatArithmetic finder;
  e.accept(&finder);
  return finder.found;
}

/// An integer that is ordered as the values are: zeros of both signs are equal, and every NaN comes
/// at the end that is looked for. The bits of a float are a sign and a magnitude.
Expr make_key(const Expr& value, bool largest) {
  Type type = value.type();
  if (type.is_bool()) return Halide::cast<int32_t>(value);
  if (!type.is_float()) return value;
  Type wide = Halide::Float(std::max(32, type.bits())), integer = Halide::Int(wide.bits());
  Expr bits = reinterpret(integer, type == wide ? value : Halide::cast(wide, value));
  Expr infinity = wide.bits() == 32 ? make_const(integer, 0x7f800000)
                                    : make_const(integer, int64_t{0x7ff0000000000000});
  Expr magnitude = bits & integer.max(), sign = bits >> (wide.bits() - 1);
  Expr key = (magnitude ^ sign) - sign;
  return select(magnitude > infinity, largest ? integer.max() : integer.min(), key);
}

class Expander {
 public:
  explicit Expander(const Program& program) : program_(program), result_(program) {}

  Program run() {
    result_.statements.clear();
    for (const Statement& statement : program_.statements) {
      if (is_position(statement.reduction))
        expand(statement);
      else
        result_.statements.push_back(statement);
    }
    number_statements(result_);
    return std::move(result_);
  }

 private:
  void expand(const Statement& statement) {
    bool largest = statement.reduction == Reduction::ArgMax;
    kept_.clear();
    reduced_.clear();
    int64_t count = 1;
    for (const Iterator& it : statement.domain) {
      (it.reduction ? reduced_ : kept_).push_back(it);
      if (it.reduction) count *= *as_const_int(it.extent);
    }
    Type positions = count <= kMostPositions ? Halide::Int(32) : Halide::Int(64);
    Expr position = make_zero(positions);
    for (const Iterator& it : reduced_)
      position =
          position * Halide::cast(positions, it.extent) + Halide::cast(positions, zero_based(it));
    position = simplify(position);
    Expr key = make_key(statement.value, largest);
    bool packs = key.type().bits() <= 32 && positions.bits() == 32;
    Expr found = packs ? pack(statement, key, position, largest, count)
                       : look_for(statement, key, position, largest);

    Statement result = statement;
    result.reduction = Reduction::None;
    result.initializes = false;
    result.domain = kept_;
    result.meaning = concat(assignment_text(statement), ", the positions alone");
    if (reduced_.size() == 1) found = found + Halide::cast(found.type(), reduced_[0].min);
    result.value = Halide::cast(program_.tensor(statement.tensor).type, simplify(found));
    result_.statements.push_back(result);
  }

  /// One reduction over value and position; the position as int32, below `count`.
  Expr pack(const Statement& statement, Expr key, Expr position, bool largest, int64_t count) {
    const Type wide = key.type().with_bits(64);
    const Expr last = make_const(position.type(), std::max<int64_t>(count, 1) - 1);
    if (largest) position = last - position;
    Expr both =
        Halide::cast(wide, key) * make_const(wide, int64_t{1} << 32) + Halide::cast(wide, position);
    Expr found = reduce(statement, ".both", largest, both, "");
    found = Halide::cast<int32_t>(found);
    return largest ? last - found : found;
  }

  /// The extreme value, then the first position that has it.
  Expr look_for(const Statement& statement, Expr key, const Expr& position, bool largest) {
    if (has_float_arithmetic(statement.value)) key = store(statement, key);
    Expr extreme = reduce(statement, ".value", largest, key, " (its value)");
    return reduce(statement, ".at", false, select(key == extreme, position, position.type().max()),
                  " (where that value is)");
  }

  /// Keeps a value of every point; reads it.
  Expr store(const Statement& statement, const Expr& value) {
    Statement copy = statement;
    copy.reduction = Reduction::None;
    copy.initializes = false;
    copy.meaning = concat(assignment_text(statement), " (the values)");
    copy.value = value;
    std::vector<Iterator> all = kept_;
    all.insert(all.end(), reduced_.begin(), reduced_.end());
    for (Iterator& it : copy.domain) it.reduction = false;
    return finish(copy, temporary(statement, ".values", value.type(), all), all);
  }

  /// A reduction into a temporary; reads its result.
  Expr reduce(const Statement& statement, const std::string& suffix, bool largest,
              const Expr& value, const std::string& remark) {
    Statement copy = statement;
    copy.reduction = largest ? Reduction::Max : Reduction::Min;
    copy.initializes = true;
    copy.meaning = assignment_text(statement) + remark;
    copy.value = value;
    return finish(copy, temporary(statement, suffix, value.type(), kept_), kept_);
  }

  Tensor temporary(const Statement& statement, const std::string& suffix, Type type,
                   const std::vector<Iterator>& over) {
    std::vector<Expr> sizes;
    for (const Iterator& it : over) sizes.push_back(it.extent);
    return add_temporary(result_, statement.tensor + suffix, type, sizes, statement.where);
  }

  /// Lets the statement write the tensor; reads it.
  Expr finish(Statement statement, const Tensor& tensor, const std::vector<Iterator>& over) {
    statement.tensor = tensor.name;
    statement.subscripts.clear();
    for (const Iterator& it : over) statement.subscripts.push_back(zero_based(it));
    result_.statements.push_back(statement);
    return read(tensor, statement.subscripts);
  }

  const Program& program_;
  Program result_;
  std::vector<Iterator> kept_, reduced_;  ///< of the statement being replaced
};

}  // namespace

Program expand_positions(const Program& program) { return Expander(program).run(); }

}  // namespace tc::ir
