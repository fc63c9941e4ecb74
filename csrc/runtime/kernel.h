// A compiled kernel: code that can be launched, and the texts that show how it came about.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tc/tc.h"

namespace tc::runtime {

/// What a kernel for the CPU throws after a run in which one of its checked_index calls (see
/// ir/program.h) saw a bad index: one of the checks that failed.
struct BadIndex {
  int check;
};

class Kernel {
 public:
  using Texts = std::map<std::string, std::string>;

  virtual ~Kernel() = default;
  /// Pointers of the parameters in order of the signature (scalars point to one element), then of
  /// the outputs in order of the return list. Unchecked; may be called from many threads.
  virtual void launch(const tc_host& host, void* const* pointers) const = 0;
  /// The same without looking at indices that are data: where one is bad, anything may happen. The
  /// first time it may compile (see make_unchecked).
  virtual void launch_unchecked(const tc_host& host, void* const* pointers) const;

  /// Runs it and gives the seconds that it took, until its results were there: on a GPU by the
  /// device's own clock, without the way there.
  virtual double time(const tc_host& host, void* const* pointers) const;

  /// "program", "explain", "schedule_tree", "loop_nest", "stmt", "assembly", "cuda_source",
  /// "build_log", "launches", "stages", "options". Long ones are made when first asked for.
  /// UsageError for an unknown name, and for one that this target does not have.
  virtual std::string text(const std::string& what) const;
  virtual int64_t number(const std::string& what) const;
  virtual const std::vector<char>& binary() const;

  /// What the kernel takes in memory: its code, and a guess at the rest.
  virtual int64_t bytes() const;

  /// Compiles the same without checks, for the first launch that wants none; empty where the loops
  /// of this one make none.
  std::function<std::shared_ptr<const Kernel>()> make_unchecked;
  /// Texts and numbers that the stages leave behind.
  Texts texts;
  /// Compiles the same once more and gives all texts.
  std::function<Texts()> make_texts;
  std::map<std::string, int64_t> numbers;
  std::vector<std::string> streamed;  ///< results that may go past the caches
  /// What to say of a check that failed on a GPU, with the position and the index that it reports.
  std::function<std::string(int check, int64_t position, int64_t index)> bad_index_text;

 private:
  /// What `make_texts` gives, kept; null where there is none.
  std::shared_ptr<const Texts> all_texts() const;

  /// The one that `make_unchecked` gives.
  const Kernel& unchecked() const;

  mutable std::shared_ptr<const Texts> made_texts_;
  mutable std::shared_ptr<const Kernel> made_unchecked_;
  mutable std::atomic<const Kernel*> unchecked_{nullptr};  ///< the same, once it is there
};

}  // namespace tc::runtime
