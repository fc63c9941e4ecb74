// Names for what a definition is given in addition.
#pragma once

#include <set>
#include <string>

#include "lang/syntax/tree.h"

namespace tc::lang {

/// Names that nothing in a definition has yet.
class FreshNames {
 public:
  explicit FreshNames(const Function& function);
  /// Names of another definition are taken, too.
  void take(const Function& function);
  /// `base`, or with a number where that is taken; taken afterwards.
  std::string fresh(const std::string& base);
  /// The same for an index, whose name may stand in other statements too.
  std::string index(const std::string& base) const;
  /// What a version is called in a text: "T" of "T#2", "T_reduced" of "T.reduced#1".
  static std::string plain(const std::string& version);

 private:
  std::set<std::string> taken_;
};

}  // namespace tc::lang
