#include "rewrite/canonical/expand_positions.h"

#include <algorithm>

#include "base/error.h"
#include "ir/expressions/walk.h"

namespace tc::ir {
namespace {

constexpr int64_t kMostPositions = int64_t{1} << 31;

/// Whether a value that is computed twice may differ in its last digits: reads cannot, but how a
/// compiler contracts arithmetic is its own affair.
bool has_float_arithmetic(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& part) {
    const auto* call = part.as<Call>();
    const bool computes = part.as<Add>() || part.as<Sub>() || part.as<Mul>() || part.as<Div>();
    found = found || (call ? !math_name(call).empty() : computes && part.type().is_float());
    return !found;
  });
  return found;
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
  explicit Expander(Program& program) : program_(program) {}

  /// The statements in the place of one that finds a position.
  std::vector<Statement> expand(const Statement& statement) {
    made_.clear();
    bool largest = statement.reduction == Reduction::ArgMax;
    kept_ = kept_indices(statement);
    reduced_ = reduced_indices(statement);
    const int64_t count = count_points(reduced_);
    Type positions = count <= kMostPositions ? Halide::Int(32) : Halide::Int(64);
    const Expr position = position_in(reduced_, positions);
    Expr key = make_key(statement.value, largest);
    bool packs = key.type().bits() <= 32 && positions.bits() == 32;
    Expr found = packs ? pack(statement, key, position, largest, count)
                       : look_for(statement, key, position, largest);

    Statement result = statement;
    assign(result);
    result.domain = kept_;
    result.meaning = concat(assignment_text(statement), ", the positions alone");
    if (reduced_.size() == 1) found = found + Halide::cast(found.type(), reduced_[0].min);
    result.value = Halide::cast(program_.tensor(statement.tensor).type, simplify(found));
    made_.push_back(result);
    return std::move(made_);
  }

 private:
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
    assign(copy);
    copy.meaning = concat(assignment_text(statement), " (the values)");
    copy.value = value;
    for (Iterator& it : copy.domain) it.reduction = false;
    return add(copy, statement.tensor + ".values", copy.domain);
  }

  /// A reduction into a temporary; reads its result.
  Expr reduce(const Statement& statement, const std::string& suffix, bool largest,
              const Expr& value, const std::string& remark) {
    Statement copy = statement;
    copy.reduction = largest ? Reduction::Max : Reduction::Min;
    copy.initializes = true;
    copy.meaning = assignment_text(statement) + remark;
    copy.value = value;
    return add(copy, statement.tensor + suffix, kept_);
  }

  /// Adds a statement that writes a temporary, and reads it.
  Expr add(Statement& statement, const std::string& name, const std::vector<Iterator>& over) {
    Expr made = write_temporary(program_, statement, name, statement.value.type(), over);
    made_.push_back(std::move(statement));
    return made;
  }

  Program& program_;
  std::vector<Iterator> kept_, reduced_;  ///< of the statement being replaced
  std::vector<Statement> made_;           ///< in its place
};

}  // namespace

void expand_positions(Program& program) {
  Expander expander(program);
  replace_statements(program, [&](const Statement& statement) {
    return is_position(statement.reduction) ? expander.expand(statement)
                                            : std::vector<Statement>{statement};
  });
}

}  // namespace tc::ir
