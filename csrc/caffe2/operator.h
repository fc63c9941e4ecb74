// The operator that all types share: it compiles what it computes for the sizes that come.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "caffe2/caffe2.h"
#include "caffe2/kernels.h"
#include "caffe2/scheduling.h"
#include "caffe2/source.h"

namespace tc_caffe2 {

class TcOperator final : public caffe2::Operator<caffe2::CPUContext> {
 public:
  TcOperator(const caffe2::OperatorDef& definition, caffe2::Workspace* workspace);
  bool RunOnDevice() override;

 private:
  /// The value of an input where it decides sizes, else 0.
  int64_t value(size_t input);
  bool matches(const Compiled& candidate);
  const Compiled& find();
  CompiledPtr compile();
  /// Gives an output its sizes, and its memory.
  void* prepare(int index, const Compiled::Output& output);
  /// Whether an output shares memory with another tensor.
  bool overlaps();
  /// Runs with all checks of the core.
  void run_checked(const Compiled& compiled);

  SourcePtr source_;
  Scheduling scheduling_;
  std::string identity_;       ///< all that decides kernels beside the inputs
  std::vector<bool> decides_;  ///< for each input, whether its value is a part of the kernel
  bool check_sizes_;
  std::list<CompiledPtr> known_;  ///< used last first
  std::vector<void*> pointers_;   ///< of a call
};

}  // namespace tc_caffe2
