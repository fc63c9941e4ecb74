#include "base/passes.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace tc {
namespace {

/// Passes of a list by name, each with the reason for its place.
using Places = std::vector<std::pair<std::string, std::string>>;
/// Lists by name, in the order in which they and their passes were made.
using Lists = std::vector<std::pair<std::string, Places>>;

Lists& lists() {
  static Lists& all = *new Lists;
  return all;
}

/// Once a process, so that a reader knows of the passes that do nothing, too.
bool tell_lists() {
  for (const auto& [list, passes] : lists()) {
    std::string text;
    for (const auto& [name, place] : passes) text += concat(text.empty() ? "" : ", ", name);
    log("passes", concat("list ", list, ": ", text));
    for (const auto& [name, place] : passes)
      if (!place.empty()) log("passes", concat("place of ", list, ".", name, ": ", place));
  }
  return true;
}

}  // namespace

Pass::Pass(const char* list, const char* name, const char* place) : list_(list), name_(name) {
  for (auto& [known, passes] : lists())
    if (known == list) {
      passes.emplace_back(name, place);
      return;
    }
  lists().push_back({list, {{name, place}}});
}

bool records_passes() {
  static const bool wanted = log_enabled("passes") || log_enabled("pass_values");
  return wanted;
}

bool records_pass_values() {
  static const bool wanted = log_enabled("pass_values");
  return wanted;
}

void record_pass(const Pass& pass, bool changed, double milliseconds) {
  if (!log_enabled("passes")) return;
  static const bool told = tell_lists();
  (void)told;
  char time[32];
  std::snprintf(time, sizeof time, "%.3f ms", milliseconds);
  log("passes", concat(pass.list(), ".", pass.name(), changed ? ": changed, " : ": same, ", time));
}

void record_pass_value(const Pass& pass, const std::string& value) {
  log("pass_values", concat("after ", pass.list(), ".", pass.name(), ":\n", value));
}

}  // namespace tc
