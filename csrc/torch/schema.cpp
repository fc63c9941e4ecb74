#include "torch/schema.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <set>

namespace tc_torch {
namespace {

bool is_reserved(const std::string& name) {
  static const std::set<std::string> words = {
      // Python's
      "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
      "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if",
      "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
      "while", "with", "yield",
      // those of schemas
      "self", "out", "Tensor", "int", "float", "bool", "str", "Scalar",
      // attributes of every namespace in torch.ops
      "name", "_dir"};
  return words.count(name) > 0;
}

bool is_identifier(const std::string& name) {
  auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), letter);
}

const char* type_name(const ArgumentInfo& info) {
  if (!info.scalar) return "Tensor";
  if (info.dtype == at::kBool) return "bool";
  return c10::isFloatingType(info.dtype) ? "float" : "int";
}

/// FNV-1a of 64 bits: names are told apart, nothing is kept secret.
uint64_t hash(const std::string& contents) {
  uint64_t h = 0xcbf29ce484222325u;
  for (unsigned char c : contents) h = (h ^ c) * 0x100000001b3u;
  return h;
}

}  // namespace

std::string mangle(const std::string& name, const std::vector<std::string>& taken,
                   const std::string& prefix) {
  bool usable = is_identifier(name) && !is_reserved(name) && name.compare(0, 2, "__") != 0;
  std::string result = usable ? name : prefix + "_" + name;
  while (std::find(taken.begin(), taken.end(), result) != taken.end()) result += "_";
  return result;
}

Schema::Schema(const Definition& definition, const std::string& name) {
  std::vector<std::string> taken, arguments, initial, written;
  for (const ArgumentInfo& info : definition.inputs) {
    taken.push_back(mangle(info.name, taken, "arg"));
    arguments.push_back(std::string(type_name(info)) + " " + taken.back());
  }
  size_t inputs = arguments.size();
  for (const ArgumentInfo& info : definition.outputs) {
    taken.push_back(mangle(info.name, taken, "arg"));
    if (info.accumulates) initial.push_back("Tensor " + taken.back());
    written.push_back("Tensor(a" + std::to_string(outputs.size()) + "!) " + taken.back());
    outputs.push_back(taken.back());
  }
  std::vector<std::string> returns(outputs.size(), "Tensor");
  std::string types = returns.size() == 1 ? "Tensor" : "(" + c10::Join(", ", returns) + ")";
  arguments.insert(arguments.end(), initial.begin(), initial.end());
  functional = name + "(" + c10::Join(", ", arguments) + ") -> " + types;
  arguments.resize(inputs);
  arguments.push_back("*");
  arguments.insert(arguments.end(), written.begin(), written.end());
  out = name + ".out(" + c10::Join(", ", arguments) + ") -> ()";
}

std::string name_of_contents(const Definition& definition, const std::string& scheduling,
                             int count) {
  char digits[17];
  uint64_t h = hash(tc_definition_text(definition.get()) + std::string(1, '\0') + scheduling);
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(h));
  std::string result = mangle(definition.name, {}, "tc") + "__" + digits;
  return count == 1 ? result : result + "_" + std::to_string(count);
}

std::string derived_name(const std::string& name) { return name + "_derived"; }

std::string paired_name(const std::string& forward, const std::string& backward) {
  return forward + "_with_" + backward;
}

bool is_registered(const std::string& ns, const std::string& name) {
  return c10::Dispatcher::singleton().findSchema({ns + "::" + name, ""}).has_value();
}

}  // namespace tc_torch
