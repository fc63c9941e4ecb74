// The C interface: stores, the texts that are saved next to a model.
#include "store/store.h"

#include <memory>
#include <string>
#include <vector>

#include "api/error.h"
#include "api/handles.h"
#include "api/store_handle.h"
#include "base/arguments.h"
#include "base/threads/task.h"
#include "lang/lowering/definition.h"
#include "store/file.h"
#include "store/rename.h"

using namespace tc::api;

namespace {

void add(tc_store& store, tc::store::StoredText text) {
  std::vector<std::string> options;
  for (const auto& definition : text.definitions)
    options.push_back(tc::to_string(definition.options));
  store.texts.reserve(store.texts.size() + 1);
  store.options.push_back(std::move(options));
  store.texts.push_back(std::move(text));
}

}  // namespace

tc_status tc_store_create(tc_store** store) {
  return give(store, "store", [] { return new tc_store; });
}

tc_status tc_store_read(const char* path, int32_t may_be_missing, tc_store** store) {
  return give(store, "store", [&] {
    check_path(path);
    using tc::store::Missing;
    std::string bytes =
        tc::store::read_file(path, may_be_missing ? Missing::Empty : Missing::Error);
    if (bytes.empty() && !may_be_missing)
      throw tc::CacheError("'", path, "' is empty; tensor_comprehensions.save writes it");
    auto handle = std::make_unique<tc_store>();
    handle->path = path;
    tc::store::Contents contents = tc::store::decode(bytes, path);
    for (tc::store::StoredText& text : contents.texts) add(*handle, std::move(text));
    for (tc::store::Tuning& tuning : contents.tunings) handle->add(std::move(tuning));
    return handle.release();
  });
}

void tc_store_free(tc_store* store) { delete store; }

int32_t tc_store_size(const tc_store* store) {
  return value_or_zero([&] { return count_of(required(store, "store").texts); });
}

tc_status tc_store_text(const tc_store* store, int32_t index, tc_stored_text* text) {
  return give(text, "text", [&] {
    const auto& found = at(required(store, "store").texts, index, "text");
    return tc_stored_text{found.ns.c_str(), found.source.c_str(), found.by_user ? 1 : 0,
                          count_of(found.definitions)};
  });
}

tc_status tc_store_definition(const tc_store* store, int32_t text, int32_t index,
                              tc_stored_definition* definition) {
  return give(definition, "definition", [&] {
    const auto& found =
        at(at(required(store, "store").texts, text, "text").definitions, index, "definition");
    return tc_stored_definition{
        found.name.c_str(),    found.operator_name.c_str(),
        found.key.c_str(),     store->options[text][index].c_str(),
        found.derived ? 1 : 0, found.backward.empty() ? nullptr : found.backward.c_str(),
    };
  });
}

tc_status tc_store_parse(const tc_store* store, int32_t index, tc_module** module) {
  return give(module, "module", [&] {
    const auto& text = at(required(store, "store").texts, index, "text");
    std::string names, found;
    for (const auto& definition : text.definitions)
      names += (names.empty() ? "" : ", ") + definition.name;
    auto refuse = [&](const std::string& why) {
      throw tc::CacheError("text ", index + 1, " of ", store->texts.size(), " in '", store->path,
                           "', which defines ", names, ", is refused by this version: ", why);
    };
    tc_module* raw = nullptr;
    const tc_status status = tc_module_parse(text.source.c_str(), &raw);
    if (status == TC_INTERRUPTED) throw tc::Error(status, tc_error_message());
    if (status != TC_OK) refuse(tc_error_message());
    std::unique_ptr<tc_module> parsed(raw);
    for (const auto& definition : parsed->definitions)
      found += (found.empty() ? "" : ", ") + definition.definition->name;
    if (found != names) refuse(tc::concat("it defines ", found));
    return parsed.release();
  });
}

tc_status tc_store_add(tc_store* store, const char* ns, const char* source, int32_t by_user,
                       const tc_options* const* options, const char* const* operator_names,
                       int32_t count) {
  return guarded([&] {
    required(store, "store");
    std::string space = &required(ns, "ns"), text = &required(source, "source");
    check_array(options, "options", count, "count");
    check_array(operator_names, "operator_names", count, "count");
    // Before the arrays are read.
    const tc::lang::Module module =
        tc::run_apart("parsing", [text] { return tc::lang::parse(text); });
    if (static_cast<size_t>(count) != module.definitions.size())
      throw tc::UsageError("count is ", count, ", but the text has ", module.definitions.size(),
                           " definitions: each has options and the name of an operator");
    std::vector<tc::MappingOptions> chosen;
    std::vector<std::string> names;
    for (int32_t k = 0; k < count; ++k) {
      chosen.push_back(required(options[k], tc::concat("options[", k, "]").c_str()).options);
      names.emplace_back(
          &required(operator_names[k], tc::concat("operator_names[", k, "]").c_str()));
    }
    add(*store, tc::store::make_text(space, text, module, by_user != 0, chosen, names));
  });
}

tc_status tc_store_set_derivative(tc_store* store, int32_t text, int32_t index,
                                  const char* backward) {
  return guarded([&] {
    if (backward && !*backward)
      throw tc::UsageError("backward is empty; pass NULL for what the compiler derives");
    std::string name = backward ? backward : "";
    auto& found =
        at(at(required(store, "store").texts, text, "text").definitions, index, "definition");
    found.derived = !backward;
    found.backward = name;
    if (backward) found.add_pair(std::move(name));
  });
}

tc_status tc_store_add_pair(tc_store* store, int32_t text, int32_t index, const char* backward) {
  return guarded([&] {
    const std::string name = &required(backward, "backward");
    if (name.empty()) throw tc::UsageError("backward is empty; pass the name of an operator");
    at(at(required(store, "store").texts, text, "text").definitions, index, "definition")
        .add_pair(name);
  });
}

const char* tc_store_pair(const tc_store* store, int32_t text, int32_t index, int32_t pair) {
  return value_or_zero([&]() -> const char* {
    const auto& definition =
        at(at(required(store, "store").texts, text, "text").definitions, index, "definition");
    if (pair >= 0 && static_cast<size_t>(pair) >= definition.pairs.size()) return nullptr;
    return at(definition.pairs, pair, "pair").c_str();
  });
}

tc_status tc_store_find_options(const tc_store* store, const tc_definition* definition,
                                int32_t by_user, tc_options** options) {
  return give(options, "options", [&]() -> tc_options* {
    const auto& texts = required(store, "store").texts;
    const tc::lang::Definition& wanted = *required(definition, "definition").definition;
    const auto place = tc::store::find_last(texts, wanted.key, by_user != 0);
    if (!place) return nullptr;
    const tc::MappingOptions& found = texts[place->text].definitions[place->definition].options;
    if (found.clusters.empty()) return new tc_options(found);
    // Loops are named as in the text that the options were saved with.
    tc_module* raw = nullptr;
    const tc_status status = tc_store_parse(store, static_cast<int32_t>(place->text), &raw);
    if (status != TC_OK) throw tc::Error(status, tc_error_message());
    const std::unique_ptr<tc_module> parsed(raw);
    const std::string& text = parsed->definitions[place->definition].definition->text;
    return new tc_options(tc::store::rename(found, text, wanted.text));
  });
}

tc_status tc_store_save(const tc_store* store, const char* path) {
  return guarded([&] {
    const tc::store::Contents contents{required(store, "store").texts, store->tunings};
    tc::store::update_file(check_path(path), [&](const std::string& before) {
      return tc::store::add(before, contents, path);
    });
  });
}
