#include "base/source.h"

#include <algorithm>

namespace tc {
namespace {

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += character_at(text, at).length) ++count;
  return count;
}

size_t start_of_line(std::string_view text, size_t at) {
  return text.substr(0, at).rfind('\n') + 1;  // 0 where there is none
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc0 || lead > 0xf4 || at + length > text.size()) return {lead, 1, false};
  char32_t code = lead & (0xff >> (length + 1));
  for (size_t i = at + 1; i < at + length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3f);
  }
  // Longer than need be, half of a surrogate pair, beyond Unicode.
  char32_t lowest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (code < lowest || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
    return {lead, 1, false};
  return {code, length, true};
}

std::string_view SourceRange::str() const {
  return valid() ? std::string_view(*text_).substr(begin_, end_ - begin_) : std::string_view();
}

int SourceRange::line() const {
  if (!valid()) return 0;
  return 1 + static_cast<int>(std::count(text_->begin(), text_->begin() + begin_, '\n'));
}

int SourceRange::column() const {
  if (!valid()) return 0;
  size_t start = start_of_line(*text_, begin_);
  return static_cast<int>(count_characters(std::string_view(*text_).substr(start, begin_ - start)) +
                          1);
}

SourceRange SourceRange::to(const SourceRange& last) const {
  if (!valid()) return last;
  if (!last.valid()) return *this;
  return SourceRange(text_, std::min(begin_, last.begin_), std::max(end_, last.end_));
}

std::string SourceRange::highlight() const {
  if (!valid()) return "";
  size_t start = start_of_line(*text_, begin_);
  size_t stop = text_->find('\n', begin_);
  if (stop == std::string::npos) stop = text_->size();
  std::string line = text_->substr(start, stop - start);
  // Tabs are kept in front of the caret so that it lines up in any terminal.
  std::string marks;
  for (size_t i = start; i < begin_; i += character_at(*text_, i).length)
    marks += (*text_)[i] == '\t' ? '\t' : ' ';
  size_t first = std::min(begin_, stop), last = std::min(end_, stop);
  std::string_view marked = std::string_view(*text_).substr(first, last - first);
  size_t length = std::max<size_t>(1, count_characters(marked));
  marks += '^' + std::string(length - 1, '~');
  return "  " + line + "\n  " + marks;
}

}  // namespace tc
