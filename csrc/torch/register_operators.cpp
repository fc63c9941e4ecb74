// The C++ interface to operators of LibTorch: definitions registered without Python.
#include <map>
#include <mutex>
#include <stdexcept>

#include "tc/torch.hpp"
#include "torch/libraries.h"
#include "torch/operator.h"
#include "torch/registration.h"
#include "torch/schema.h"

namespace tensor_comprehensions {

using namespace tc_torch;

void register_operators(const std::string& text, const std::string& ns,
                        const std::string& options) {
  static std::mutex mutex;
  static auto* owners = new std::map<std::string, std::string>;  // by operator: the contents' name
  std::lock_guard<std::mutex> lock(mutex);
  tc_set_libraries(&aten_libraries());

  tc_options* raw_options = nullptr;
  check(options.empty() ? tc_options_create("default", &raw_options)
                        : tc_options_parse(options.c_str(), &raw_options));
  std::shared_ptr<tc_options> chosen(raw_options, OptionsDeleter());
  tc_module* raw_module = nullptr;
  check(tc_module_parse(text.c_str(), &raw_module));
  ModulePtr module(raw_module, ModuleDeleter());
  for (int32_t i = 0; i < tc_module_size(raw_module); ++i) {
    auto definition = std::make_shared<Definition>(module, tc_module_definition(raw_module, i));
    std::string name = mangle(definition->name, {}, "tc");
    std::string contents = name_of_contents(*definition, tc_options_text(chosen.get()));
    auto op = std::make_shared<Operator>(definition, [chosen](at::ArrayRef<c10::IValue>) {
      return OptionsPtr(tc_options_copy(chosen.get()));
    });
    auto make = [&](const std::string& as) {
      Schema schema(*definition, as);
      register_operator(ns, schema.functional, schema.out, op);
    };
    if (!is_registered(ns, contents)) make(contents);
    auto [owner, is_new] = owners->emplace(ns + "::" + name, contents);
    if (!is_new && owner->second != contents)
      throw std::runtime_error("torch.ops." + ns + "." + name + " is " + owner->second +
                               " already and cannot be " + contents +
                               ", of another text or other options; pass another namespace");
    if (is_new && !is_registered(ns, name)) make(name);
  }
}

}  // namespace tensor_comprehensions
