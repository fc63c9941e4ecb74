// Source text and positions in it, shared by every tree node and error message.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tc {

/// A code point of UTF-8 and the bytes it takes.
struct Character {
  char32_t code = 0;
  size_t length = 1;
  bool valid = false;  ///< false for one byte that begins no character
};
Character character_at(std::string_view text, size_t at);

/// A half-open piece [begin, end) of a text that the range keeps alive.
/// A default-constructed range points nowhere; `valid()` tells them apart.
class SourceRange {
 public:
  SourceRange() = default;
  SourceRange(std::shared_ptr<const std::string> text, size_t begin, size_t end)
      : text_(std::move(text)), begin_(begin), end_(end) {}

  bool valid() const { return text_ != nullptr; }
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  /// The characters themselves.
  std::string_view str() const;
  /// 1-based line and column of `begin`, the latter in characters; 0 when invalid.
  int line() const;
  int column() const;
  /// The smallest range that holds both.
  SourceRange to(const SourceRange& last) const;
  /// The source line with a caret line under the range, both indented by two
  /// spaces; empty when invalid. Only the first line of a longer range is marked.
  std::string highlight() const;

 private:
  std::shared_ptr<const std::string> text_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace tc
