#include "plan/options/copy_order.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

namespace tc::plan {
namespace {

using poly::CopyDimension;
using poly::CopyLayout;
using Part = CopyDimension::Part;

constexpr size_t kMostDigits = 9;

/// "B(k, h + r)": "k" and "h + r".
std::vector<std::string> subscripts_of(const std::string& read) {
  std::vector<std::string> subscripts(1);
  int depth = 0;
  for (char c : read) {
    if (c == ')') --depth;
    if (depth == 1 && c == ',')
      subscripts.emplace_back();
    else if (depth > 0 && (c != ' ' || !subscripts.back().empty()))
      subscripts.back() += c;
    if (c == '(') ++depth;
  }
  return subscripts;
}

std::optional<int64_t> number_of(const std::string& text) {
  const bool digits = !text.empty() && text.size() <= kMostDigits &&
                      std::all_of(text.begin(), text.end(), [](char c) {
                        return std::isdigit(static_cast<unsigned char>(c));
                      });
  return digits ? std::optional<int64_t>(std::atoll(text.c_str())) : std::nullopt;
}

bool is_index(const std::string& subscript) {
  return std::all_of(subscript.begin(), subscript.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
}

/// The dimension of that name, or number.
std::optional<size_t> find_dimension(const std::string& name,
                                     const std::vector<std::string>& subscripts) {
  if (const auto number = number_of(name)) return static_cast<size_t>(*number);
  const auto found = std::find(subscripts.begin(), subscripts.end(), name);
  if (found == subscripts.end()) return std::nullopt;
  return static_cast<size_t>(found - subscripts.begin());
}

std::optional<CopyDimension> dimension_of(const PythonValue& value,
                                          const std::vector<std::string>& subscripts) {
  if (value.kind == PythonValue::Kind::Integer && value.number >= 0)
    return CopyDimension(static_cast<size_t>(value.number));
  if (value.kind != PythonValue::Kind::Word) return std::nullopt;
  if (const auto whole = find_dimension(value.word, subscripts)) return CopyDimension(*whole);
  const size_t at = value.word.find_last_of("/%");
  if (at == std::string::npos) return std::nullopt;
  const auto dimension = find_dimension(value.word.substr(0, at), subscripts);
  const auto block = number_of(value.word.substr(at + 1));
  if (!dimension || !block || *block < 1) return std::nullopt;
  return CopyDimension(*dimension, value.word[at] == '/' ? Part::Block : Part::Place, *block);
}

}  // namespace

std::optional<CopyLayout> order_of(const PythonValue& value, const std::string& read) {
  if (value.kind != PythonValue::Kind::Tuple) return std::nullopt;
  const std::vector<std::string> subscripts = subscripts_of(read);
  CopyLayout layout;
  for (const PythonValue& item : value.items) {
    const auto dimension = dimension_of(item, subscripts);
    if (!dimension) return std::nullopt;
    layout.push_back(*dimension);
  }
  return layout;
}

PythonValue order_value(const CopyLayout& layout, const std::string& read) {
  const bool blocked = std::any_of(layout.begin(), layout.end(),
                                   [](const CopyDimension& each) { return !each.is_whole(); });
  const std::vector<std::string> subscripts = subscripts_of(read);
  std::vector<PythonValue> items;
  for (const CopyDimension& each : layout) {
    const auto number = static_cast<int64_t>(each.dimension);
    if (!blocked) {
      items.push_back(PythonValue::of(number));
      continue;
    }
    std::string name = std::to_string(number);
    if (each.dimension < subscripts.size() && is_index(subscripts[each.dimension]) &&
        find_dimension(subscripts[each.dimension], subscripts) == each.dimension)
      name = subscripts[each.dimension];
    items.push_back(PythonValue::of(name + each.suffix()));
  }
  return PythonValue::tuple(items);
}

}  // namespace tc::plan
