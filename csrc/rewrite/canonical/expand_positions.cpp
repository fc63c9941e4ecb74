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
    const std::vector<Iterator> reduced = reduced_indices(statement);
    const int64_t count = count_points(reduced);
    Type positions = count <= kMostPositions ? Halide::Int(32) : Halide::Int(64);
    const Expr position = position_in(reduced, positions);
    Expr key = make_key(statement.value, largest);
    bool packs = key.type().bits() <= 32 && positions.bits() == 32;
    Expr found = packs ? pack(statement, key, position, largest, count)
                       : look_for(statement, key, position, largest);

    Statement result = statement;
    assign(result);
    result.domain = kept_indices(statement);
    result.meaning = concat(assignment_text(statement), ", the positions alone");
    if (reduced.size() == 1) found = found + Halide::cast(found.type(), reduced[0].min);
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
    Expr found = store(statement, ".both", largest ? Reduction::Max : Reduction::Min, both, "");
    found = Halide::cast<int32_t>(found);
    return largest ? last - found : found;
  }

  /// The extreme value, then the first position that has it.
  Expr look_for(const Statement& statement, Expr key, const Expr& position, bool largest) {
    if (has_float_arithmetic(statement.value))
      key = store(statement, ".values", Reduction::None, key, " (the values)");
    Expr extreme =
        store(statement, ".value", largest ? Reduction::Max : Reduction::Min, key, " (its value)");
    return store(statement, ".at", Reduction::Min,
                 select(key == extreme, position, position.type().max()), " (where that value is)");
  }

  /// Keeps a reduction of values, or those of every point, in a temporary; reads it.
  Expr store(const Statement& statement, const std::string& suffix, Reduction reduction,
             const Expr& value, const std::string& remark) {
    Statement copy = statement;
    copy.reduction = reduction;
    copy.initializes = reduction != Reduction::None;
    copy.meaning = assignment_text(statement) + remark;
    copy.value = value;
    for (Iterator& it : copy.domain) it.reduction = it.reduction && copy.initializes;
    const Expr made = write_temporary(program_, copy, statement.tensor + suffix, value.type(),
                                      kept_indices(copy));
    made_.push_back(std::move(copy));
    return made;
  }

  Program& program_;
  std::vector<Statement> made_;  ///< in the place of the one being replaced
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
