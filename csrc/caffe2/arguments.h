// The arguments of an operator in a net.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caffe2/caffe2.h"

namespace tc_caffe2 {

/// Names are given as in "tcDef"; a net may also spell them as the later ones of 2018 do,
/// "tc_def". UsageError where it has both.
class Arguments {
 public:
  /// The definition must live longer.
  explicit Arguments(const caffe2::OperatorDef& definition)
      : definition_(definition), helper_(definition) {}

  bool has(const std::string& name) const { return !find(name).empty(); }
  std::string text(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t otherwise) const;
  std::vector<int> integers(const std::string& name) const;
  /// As the net spells it, for messages: "tc_def"; `name` where it is missing.
  std::string spelled(const std::string& name) const;
  const caffe2::OperatorDef& definition() const { return definition_; }

 private:
  /// The spelling that the net has, or nothing.
  std::string find(const std::string& name) const;

  const caffe2::OperatorDef& definition_;
  caffe2::ArgumentHelper helper_;
};

/// Both spellings of a name.
std::vector<std::string> spellings(const std::string& name);

}  // namespace tc_caffe2
