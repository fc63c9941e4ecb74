// Tensor Comprehensions as operators of LibTorch, for C++ programs: link with
// libtensor_comprehensions_torch, beside torch.
//
//   tensor_comprehensions::register_operators(
//       "def twice(float(N) a) -> (b) { b(i) = 2 * a(i) }");
//   torch::inductor::AOTIModelPackageLoader model("model.pt2");  // calls torch.ops.tc.twice
//
// Saved programs (AOTInductor packages, TorchScript) call operators by name. The program that runs
// them registers these first, from the texts that they were made of.
#ifndef TC_TORCH_HPP_
#define TC_TORCH_HPP_

#include <string>

#if defined(__GNUC__)
#define TC_TORCH_API __attribute__((visibility("default")))
#else
#define TC_TORCH_API
#endif

namespace tensor_comprehensions {

/// Registers every definition of a text as torch.ops.<ns>.<name>, and under the name that its
/// contents decide, which graphs hold. `options` is the text of MappingOptions, empty for the
/// compiler's own choice; a saved program was made with the same. What is registered already stays
/// as it is. Throws std::runtime_error where the text or the options are wrong, or where a
/// definition's name is another text's.
TC_TORCH_API void register_operators(const std::string& text, const std::string& ns = "tc",
                                     const std::string& options = "");

}  // namespace tensor_comprehensions

#endif
