// Tensor Comprehensions as operators of LibTorch, for C++ programs: link with
// libtensor_comprehensions_torch, beside torch.
//
//   tensor_comprehensions::load_operators("model.tc.pb");
//   torch::inductor::AOTIModelPackageLoader model("model.pt2");  // calls torch.ops.tc.twice__...
//
// Saved programs (AOTInductor packages, TorchScript) call operators by name; TorchScript trains,
// too. The program that runs them registers these first: from the file that
// tensor_comprehensions.save wrote beside them, or from the texts that they were made of.
#ifndef TC_TORCH_HPP_
#define TC_TORCH_HPP_

#include <string>

#if defined(__GNUC__)
#define TC_TORCH_API __attribute__((visibility("default")))
#else
#define TC_TORCH_API
#endif

namespace tensor_comprehensions {

/// Registers every definition of a text as torch.ops.<ns>.<name>, and under the names that its
/// contents decide, which graphs hold: without a derivative, and with the one that is derived.
/// `options` is the text of MappingOptions, empty for the compiler's own choice; a saved program
/// was made with the same. What is registered already stays as it is. Throws std::runtime_error,
/// and registers nothing, where the text or the options are wrong, or where a definition's name is
/// another text's.
TC_TORCH_API void register_operators(const std::string& text, const std::string& ns = "tc",
                                     const std::string& options = "");

/// Registers every operator of a file that tensor_comprehensions.save, or a tc_store, wrote, with
/// its options and under the names that graphs hold, with the backwards that it was saved with too;
/// those of a user also by their own names. Where
/// another text has such a name already it keeps it, with a warning. Loading twice is harmless.
/// Throws std::runtime_error, and registers nothing, where the file cannot be read or this version
/// refuses one of its texts.
TC_TORCH_API void load_operators(const std::string& path);

}  // namespace tensor_comprehensions

#endif
