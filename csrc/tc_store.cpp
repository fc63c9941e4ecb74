// The C interface: stores, the texts that are saved next to a model.
#include <memory>
#include <string>
#include <vector>

#include "api_error.h"
#include "api_handles.h"
#include "store/file.h"
#include "store/store.h"

using tc::api::guarded;
using tc::api::required;

struct tc_store {
  std::string path;  ///< that it was read from; empty for one made here
  std::vector<tc::store::StoredText> texts;
  std::vector<std::vector<std::string>> options;  ///< of every definition, as texts
};

namespace {

template <class T>
T& at(std::vector<T>& list, int32_t index, const char* what) {
  if (index < 0 || static_cast<size_t>(index) >= list.size())
    throw tc::UsageError(tc::concat(what, " ", index, " does not exist: there are ", list.size()));
  return list[index];
}

template <class T>
const T& at(const std::vector<T>& list, int32_t index, const char* what) {
  return at(const_cast<std::vector<T>&>(list), index, what);
}

void add(tc_store& store, tc::store::StoredText text) {
  std::vector<std::string> options;
  for (const auto& definition : text.definitions)
    options.push_back(tc::to_string(definition.options));
  store.options.push_back(std::move(options));
  store.texts.push_back(std::move(text));
}

}  // namespace

tc_status tc_store_create(tc_store** store) {
  return guarded([&] { required(store, "store") = new tc_store; });
}

tc_status tc_store_read(const char* path, int32_t may_be_missing, tc_store** store) {
  return guarded([&] {
    required(path, "path");
    required(store, "store") = nullptr;
    using tc::store::Missing;
    std::string bytes =
        tc::store::read_file(path, may_be_missing ? Missing::Empty : Missing::Error);
    if (bytes.empty() && !may_be_missing)
      throw tc::CacheError(
          tc::concat("'", path, "' is empty; tensor_comprehensions.save writes it"));
    auto handle = std::make_unique<tc_store>();
    handle->path = path;
    for (tc::store::StoredText& text : tc::store::decode(bytes, path))
      add(*handle, std::move(text));
    *store = handle.release();
  });
}

void tc_store_free(tc_store* store) { delete store; }

int32_t tc_store_size(const tc_store* store) {
  return store ? static_cast<int32_t>(store->texts.size()) : 0;
}

tc_status tc_store_text(const tc_store* store, int32_t index, tc_stored_text* text) {
  return guarded([&] {
    const auto& found = at(required(store, "store").texts, index, "text");
    required(text, "text") = {found.ns.c_str(), found.source.c_str(), found.by_user ? 1 : 0,
                              static_cast<int32_t>(found.definitions.size())};
  });
}

tc_status tc_store_definition(const tc_store* store, int32_t text, int32_t index,
                              tc_stored_definition* definition) {
  return guarded([&] {
    const auto& found =
        at(at(required(store, "store").texts, text, "text").definitions, index, "definition");
    required(definition, "definition") = {
        found.name.c_str(),    found.operator_name.c_str(),
        found.key.c_str(),     store->options[text][index].c_str(),
        found.derived ? 1 : 0, found.backward.empty() ? nullptr : found.backward.c_str(),
    };
  });
}

tc_status tc_store_parse(const tc_store* store, int32_t index, tc_module** module) {
  return guarded([&] {
    required(module, "module") = nullptr;
    const auto& text = at(required(store, "store").texts, index, "text");
    std::string names, found;
    for (const auto& definition : text.definitions)
      names += (names.empty() ? "" : ", ") + definition.name;
    auto refuse = [&](const std::string& why) {
      throw tc::CacheError(tc::concat("text ", index + 1, " of ", store->texts.size(), " in '",
                                      store->path, "', which defines ", names,
                                      ", is refused by this version: ", why));
    };
    if (tc_module_parse(text.source.c_str(), module) != TC_OK) refuse(tc_error_message());
    for (const auto& definition : (*module)->definitions)
      found += (found.empty() ? "" : ", ") + definition->definition->name;
    if (found != names) {
      tc_module_free(*module);
      *module = nullptr;
      refuse(tc::concat("it defines ", found));
    }
  });
}

tc_status tc_store_add(tc_store* store, const char* ns, const char* source, int32_t by_user,
                       const tc_options* const* options, const char* const* operator_names,
                       int32_t count) {
  return guarded([&] {
    required(store, "store");
    if (count < 0) throw tc::UsageError(tc::concat("a count of ", count, " definitions"));
    if (count > 0) required(options, "options"), required(operator_names, "operator_names");
    std::vector<tc::MappingOptions> chosen;
    std::vector<std::string> names;
    for (int32_t k = 0; k < count; ++k) {
      chosen.push_back(required(options[k], "options of a definition").options);
      names.emplace_back(&required(operator_names[k], "the name of an operator"));
    }
    add(*store, tc::store::make_text(&required(ns, "namespace"), &required(source, "source"),
                                     by_user != 0, chosen, names));
  });
}

tc_status tc_store_set_derivative(tc_store* store, int32_t text, int32_t index,
                                  const char* backward) {
  return guarded([&] {
    auto& found =
        at(at(required(store, "store").texts, text, "text").definitions, index, "definition");
    found.derived = !backward;
    found.backward = backward ? backward : "";
    if (backward) found.add_pair(backward);
  });
}

tc_status tc_store_add_pair(tc_store* store, int32_t text, int32_t index, const char* backward) {
  return guarded([&] {
    at(at(required(store, "store").texts, text, "text").definitions, index, "definition")
        .add_pair(&required(backward, "backward"));
  });
}

const char* tc_store_pair(const tc_store* store, int32_t text, int32_t index, int32_t pair) {
  if (!store || text < 0 || index < 0 || pair < 0) return nullptr;
  if (static_cast<size_t>(text) >= store->texts.size()) return nullptr;
  const auto& definitions = store->texts[text].definitions;
  if (static_cast<size_t>(index) >= definitions.size()) return nullptr;
  const auto& pairs = definitions[index].pairs;
  return static_cast<size_t>(pair) < pairs.size() ? pairs[pair].c_str() : nullptr;
}

tc_status tc_store_find_options(const tc_store* store, const char* key, tc_options** options) {
  return guarded([&] {
    required(options, "options") = nullptr;
    const tc::MappingOptions* found =
        tc::store::find_options(required(store, "store").texts, &required(key, "key"));
    if (found) {
      *options = new tc_options;
      (*options)->options = *found;
    }
  });
}

tc_status tc_store_save(const tc_store* store, const char* path) {
  return guarded([&] {
    const auto& texts = required(store, "store").texts;
    tc::store::update_file(&required(path, "path"), [&](const std::string& before) {
      return tc::store::add(before, texts, path);
    });
  });
}
