#include "caffe2/scheduling.h"

#include <algorithm>
#include <cctype>

#include "caffe2/errors.h"

namespace tc_caffe2 {
namespace {

using tensor_comprehensions::CacheError;
using tensor_comprehensions::Error;
using tensor_comprehensions::Options;

Options parse(const std::string& text, const std::string& argument) {
  auto is_text = [](char c) { return std::isprint(static_cast<unsigned char>(c)) || c == '\n'; };
  if (!std::all_of(text.begin(), text.end(), is_text))
    usage_error(argument, " holds ", text.size(),
                " bytes that are no text, as serialised CUDA options of 2018: these say "
                "nothing about a CPU. Give str(tc.MappingOptions(...)), a preset's name, "
                "or leave it out");
  auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  try {
    if (std::all_of(text.begin(), text.end(), in_name)) return Options(text);
    return Options::parse(text);
  } catch (const Error& error) {
    usage_error(argument, ": ", error.what(),
                "\nexpected is str(tc.MappingOptions(...)) or a preset's name");
  }
}

}  // namespace

Scheduling::Scheduling(const Arguments& arguments, bool backward) : backward_(backward) {
  const std::string name = backward ? "gradMappingOptions" : "mappingOptions";
  if (arguments.has(name)) {
    options_ = parse(arguments.text(name), arguments.spelled(name));
    return;
  }
  if (!arguments.has("tc_cache")) return;
  file_ = arguments.text("tc_cache");
  store_ = tensor_comprehensions::Store::read(file_);
}

std::string Scheduling::identity() const {
  std::string result;
  for (int32_t k = 0; store_ && k < store_->size(); ++k)
    for (const auto& stored : (*store_)[k].definitions)
      result += '\n' + stored.key + '\n' + stored.options;
  return result;
}

std::optional<Options> Scheduling::options(
    const tensor_comprehensions::Definition& definition) const {
  if (!store_) return options_;
  // Texts of the compiler count too: a derivative is one.
  if (auto found = store_->find_options(definition, /*by_user=*/false)) return found;
  if (backward_) return std::nullopt;
  std::string held;
  for (int32_t k = store_->size(); k-- > 0;)
    for (const auto& stored : (*store_)[k].definitions)
      held += (held.empty() ? "" : ", ") + stored.name;
  throw CacheError(TC_CACHE_ERROR, "the file '" + file_ + "' has nothing about " +
                                       definition.name() + ": it holds " +
                                       (held.empty() ? "nothing" : held) +
                                       "; save the same text under PyTorch, or leave tc_cache out");
}

}  // namespace tc_caffe2
