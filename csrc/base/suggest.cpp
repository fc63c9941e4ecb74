#include "base/suggest.h"

#include <algorithm>
#include <cctype>

namespace tc {
namespace {

/// Levenshtein distance with adjacent transpositions; a change of case costs nothing extra.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  // One slip in a name of three letters, two from six on; a single letter resembles everything.
  size_t best = name.size() / 3 + 1;
  if (name.size() < 2) best = 1;
  const std::string* closest = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate == name || candidate.size() > name.size() + best) continue;
    size_t d = distance(name, candidate);
    if (d < best && d < std::max(name.size(), candidate.size())) {
      best = d;
      closest = &candidate;
    }
  }
  return closest ? "; did you mean " + *closest + "?" : "";
}

std::string known_names(const std::string& name, const std::vector<std::string>& known) {
  const std::string closest = did_you_mean(name, known);
  return closest + (closest.empty() ? "; there are " : " There are ") + enumerate(known);
}

std::string without_blanks(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

std::string enumerate(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace tc
