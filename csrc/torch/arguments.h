// Definitions, and the tensors and numbers of their calls as the core sees them.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tc/tc.h"
#include "torch/errors.h"

namespace tc_torch {

/// Frees a handle of the C interface, by its function for that.
template <auto release>
struct Free {
  template <class Handle>
  void operator()(Handle* handle) const {
    release(handle);
  }
};
using ModulePtr = std::shared_ptr<tc_module>;

ModulePtr parse_module(const std::string& text);

/// One argument or result of a definition.
struct ArgumentInfo {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  int rank = 0;
  bool scalar = false, specialized = false, accumulates = false, read = false;
  int follows = -1;  ///< of a result: the input whose memory format it takes
};

/// A definition of a parsed text.
class Definition {
 public:
  Definition(ModulePtr module, const tc_definition* definition);
  const tc_definition* get() const { return definition_; }
  std::string name;
  std::vector<ArgumentInfo> inputs, outputs;

 private:
  ModulePtr module_;
  const tc_definition* definition_;
};

/// Tensors as the C interface takes them. What they are views of must outlive them.
class Tensors {
 public:
  Tensors() = default;
  explicit Tensors(at::ArrayRef<at::Tensor> tensors);
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  void add(const DLTensor& tensor) { pointers_.push_back(&all_.emplace_back(tensor)); }
  const DLTensor* const* data() const { return pointers_.empty() ? nullptr : pointers_.data(); }
  int32_t count() const { return static_cast<int32_t>(pointers_.size()); }

 private:
  std::deque<DLTensor> all_;  // where they stay when others are added
  std::vector<const DLTensor*> pointers_;
};

/// The sizes of all results, one after the other, with the checks of a call.
std::vector<int64_t> infer_result_sizes(const Definition& definition, const Tensors& inputs);

/// The inputs of a call. Scalars live in `values`.
class CallArguments : public Tensors {
 public:
  CallArguments(const Definition& definition, at::ArrayRef<c10::IValue> inputs);

 private:
  std::vector<double> values_;  // storage of scalars, 8 bytes each
};

/// The inputs of a definition without data: specialised scalars have a value, and tensors sizes
/// where they are given.
class InputsWithoutData : public Tensors {
 public:
  /// One value for every input; those of scalars that are specialised count.
  InputsWithoutData(const Definition& definition, std::vector<int64_t> values,
                    std::vector<std::vector<int64_t>> sizes = {});

 private:
  std::vector<int64_t> values_;
  std::vector<std::vector<int64_t>> sizes_;
};

DLTensor to_dltensor(const at::Tensor& tensor);
/// Row-major, on the CPU. What it points to must outlive it.
DLTensor cpu_tensor(at::ScalarType type, void* data, at::IntArrayRef sizes = {});
at::ScalarType to_scalar_type(DLDataType dtype);
DLDataType to_dlpack(at::ScalarType type);
DLDevice to_dlpack(at::Device device);
/// Writes a Python number as one element of the scalar's type; error where it does not fit.
void store_scalar(const ArgumentInfo& info, const c10::IValue& value, void* storage);

/// Error where a tensor is none, has no strides, is neither of the CPU nor of CUDA, or is negated
/// lazily. `role` is "argument" or "output".
void check_tensor(const char* role, const ArgumentInfo& info, const at::Tensor& tensor);
/// Storage may be freed or made smaller under a tensor, which does not notice.
void check_memory(const char* role, const ArgumentInfo& info, const at::Tensor& tensor);
void check_memory(const std::vector<ArgumentInfo>& infos, at::ArrayRef<c10::IValue> inputs);
/// Whether some output lies in the same piece of memory as an input or another output.
bool may_overlap(at::ArrayRef<c10::IValue> inputs, at::ArrayRef<at::Tensor> outputs);

}  // namespace tc_torch
