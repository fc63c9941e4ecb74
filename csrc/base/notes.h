// Notes: what the stages tell the reader of Executor.explain().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tc {

/// One decision or fact.
struct Note {
  std::string label;  ///< one short word; labels become a column
  std::string text;   ///< one line or several
};
using Notes = std::vector<Note>;

/// "268 M": three digits, powers of 1000.
std::string count_text(double value);
/// "256 KiB": three digits, powers of 1024.
std::string bytes_text(double bytes);
/// "1 tile", "3 tiles".
std::string plural(int64_t count, const std::string& noun);
/// "a, b, c".
std::string join(const std::vector<std::string>& parts, const std::string& between = ", ");
/// One line a row: its first part, aligned to the right, and its second.
std::string table(const std::vector<std::pair<std::string, std::string>>& rows);

/// Labels in a column, texts in a second one.
std::string to_string(const Notes& notes);

}  // namespace tc
