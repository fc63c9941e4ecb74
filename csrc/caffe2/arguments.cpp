#include "caffe2/arguments.h"

#include <cctype>

#include "caffe2/errors.h"

namespace tc_caffe2 {

std::vector<std::string> spellings(const std::string& name) {
  std::string underscored;
  for (char c : name) {
    if (std::isupper(static_cast<unsigned char>(c))) {
      underscored += '_';
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    underscored += c;
  }
  if (underscored == name) return {name};
  return {name, underscored};
}

std::string Arguments::find(const std::string& name) const {
  std::string found;
  for (const std::string& spelling : spellings(name)) {
    if (!helper_.HasArgument(spelling)) continue;
    if (!found.empty())
      usage_error("the arguments ", found, " and ", spelling,
                  " are two spellings of one: give it once");
    found = spelling;
  }
  return found;
}

std::string Arguments::spelled(const std::string& name) const {
  std::string found = find(name);
  return found.empty() ? name : found;
}

std::string Arguments::text(const std::string& name) const {
  std::string found = find(name);
  return found.empty() ? found : helper_.GetSingleArgument<std::string>(found, "");
}

int64_t Arguments::integer(const std::string& name, int64_t otherwise) const {
  std::string found = find(name);
  return found.empty() ? otherwise : helper_.GetSingleArgument<int64_t>(found, otherwise);
}

std::vector<int> Arguments::integers(const std::string& name) const {
  std::string found = find(name);
  return found.empty() ? std::vector<int>() : helper_.GetRepeatedArgument<int>(found);
}

}  // namespace tc_caffe2
