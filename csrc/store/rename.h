// Plans for definitions that differ in names only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/options/options.h"

namespace tc::store {

/// Says the options of a definition of another one of the same key: indices and tensors have the
/// names that its text gives them, and so do those that passes derived from them ("n_rest").
class Renamer {
 public:
  /// Of canonical texts. UsageError where they differ in more than names.
  Renamer(const std::string& from, const std::string& to);

  MappingOptions operator()(const MappingOptions& options) const;
  /// Of options as texts; nothing where this version has no such options.
  std::optional<std::string> operator()(const std::string& options) const;

 private:
  using Names = std::map<std::string, std::string>;
  /// The names of a statement, "S0" or "S0_init"; null where the text has none of that number.
  const Names* names_of(const std::string& statement) const;

  bool differs_ = false;
  Names all_;                 ///< as their first places in the texts say
  std::vector<Names> lines_;  ///< of the signature, then of every statement
};

/// Where a name stands for one set of options.
MappingOptions rename(const MappingOptions& options, const std::string& from,
                      const std::string& to);

}  // namespace tc::store
