// What expressions are in a trial whether sums are zero.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Thrown where something cannot be evaluated.
struct Unknown {};

/// A whole number, an element of the field, an integer that is data, which is a place in whatever
/// tensor it leads to, or an integer that is made of these and of which no more is known.
struct Value {
  enum Kind { Integer, Element, Place, Derived } kind = Element;
  int64_t integer = 0;  ///< as a place, or in a condition
  /// As a part of a value. Indices and sizes are few and small there: what is zero for them need
  /// not be for others, and so each of them counts as a random number.
  uint64_t element = 0;
  bool indexed = false;  ///< an integer that depends on an index
  int degree = 0;        ///< of an integer, in sizes
  int64_t reach = 0;     ///< of an integer: what literals and sizes may add to indices
};

/// Sizes that are tried are smaller.
constexpr int64_t kFar = 1000;

Value integer_value(int64_t value);
/// Of a truth.
Value truth_value(bool value, bool indexed);
Value element_value(uint64_t value);
/// A random number of a seed and of operands.
Value opaque_value(uint64_t seed, const std::vector<Value>& operands, Value::Kind kind);

bool is_whole(const Value& value);
/// Of a whole number as a condition.
bool is_true(const Value& value);
/// Throws where a narrow type would hold a small index or size, but not all.
void expect_to_hold(const Value& value, const Type& type);

/// Whether it rounds whole numbers, or is an extreme: it says nothing of other sizes.
bool rounds(Operator op);
/// Of two integers that are known.
Value of_integers(Operator op, const Value& a, const Value& b, bool indexed);
bool compare(Operator op, int64_t a, int64_t b);
/// Of whole numbers of which no more is known than what they are made of.
Value derived_value(uint64_t seed, Operator op, const Value& a, const Value& b);

}  // namespace tc::lang
