#include "lang/gradient/sums/trial_values.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "lang/gradient/sums/prime_field.h"

namespace tc::lang {

using namespace field;

Value integer_value(int64_t value) {
  const int64_t reach = value < -kFar || value > kFar ? kFar : std::abs(value);
  return {Value::Integer, value, of_integer(value), false, 0, reach};
}

Value truth_value(bool value, bool indexed) {
  const uint64_t number = value;
  return {Value::Integer, value, indexed ? mix(number) % kPrime : number, indexed, 0, 0};
}
Value element_value(uint64_t value) { return {Value::Element, 0, value % kPrime}; }

Value opaque_value(uint64_t seed, const std::vector<Value>& operands, Value::Kind kind) {
  for (const Value& value : operands) seed = mix(seed, value.element);
  return {kind, 0, seed % kPrime};
}

bool is_whole(const Value& value) { return value.kind != Value::Element; }

bool is_true(const Value& value) {
  if (value.reach > 1) throw Unknown();
  return value.integer != 0;
}

void expect_to_hold(const Value& value, const Type& type) {
  if (value.kind != Value::Integer || type.is_bool() || type.bits() == 0 || type.bits() >= 32)
    return;
  if (value.indexed || (value.degree && type.is_int_or_uint())) throw Unknown();
}

bool rounds(Operator op) {
  return op == Operator::Divide || op == Operator::Remainder || op == Operator::Min ||
         op == Operator::Max;
}

Value of_integers(Operator op, const Value& a, const Value& b, bool indexed) {
  const int64_t sum = a.reach + b.reach, product = sum + a.reach * b.reach;
  switch (op) {
    case Operator::Add:
      return {Value::Integer, a.integer + b.integer,        (a.element + b.element) % kPrime,
              indexed,        std::max(a.degree, b.degree), std::min(sum, kFar)};
    case Operator::Subtract:
      return {
          Value::Integer, a.integer - b.integer,        (a.element + (kPrime - b.element)) % kPrime,
          indexed,        std::max(a.degree, b.degree), std::min(sum, kFar)};
    case Operator::Multiply:
      return {Value::Integer, a.integer * b.integer, multiply(a.element, b.element),
              indexed,        a.degree + b.degree,   std::min(product, kFar)};
    case Operator::And: return truth_value(is_true(a) && is_true(b), indexed);
    case Operator::Or: return truth_value(is_true(a) || is_true(b), indexed);
    default: throw Unknown();  // what rounds, or is an extreme, says nothing of other sizes
  }
}

bool compare(Operator op, int64_t a, int64_t b) {
  switch (op) {
    case Operator::Less: return a < b;
    case Operator::LessEqual: return a <= b;
    case Operator::Greater: return a > b;
    case Operator::GreaterEqual: return a >= b;
    case Operator::Equal: return a == b;
    case Operator::NotEqual: return a != b;
    default: throw Unknown();
  }
}

Value derived_value(uint64_t seed, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::Add: return {Value::Derived, 0, (a.element + b.element) % kPrime};
    case Operator::Subtract:
      return {Value::Derived, 0, (a.element + (kPrime - b.element)) % kPrime};
    case Operator::Multiply: return {Value::Derived, 0, multiply(a.element, b.element)};
    default:
      return opaque_value(mix(seed, concat("operator ", static_cast<int>(op))), {a, b},
                          Value::Derived);
  }
}

}  // namespace tc::lang
