// The derivative of a definition, as a definition.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "lang/lowering/definition.h"

namespace tc::lang {

struct GradientRequest {
  std::set<std::string> inputs;            ///< whose gradients are wanted
  std::set<std::string> outputs;           ///< whose gradients are given
  std::map<std::string, int64_t> scalars;  ///< values of specialised scalars
};

/// The text of a definition <name>_grad: parameters are all inputs, then the results of the forward
/// definition whose values the derivative is made of, under their own names, then d_<output> for
/// each given output. A gradient or result without dimensions is a tensor of one element. It
/// returns d_<input> for each wanted input that the given outputs depend on; no text where that is
/// none. Inputs of which only the sizes are used are still parameters.
///
/// An affine access becomes a gather by solving its subscripts for indices; where a product is then
/// read outside of the gradient, a copy of the gradient inside zeros takes its place. Values of
/// temporaries and of overwritten results are computed again, as far as they are needed.
/// LanguageError where something has no derivative.
std::string gradient_text(const Definition& definition, const GradientRequest& request);

/// The versions of temporaries and overwritten results that it computes again.
std::set<std::string> recomputed_versions(const Definition& definition,
                                          const GradientRequest& request);

}  // namespace tc::lang
