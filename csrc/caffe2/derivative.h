// Derivatives that the compiler finds.
#pragma once

#include <vector>

#include "caffe2/source.h"

namespace tc_caffe2 {

/// The derivative of a source. Its operator takes all inputs of the source's, then outputs, then
/// gradients of outputs, and gives gradients of inputs, each list by increasing numbers.
class Derivative : public Source {
 public:
  Derivative(SourcePtr forward, std::vector<int> outputs, std::vector<int> output_gradients,
             std::vector<int> input_gradients);

  Definition definition(const std::vector<Given>& inputs) const override;
  std::vector<Parameter> parameters(const Definition& definition,
                                    const std::vector<Given>& inputs) const override;
  Sizes output_sizes(size_t output, const Sizes& sizes,
                     const std::vector<Given>& inputs) const override;
  std::vector<size_t> deciding_inputs() const override { return forward_->deciding_inputs(); }

 private:
  std::vector<Given> forward_inputs(const std::vector<Given>& inputs) const;

  SourcePtr forward_;
  std::vector<int> outputs_, output_gradients_, input_gradients_;
};

/// What a derivative needs, and what it gives.
struct DerivativeShape {
  std::vector<int> outputs;          ///< whose values it is made of
  std::vector<int> input_gradients;  ///< of those that were asked for, the ones that it gives
};

/// Before anything runs: where that depends on values of scalars, all outputs are needed, and all
/// gradients that were asked for are given. LanguageError where there is no derivative.
DerivativeShape derivative_shape(const Source& forward, const std::vector<int>& output_gradients,
                                 const std::vector<int>& input_gradients);

/// The inputs of floating-point tensors.
std::vector<int> differentiable_inputs(const Definition& definition);

}  // namespace tc_caffe2
