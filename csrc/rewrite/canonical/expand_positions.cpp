#include "rewrite/canonical/expand_positions.h"

#include <algorithm>

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

/// Lets a statement that finds a position read it from temporaries; returns what writes these.
std::vector<Statement> expand(Statement& statement, Program& program) {
  const bool largest = statement.reduction == Reduction::ArgMax;
  const Reduction extreme = largest ? Reduction::Max : Reduction::Min;
  const std::vector<Iterator> reduced = reduced_indices(statement);
  const int64_t count = count_points(reduced);
  const Type positions = count <= kMostPositions ? Halide::Int(32) : Halide::Int(64);
  const Expr position = position_in(reduced, positions);
  const std::string text = assignment_text(statement);
  std::vector<Statement> made;
  // Keeps a reduction of values, or those of every point; reads it.
  const auto store = [&](const std::string& suffix, Reduction reduction, const Expr& value,
                         const std::string& remark) {
    Statement copy = statement;
    copy.reduction = reduction;
    copy.initializes = reduction != Reduction::None;
    copy.meaning = text + remark;
    copy.value = value;
    for (Iterator& it : copy.domain) it.reduction = it.reduction && copy.initializes;
    const Expr stored =
        write_temporary(program, copy, statement.tensor + suffix, value.type(), kept_indices(copy));
    made.push_back(std::move(copy));
    return stored;
  };

  Expr key = make_key(statement.value, largest), found;
  if (key.type().bits() <= 32 && positions.bits() == 32) {
    // One reduction over value and position, which is below `count`.
    const Type wide = key.type().with_bits(64);
    const Expr last = make_const(positions, std::max<int64_t>(count, 1) - 1);
    const Expr both = Halide::cast(wide, key) * make_const(wide, int64_t{1} << 32) +
                      Halide::cast(wide, largest ? last - position : position);
    found = Halide::cast<int32_t>(store(".both", extreme, both, ""));
    if (largest) found = last - found;
  } else {
    // The extreme value, then the first position that has it.
    if (has_float_arithmetic(statement.value))
      key = store(".values", Reduction::None, key, " (the values)");
    const Expr value = store(".value", extreme, key, " (its value)");
    found = store(".at", Reduction::Min, select(key == value, position, positions.max()),
                  " (where that value is)");
  }

  if (reduced.size() == 1) found = found + Halide::cast(found.type(), reduced[0].min);
  statement.value = Halide::cast(program.tensor(statement.tensor).type, simplify(found));
  statement.domain = kept_indices(statement);
  statement.meaning = text + ", the positions alone";
  assign(statement);
  return made;
}

}  // namespace

void expand_positions(Program& program) {
  put_in_front(program, [&](Statement& statement) {
    return is_position(statement.reduction) ? expand(statement, program) : std::vector<Statement>();
  });
}

}  // namespace tc::ir
