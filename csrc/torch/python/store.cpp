// Needs nothing of PyTorch's but pybind11, whose headers it brings.
#include "torch/python/store.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/errors.h"
#include "torch/python/python_lock.h"

namespace py = pybind11;

namespace tc_torch {
namespace {

struct StoredDefinition {
  std::string name, operator_name, options;
  bool derived = false;
  std::optional<std::string> backward;
  std::vector<std::string> pairs;
};

struct StoredText {
  std::string ns, source;
  bool by_user = true;
  std::vector<StoredDefinition> definitions;
};

class Store {
 public:
  Store() { check(tc_store_create(&store_)); }
  Store(const std::string& path, bool may_be_missing) {
    check(tc_store_read(path.c_str(), may_be_missing, &store_));
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() { tc_store_free(store_); }

  std::vector<StoredText> texts() const {
    std::vector<StoredText> result;
    for (int32_t k = 0; k < tc_store_size(store_); ++k) {
      tc_stored_text text;
      check(tc_store_text(store_, k, &text));
      result.push_back({text.ns, text.source, text.by_user != 0, {}});
      for (int32_t i = 0; i < text.definition_count; ++i) {
        tc_stored_definition found;
        check(tc_store_definition(store_, k, i, &found));
        result.back().definitions.push_back(
            {found.name, found.operator_name, found.options, found.derived != 0, std::nullopt, {}});
        StoredDefinition& added = result.back().definitions.back();
        if (found.backward) added.backward = found.backward;
        for (int32_t p = 0; const char* pair = tc_store_pair(store_, k, i, p); ++p)
          added.pairs.emplace_back(pair);
      }
    }
    return result;
  }

  /// Whether this version takes the text, said by an exception where it does not.
  void check_text(int32_t index) const {
    tc_module* module = nullptr;
    tc_status status;
    {
      Unlocked unlocked;
      status = tc_store_parse(store_, index, &module);
    }
    check(status);
    tc_module_free(module);
  }

  void add(const StoredText& text) {
    std::vector<std::shared_ptr<tc_options>> kept;
    std::vector<const tc_options*> options;
    std::vector<const char*> names;
    for (const StoredDefinition& definition : text.definitions) {
      tc_options* parsed = nullptr;
      check(tc_options_parse(definition.options.c_str(), &parsed));
      kept.emplace_back(parsed, tc_options_free);
      options.push_back(parsed);
      names.push_back(definition.operator_name.c_str());
    }
    check(tc_store_add(store_, text.ns.c_str(), text.source.c_str(), text.by_user, options.data(),
                       names.data(), static_cast<int32_t>(names.size())));
    int32_t last = tc_store_size(store_) - 1;
    for (size_t k = 0; k < text.definitions.size(); ++k) {
      const StoredDefinition& definition = text.definitions[k];
      if (definition.backward || definition.derived)
        check(
            tc_store_set_derivative(store_, last, static_cast<int32_t>(k),
                                    definition.backward ? definition.backward->c_str() : nullptr));
      for (const std::string& backward : definition.pairs)
        check(tc_store_add_pair(store_, last, static_cast<int32_t>(k), backward.c_str()));
    }
  }

  std::optional<std::string> find_options(const std::string& key) const {
    tc_options* found = nullptr;
    check(tc_store_find_options(store_, key.c_str(), &found));
    std::shared_ptr<tc_options> kept(found, tc_options_free);
    return found ? std::optional<std::string>(tc_options_text(found)) : std::nullopt;
  }

  void save(const std::string& path) const { check(tc_store_save(store_, path.c_str())); }

 private:
  tc_store* store_ = nullptr;
};

}  // namespace

void bind_store(py::module_& m) {
  py::class_<StoredDefinition>(m, "StoredDefinition")
      .def(py::init<std::string, std::string, std::string, bool, std::optional<std::string>,
                    std::vector<std::string>>(),
           py::arg("name"), py::arg("operator_name"), py::arg("options"), py::arg("derived"),
           py::arg("backward"), py::arg("pairs"))
      .def_readonly("name", &StoredDefinition::name)
      .def_readonly("operator_name", &StoredDefinition::operator_name)
      .def_readonly("options", &StoredDefinition::options)
      .def_readonly("derived", &StoredDefinition::derived)
      .def_readonly("backward", &StoredDefinition::backward)
      .def_readonly("pairs", &StoredDefinition::pairs);
  py::class_<StoredText>(m, "StoredText")
      .def(py::init<std::string, std::string, bool, std::vector<StoredDefinition>>(),
           py::arg("namespace"), py::arg("source"), py::arg("by_user"), py::arg("definitions"))
      .def_readonly("namespace", &StoredText::ns)
      .def_readonly("source", &StoredText::source)
      .def_readonly("by_user", &StoredText::by_user)
      .def_readonly("definitions", &StoredText::definitions);
  // Reading and saving wait for disks and for other processes.
  py::class_<Store>(m, "Store")
      .def(py::init())
      .def_static(
          "read",
          [](const std::string& path, bool may_be_missing) {
            return std::make_unique<Store>(path, may_be_missing);
          },
          py::arg("path"), py::arg("may_be_missing"), py::call_guard<Unlocked>())
      .def("texts", &Store::texts)
      .def("check_text", &Store::check_text, py::arg("index"))
      .def("add", &Store::add, py::arg("text"))
      .def("find_options", &Store::find_options, py::arg("key"))
      .def("save", &Store::save, py::arg("path"), py::call_guard<Unlocked>());
}

}  // namespace tc_torch
