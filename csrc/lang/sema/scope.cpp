#include "lang/sema/scope.h"

#include "base/error.h"
#include "base/suggest.h"
#include "lang/sema/builtins.h"
#include "lang/sema/types.h"
#include "lang/syntax/instead.h"

namespace tc::lang {

void expect_free_name(const Identifier& id) {
  const Builtin* builtin = find_builtin(id.name);
  if (builtin || id.name == "min" || id.name == "max") {
    const std::string name = builtin ? builtin->name : id.name;
    const bool bessel = name == "j0" || name == "j1" || name == "jn" || name == "y0" ||
                        name == "y1" || name == "yn";
    throw LanguageError(id.where, "'", id.name, "' is a built-in function and cannot be redefined",
                        bessel ? " (a Bessel function of C's library)" : "", ", since ", id.name,
                        "(...) calls it; choose another name, such as ", id.name, "_in");
  }
  if (find_type(id.name)) {
    throw LanguageError(id.where, "'", id.name,
                        "' is a type and cannot be a name; choose another name");
  }
  if (id.name == "def" || id.name == "true" || id.name == "false") {
    throw LanguageError(id.where, "'", id.name,
                        "' is a word of the language and cannot be a name; choose another name");
  }
}

void expect_free_value_name(const Identifier& id) {
  if (!find_builtin(id.name)) expect_free_name(id);
}

void already_defined(const Identifier& id, const std::string& as) {
  throw LanguageError(id.where, id.name, " already defined as ", as, "; choose another name");
}

std::string example_sizes(size_t rank) {
  if (rank == 1) return "N";
  std::string sizes;
  for (size_t d = 0; d < rank; ++d) sizes += concat(d ? ", " : "", "N", d);
  return sizes;
}

std::vector<std::string> Scope::visible_names() const {
  std::vector<std::string> names(sizes.begin(), sizes.end());
  for (const auto& entry : tensors) names.push_back(entry.first);
  for (const auto& entry : scalars) names.push_back(entry.first);
  for (const auto& entry : lets) names.push_back(entry.first);
  return names;
}

void Scope::declare_index(const Identifier& id) {
  expect_free_value_name(id);
  if (sizes.count(id.name)) already_defined(id, "a size");
  if (scalars.count(id.name)) already_defined(id, "a scalar");
  if (tensors.count(id.name)) already_defined(id, "a tensor");
  indices.insert(id.name);
}

bool Scope::is_new_index(const std::string& name) const {
  return !sizes.count(name) && !tensors.count(name) && !scalars.count(name) && name != "true" &&
         name != "false";
}

void Scope::undefined(const Identifier& id) const {
  const std::string hint =
      find_type(id.name)
          ? concat("; it is a type, and a cast is written as a function: ", id.name, "(x)")
          : constant_instead(id.name, did_you_mean(id.name, visible_names()));
  throw LanguageError(id.where, "undefined variable ", id.name,
                      " used here: it is no size, tensor or scalar, and as an index it would need "
                      "a range, from a subscript it stands in or from a where clause",
                      hint);
}

}  // namespace tc::lang
