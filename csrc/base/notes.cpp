#include "base/notes.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"

namespace tc {
namespace {

constexpr size_t kLabelWidth = 10;

std::string scaled(double value, double base, const std::vector<std::string>& units) {
  size_t unit = 0;
  for (; value >= base - 0.5 && unit + 1 < units.size(); ++unit) value /= base;
  char digits[32];
  // Never 1e+03, which %g makes of 1000 to 1023.
  std::snprintf(digits, sizeof digits, value < 100 ? "%.3g" : "%.0f", value);
  return digits + (units[unit].empty() ? "" : " " + units[unit]);
}

}  // namespace

std::string count_text(double value) { return scaled(value, 1000, {"", "k", "M", "G", "T", "P"}); }

std::string bytes_text(double bytes) {
  return scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

std::string plural(int64_t count, const std::string& noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

std::string table(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  std::string text;
  for (const auto& [figure, meaning] : rows)
    text += (text.empty() ? "" : "\n") + std::string(width - figure.size(), ' ') + figure + "  " +
            meaning;
  return text;
}

std::string to_string(const Notes& notes) {
  std::string text;
  for (const Note& note : notes) {
    std::string start = "  " + note.label;
    start.resize(std::max(start.size() + 1, 2 + kLabelWidth), ' ');
    text += start;
    for (char c : note.text)
      text += c == '\n' ? "\n" + std::string(2 + kLabelWidth, ' ') : std::string(1, c);
    text += "\n";
  }
  return text;
}

}  // namespace tc
