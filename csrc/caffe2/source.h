// What an operator computes: a definition, and how its parameters lie in the operator's tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tc/tc.hpp"

namespace tc_caffe2 {

using tensor_comprehensions::Definition;
using Sizes = std::vector<int64_t>;

/// A tensor of an operator. Where nothing runs yet, as in shape inference, data is null.
struct Given {
  DLDataType dtype{kDLFloat, 32, 1};
  Sizes sizes;
  const void* data = nullptr;
};

/// Where a parameter of a definition comes from.
struct Parameter {
  int32_t input = -1;  ///< of the operator; -1 for a number
  int32_t number = 0;  ///< the value of an int32 scalar, where it is no input
  Sizes sizes;         ///< under which the definition sees the input, which is row-major
};

class Source {
 public:
  virtual ~Source() = default;

  /// The definition for inputs of these types: a source of the library has a text for each. Where
  /// an operator is only described, `inputs` may be empty: then they are float32 and int32.
  virtual Definition definition(const std::vector<Given>& inputs) const = 0;
  /// One for every parameter of `definition(inputs)`.
  virtual std::vector<Parameter> parameters(const Definition& definition,
                                            const std::vector<Given>& inputs) const;

  /// The sizes under which the definition sees an input, and those under which it sees an output,
  /// or its gradient, that the operator has with other sizes.
  virtual Sizes input_view(size_t input, const Sizes& sizes) const { return sizes; }
  virtual Sizes output_view(size_t output, const Sizes& sizes) const { return sizes; }
  /// The other way round: the sizes of the operator's output for those that the definition gives.
  virtual Sizes output_sizes(size_t output, const Sizes& sizes,
                             const std::vector<Given>& inputs) const {
    return sizes;
  }

  /// The operator's inputs whose values sizes depend on: scalars of the text.
  virtual std::vector<size_t> deciding_inputs() const { return {}; }

  /// Values for the int32 scalars behind the inputs, which the operator has as arguments.
  std::vector<int32_t> numbers;
};

using SourcePtr = std::shared_ptr<const Source>;

using Tensors = std::vector<tensor_comprehensions::Tensor>;

/// What a definition takes for its parameters; numbers lie in `parameters`.
Tensors to_tensors(const std::vector<Parameter>& parameters, const std::vector<Given>& inputs);

/// ShapeError where an operator has another number of outputs than its definition.
void check_output_count(const Definition& definition, int count);

/// A text of the user.
class TextSource : public Source {
 public:
  /// `name` may be empty where the text has one definition. `argument` and `name_argument` are what
  /// messages call the text and its name.
  TextSource(const std::string& text, const std::string& name, const std::string& argument,
             const std::string& name_argument);
  Definition definition(const std::vector<Given>&) const override { return definition_; }
  std::vector<size_t> deciding_inputs() const override;

 private:
  Definition definition_;
};

}  // namespace tc_caffe2
