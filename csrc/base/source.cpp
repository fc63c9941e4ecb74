#include "base/source.h"

#include <algorithm>

namespace tc {

std::string_view SourceRange::str() const {
  return valid() ? std::string_view(*text_).substr(begin_, end_ - begin_) : std::string_view();
}

int SourceRange::line() const {
  if (!valid()) return 0;
  return 1 + static_cast<int>(std::count(text_->begin(), text_->begin() + begin_, '\n'));
}

int SourceRange::column() const {
  if (!valid()) return 0;
  size_t newline = begin_ == 0 ? std::string::npos : text_->rfind('\n', begin_ - 1);
  return static_cast<int>(newline == std::string::npos ? begin_ + 1 : begin_ - newline);
}

SourceRange SourceRange::to(const SourceRange& last) const {
  if (!valid()) return last;
  if (!last.valid()) return *this;
  return SourceRange(text_, std::min(begin_, last.begin_), std::max(end_, last.end_));
}

std::string SourceRange::highlight() const {
  if (!valid()) return "";
  size_t start = begin_ == 0 ? std::string::npos : text_->rfind('\n', begin_ - 1);
  start = start == std::string::npos ? 0 : start + 1;
  size_t stop = text_->find('\n', begin_);
  if (stop == std::string::npos) stop = text_->size();
  std::string line = text_->substr(start, stop - start);
  // Tabs are kept in front of the caret so that it lines up in any terminal.
  std::string marks;
  for (size_t i = start; i < begin_; ++i) marks += (*text_)[i] == '\t' ? '\t' : ' ';
  size_t length = std::max<size_t>(1, std::min(end_, stop) - std::min(begin_, stop));
  marks += '^' + std::string(length - 1, '~');
  return "  " + line + "\n  " + marks;
}

}  // namespace tc
