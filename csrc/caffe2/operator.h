// The operator that all types share: it compiles what it computes for the sizes that come.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "caffe2/caffe2.h"
#include "caffe2/scheduling.h"
#include "caffe2/source.h"

namespace tc_caffe2 {

class TcOperator final : public caffe2::Operator<caffe2::CPUContext> {
 public:
  TcOperator(const caffe2::OperatorDef& definition, caffe2::Workspace* workspace);
  bool RunOnDevice() override;

 private:
  /// A kernel with the tensors that it was compiled for.
  struct Specialization {
    struct Input {
      caffe2::TypeMeta type;
      Sizes sizes;
      bool has_value = false;  ///< whether a scalar's value is part of the kernel
      int64_t value = 0;
    };
    struct Output {
      caffe2::TypeMeta type;
      Sizes sizes;  ///< as the operator has it
      Sizes view;   ///< as the kernel does
      bool accumulates = false;
    };
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::vector<Parameter> parameters;
    std::shared_ptr<tc_kernel> kernel;
    std::vector<DLDataType> parameter_types, output_types;
  };

  bool matches(const Specialization& candidate);
  const Specialization& find();
  Specialization compile();
  /// Gives an output its sizes, and its memory.
  void* prepare(int index, const Specialization::Output& output);
  /// Runs with all checks of the core.
  void run_checked(const Specialization& specialization);

  SourcePtr source_;
  Scheduling scheduling_;
  bool check_sizes_;
  std::list<Specialization> known_;  ///< used last first
  std::vector<void*> pointers_;      ///< of a call
};

}  // namespace tc_caffe2
