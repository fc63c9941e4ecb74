// A compiled kernel: code that can be launched, and the texts that show how it came about.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tc/tc.h"

namespace tc::runtime {

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Pointers of the parameters in order of the signature (scalars point to one element), then of
  /// the outputs in order of the return list. Unchecked; may be called from many threads.
  virtual void launch(const tc_host& host, void* const* pointers) const = 0;

  /// "program", "explain", "schedule_tree", "loop_nest", "stmt", "assembly", "cuda_source",
  /// "build_log", "launches", "stages", "options". Some are made when first asked for. UsageError
  /// for an unknown name, and for one that this target does not have.
  virtual std::string text(const std::string& what) const;
  virtual int64_t number(const std::string& what) const;
  virtual const std::vector<char>& binary() const;

  /// Texts and numbers that the stages leave behind.
  std::map<std::string, std::string> texts;
  std::map<std::string, int64_t> numbers;
  std::vector<std::string> streamed;  ///< results that may go past the caches
};

}  // namespace tc::runtime
