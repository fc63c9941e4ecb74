// Chains of calls, as Python writes them: tc.MappingOptions("default").tile(32, 32).parallel(True).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tc {

/// An argument: a number, True or False, None, "a word", or a tuple of such.
struct PythonValue {
  /// Large is an integer of more digits than kMostDigits, which nothing takes: so many leave room
  /// for sums and differences in 64 bits.
  enum class Kind { None, Boolean, Integer, Large, Word, Tuple };
  static constexpr size_t kMostDigits = 18;
  Kind kind = Kind::None;
  int64_t number = 0;  ///< of Boolean and Integer
  std::string word;    ///< of Word; the digits of Large
  std::vector<PythonValue> items;

  static PythonValue of(bool value) { return {Kind::Boolean, value, {}, {}}; }
  static PythonValue of(int64_t value) { return integer(std::to_string(value)); }
  /// Of digits, in front of which there may be a minus.
  static PythonValue integer(const std::string& digits);
  static PythonValue of(const std::string& word) { return {Kind::Word, 0, word, {}}; }
  static PythonValue of(const char* word) { return of(std::string(word)); }
  static PythonValue none() { return {}; }
  static PythonValue tuple(std::vector<PythonValue> items) {
    return {Kind::Tuple, 0, {}, std::move(items)};
  }
  template <class Items>
  static PythonValue tuple_of(const Items& values) {
    std::vector<PythonValue> items;
    for (const auto& value : values) items.push_back(of(value));
    return tuple(std::move(items));
  }
};

struct PythonCall {
  std::string name;
  std::vector<PythonValue> values;                         ///< by position
  std::vector<std::pair<std::string, PythonValue>> named;  ///< m=64
};

std::string to_string(const PythonValue& value);
std::string to_string(const PythonCall& call);
/// "32, 32": the arguments without the call.
std::string arguments_text(const PythonCall& call);

/// The calls of a text, the first of which makes the object: "tc.MappingOptions" without "tc." is
/// taken as well. A text that is something else is a UsageError that shows where, and begins with
/// `what`.
std::vector<PythonCall> parse_calls(const std::string& text, const std::string& what);

}  // namespace tc
