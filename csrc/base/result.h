// A transform returns a result or a reason: the tuner reads a reason as "illegal, skip", the user
// API turns it into an error.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/error.h"

namespace tc {

/// Why a transform does not apply, as a sentence for the user.
struct Reason {
  std::string text;
};

template <class T>
class Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Reason reason) : state_(std::in_place_index<1>, std::move(reason)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const std::string& reason() const { return std::get<1>(state_).text; }
  /// The value; a reason becomes a CompilationError.
  T value() && {
    if (!ok()) throw CompilationError(reason());
    return std::get<0>(std::move(state_));
  }
  const T& value() const& {
    if (!ok()) throw CompilationError(reason());
    return std::get<0>(state_);
  }

 private:
  std::variant<T, Reason> state_;
};

}  // namespace tc
