// How an operator's definition is scheduled.
#pragma once

#include <optional>
#include <string>

#include "caffe2/arguments.h"
#include "tc/tc.hpp"

namespace tc_caffe2 {

/// By the argument mappingOptions or gradMappingOptions, the text of MappingOptions or a preset's
/// name; where that is missing, as a file of tensor_comprehensions.save says, which tc_cache names;
/// without either by the compiler's defaults.
class Scheduling {
 public:
  /// Reads the file. UsageError or CacheError.
  Scheduling(const Arguments& arguments, bool backward);
  /// CacheError where a file is given that does not have the definition: for a derivative, which
  /// files hold if they were saved after it was used, the defaults are taken then.
  std::optional<tensor_comprehensions::Options> options(
      const tensor_comprehensions::Definition& definition) const;
  /// What of the file decides, as text: it may be another one when the next operator is made.
  std::string identity() const;

 private:
  bool backward_;
  std::string file_;
  std::optional<tensor_comprehensions::Options> options_;
  std::optional<tensor_comprehensions::Store> store_;
};

}  // namespace tc_caffe2
