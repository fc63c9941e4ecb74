// What PyTorch's dispatcher knows definitions by: names and schemas.
#pragma once

#include <string>
#include <vector>

#include "torch/operator.h"

namespace tc_torch {

/// A name that schemas accept and that is not among `taken`; the language's may begin with a digit
/// or be words of Python's or of schemas'. Such a word follows `prefix` and an underscore.
std::string mangle(const std::string& name, const std::vector<std::string>& taken,
                   const std::string& prefix);

/// The schemas, without namespace, of a definition's operator and of its overload `out`.
struct Schema {
  Schema(const Definition& definition, const std::string& name);
  std::string functional, out;
  std::vector<std::string> outputs;  ///< the names of the arguments of `out` that are written
};

/// The name of an operator whose contents, its text and how it is scheduled, decide it: the same in
/// every process, and no other text's. `count` tells apart what looks alike from outside.
std::string name_of_contents(const Definition& definition, const std::string& scheduling,
                             int count = 1);

/// The name of the operator that differentiates itself by what is derived of its text, and by
/// another definition: "f__..._derived" and "f__..._with_g__...", of names of contents.
std::string derived_name(const std::string& name);
std::string paired_name(const std::string& forward, const std::string& backward);

/// Whether the dispatcher has an operator ns::name.
bool is_registered(const std::string& ns, const std::string& name);

}  // namespace tc_torch
