// Kernels of the process, which operators share: a net that is made anew does not compile anew.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "caffe2/caffe2.h"
#include "caffe2/source.h"

namespace tc_caffe2 {

/// A kernel with what an operator has to know to run it.
struct Compiled {
  struct Input {
    caffe2::TypeMeta type;
    Sizes sizes;
    int64_t value = 0;  ///< of a scalar that decides sizes, else 0
  };
  struct Output {
    caffe2::TypeMeta type;
    Sizes sizes;  ///< as the operator has it
    Sizes view;   ///< as the kernel does
    DLDataType dtype;
    bool accumulates = false;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Parameter> parameters;
  std::vector<DLDataType> parameter_types;
  tensor_comprehensions::Kernel kernel{nullptr};
};

using CompiledPtr = std::shared_ptr<const Compiled>;

/// Forgets the kernels that were asked for least recently when there are too many. What an operator
/// holds stays with it.
class Kernels {
 public:
  /// The process's.
  static Kernels& all();
  /// What was made for this key, or is made now: without the lock, since that takes time. Two
  /// threads that make the same get the same kernel from the core.
  CompiledPtr find(const std::string& key, const std::function<CompiledPtr()>& make);

 private:
  struct Entry {
    std::string key;
    CompiledPtr compiled;
    int64_t bytes;
  };
  void trim();

  std::mutex mutex_;
  std::list<Entry> entries_;  ///< asked for last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  int64_t bytes_ = 0;
};

}  // namespace tc_caffe2
