// What the handle of a store holds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/arguments.h"
#include "store/store.h"

struct tc_store {
  std::string path;  ///< that it was read from; empty for one made here
  std::vector<tc::store::StoredText> texts;
  std::vector<std::vector<std::string>> options;  ///< of every definition, as texts
  std::vector<tc::store::Tuning> tunings;
  /// Of every tuning, as texts.
  struct TuningTexts {
    std::string arguments, options;
    std::vector<std::string> plans;
  };
  std::vector<TuningTexts> tuning_texts;

  void add(tc::store::Tuning tuning) {
    TuningTexts texts;
    texts.arguments = tc::store::arguments_text(tuning.key);
    texts.options = tc::to_string(tuning.key.options);
    for (const tc::store::TunedPlan& plan : tuning.plans)
      texts.plans.push_back(tc::to_string(plan.options));
    tunings.reserve(tunings.size() + 1);
    tuning_texts.push_back(std::move(texts));
    tunings.push_back(std::move(tuning));
  }
};

namespace tc::api {

/// An empty one would be a file without a name in the working directory.
inline const char* check_path(const char* path) {
  required(path, "path");
  if (!*path) throw UsageError("path is empty; pass the name of a file");
  return path;
}

}  // namespace tc::api
