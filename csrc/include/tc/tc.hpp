// Tensor Comprehensions for C++17: a header-only wrapper over tc.h, with values that own what they
// hold and exceptions instead of status codes.
//
//   using namespace tensor_comprehensions;
//   Module module("def double_it(float(N) A) -> (B) { B(i) = 2 * A(i) }");
//   std::vector<float> a(8, 1), b(8);
//   Kernel kernel = compile(module["double_it"], {Tensor(a, {8})});
//   kernel.run({Tensor(a, {8})}, {Tensor(b, {8})});
//
// Module, Definition and Kernel are shared by their copies; Options are copied. A Tensor is a view:
// it never owns its elements.
#ifndef TC_TC_HPP_
#define TC_TC_HPP_

#include <tc/tc.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tensor_comprehensions {

// ---- errors

/// What every failure is thrown as. Line and column are 1-based, and 0 where there are none.
class Error : public std::runtime_error {
 public:
  Error(tc_status code, const std::string& message, int line = 0, int column = 0)
      : std::runtime_error(message), code_(code), line_(line), column_(column) {}
  tc_status code() const noexcept { return code_; }
  int line() const noexcept { return line_; }
  int column() const noexcept { return column_; }

 private:
  tc_status code_;
  int line_, column_;
};
struct LanguageError : Error {
  using Error::Error;
};
struct ShapeError : Error {
  using Error::Error;
};
struct CompilationError : Error {
  using Error::Error;
};
struct CacheError : Error {
  using Error::Error;
};
struct UsageError : Error {
  using Error::Error;
};
/// The host wants no result any more (tc_set_interrupt, tc_shutdown).
struct Interrupted : Error {
  using Error::Error;
};
struct InternalError : Error {
  using Error::Error;
};

/// Throws the calling thread's last failure unless `status` is TC_OK.
inline void check(tc_status status) {
  if (status == TC_OK) return;
  const char* text = tc_error_message();
  std::string message = text ? text : "";
  int line = tc_error_line(), column = tc_error_column();
  switch (status) {
    case TC_LANGUAGE_ERROR: throw LanguageError(status, message, line, column);
    case TC_SHAPE_ERROR: throw ShapeError(status, message, line, column);
    case TC_COMPILATION_ERROR: throw CompilationError(status, message, line, column);
    case TC_CACHE_ERROR: throw CacheError(status, message, line, column);
    case TC_USAGE_ERROR: throw UsageError(status, message, line, column);
    case TC_INTERRUPTED: throw Interrupted(status, message, line, column);
    default: throw InternalError(status, message, line, column);
  }
}

inline std::string version() { return tc_version(); }

namespace detail {

/// What a function of the C interface returned as a pointer, which is NULL where it failed.
template <class T>
T* checked(T* pointer) {
  if (!pointer) check(TC_USAGE_ERROR);
  return pointer;
}

/// What a function of the C interface gives by its last argument, behind these ones.
template <class Result, class Function, class... Given>
Result ask(Function function, const Given&... given) {
  Result result{};
  check(function(given..., &result));
  return result;
}

}  // namespace detail

// ---- tensors

/// The element type that a C++ type stands for.
template <typename T>
DLDataType dtype_of() {
  using Element = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<Element>, "describe other element types by a DLDataType");
  uint8_t code = std::is_same_v<Element, bool>       ? kDLBool
                 : std::is_floating_point_v<Element> ? kDLFloat
                 : std::is_unsigned_v<Element>       ? kDLUInt
                                                     : kDLInt;
  return DLDataType{code, static_cast<uint8_t>(8 * sizeof(Element)), 1};
}

/// A view of elements that someone else keeps alive. Without strides it is dense and row-major.
class Tensor {
 public:
  Tensor(void* data, DLDataType dtype, std::vector<int64_t> sizes,
         std::vector<int64_t> strides = {}, DLDevice device = cpu())
      : data_(data),
        dtype_(dtype),
        sizes_(std::move(sizes)),
        strides_(std::move(strides)),
        device_(device) {
    if (!strides_.empty() && strides_.size() != sizes_.size()) {
      throw UsageError(TC_USAGE_ERROR, "a Tensor needs as many strides as sizes, or none");
    }
  }
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Tensor(T* data, std::vector<int64_t> sizes, std::vector<int64_t> strides = {})
      : Tensor(const_cast<std::remove_cv_t<T>*>(data), dtype_of<T>(), std::move(sizes),
               std::move(strides)) {}
  /// All of a vector, which must hold as many elements as the sizes say.
  template <typename T>
  Tensor(const std::vector<T>& data, std::vector<int64_t> sizes)
      : Tensor(data.data(), std::move(sizes)) {
    check_count(data.size());
  }

  static DLDevice cpu() { return DLDevice{kDLCPU, 0}; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t count() const {
    int64_t count = 1;
    for (int64_t size : sizes_) {
      if (size < 0 || (size > 0 && count > INT64_MAX / size)) {
        throw ShapeError(TC_SHAPE_ERROR, "a size of " + std::to_string(size) +
                                             " gives a Tensor a number of elements that is none");
      }
      count *= size;
    }
    return count;
  }
  /// Points into this Tensor; valid as long as it lives and does not move.
  DLTensor dlpack() const {
    DLTensor result{};
    result.data = data_;
    result.device = device_;
    result.ndim = static_cast<int32_t>(sizes_.size());
    result.dtype = dtype_;
    // DLPack has no const; the library does not write to sizes and strides.
    result.shape = const_cast<int64_t*>(sizes_.data());
    result.strides = strides_.empty() ? nullptr : const_cast<int64_t*>(strides_.data());
    return result;
  }

 private:
  void check_count(size_t held) const {
    if (static_cast<int64_t>(held) == count()) return;
    throw ShapeError(TC_SHAPE_ERROR, "the vector holds " + std::to_string(held) +
                                         " elements, but the sizes ask for " +
                                         std::to_string(count()));
  }

  void* data_;
  DLDataType dtype_;
  std::vector<int64_t> sizes_, strides_;
  DLDevice device_;
};

namespace detail {

/// An array of pointers to DLTensors, as the C interface takes arguments.
class Arguments {
 public:
  explicit Arguments(const std::vector<Tensor>& tensors) {
    tensors_.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
      tensors_.push_back(tensor.dlpack());
      pointers_.push_back(&tensors_.back());
    }
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  const DLTensor* const* data() const { return pointers_.empty() ? nullptr : pointers_.data(); }
  int32_t size() const { return static_cast<int32_t>(pointers_.size()); }

 private:
  std::vector<DLTensor> tensors_;
  std::vector<const DLTensor*> pointers_;
};

}  // namespace detail

// ---- options

/// The decisions of a schedule, as plain data with a value's semantics.
class Options {
 public:
  explicit Options(const std::string& preset = "default")
      : options_(detail::ask<tc_options*>(tc_options_create, preset.c_str())) {}
  /// From what text() gives.
  static Options parse(const std::string& text) {
    return Options(detail::ask<tc_options*>(tc_options_parse, text.c_str()));
  }
  Options(const Options& other)
      : options_(detail::checked(tc_options_copy(other.options_.get()))) {}
  Options(Options&&) noexcept = default;
  Options& operator=(Options other) noexcept {
    options_ = std::move(other.options_);
    return *this;
  }

  /// One field by its Python name: set("tile", {32, 32}), set("scheduleFusionStrategy", "Max").
  Options& set(const std::string& name, const std::vector<int64_t>& values) {
    check(tc_options_set(options_.get(), name.c_str(), values.data(),
                         static_cast<int32_t>(values.size())));
    return *this;
  }
  Options& set(const std::string& name, const char* word) {
    check(tc_options_set_word(options_.get(), name.c_str(), word));
    return *this;
  }
  std::string text() const { return detail::checked(tc_options_text(options_.get())); }
  const tc_options* get() const { return options_.get(); }

  friend bool operator==(const Options& a, const Options& b) {
    return tc_options_equal(a.get(), b.get()) != 0;
  }
  friend bool operator!=(const Options& a, const Options& b) { return !(a == b); }

 private:
  friend class Store;
  struct Free {
    void operator()(tc_options* options) const { tc_options_free(options); }
  };
  explicit Options(tc_options* options) : options_(options) {}
  std::unique_ptr<tc_options, Free> options_;
};

// ---- text

/// One `def` of a module, which it keeps alive.
class Definition {
 public:
  std::string name() const { return detail::checked(tc_definition_name(definition_)); }
  std::string text() const { return detail::checked(tc_definition_text(definition_)); }
  std::string key() const { return detail::checked(tc_definition_key(definition_)); }
  int32_t input_count() const { return tc_definition_input_count(definition_); }
  int32_t output_count() const { return tc_definition_output_count(definition_); }
  tc_argument input(int32_t index) const {
    return detail::ask<tc_argument>(tc_definition_input, definition_, index);
  }
  tc_argument output(int32_t index) const {
    return detail::ask<tc_argument>(tc_definition_output, definition_, index);
  }
  /// The sizes of every output for these inputs, which are checked.
  std::vector<std::vector<int64_t>> infer_sizes(const std::vector<Tensor>& inputs) const {
    std::vector<std::vector<int64_t>> result;
    int32_t total = 0;
    for (int32_t i = 0; i < output_count(); ++i) {
      result.emplace_back(output(i).ndim);
      total += output(i).ndim;
    }
    std::vector<int64_t> flat(total);
    detail::Arguments arguments(inputs);
    check(tc_infer_sizes(definition_, arguments.data(), arguments.size(), flat.data(), total));
    auto next = flat.begin();
    for (std::vector<int64_t>& sizes : result) {
      for (int64_t& size : sizes) size = *next++;
    }
    return result;
  }
  const tc_definition* get() const { return definition_; }

 private:
  friend class Module;
  Definition(std::shared_ptr<tc_module> module, const tc_definition* definition)
      : module_(std::move(module)), definition_(definition) {}
  std::shared_ptr<tc_module> module_;
  const tc_definition* definition_;
};

/// A text in its usual layout, comments included; only its grammar is checked.
inline std::string format(const std::string& text) {
  return detail::ask<const char*>(tc_format, text.c_str());
}

/// The machine that decisions are made for, a line for each fact (tc_machine_facts).
inline std::string machine_facts(bool measure = false) {
  return detail::ask<const char*>(tc_machine_facts, measure);
}

/// A parsed and checked text.
class Module {
 public:
  explicit Module(const std::string& text)
      : Module(detail::ask<tc_module*>(tc_module_parse, text.c_str())) {}
  int32_t size() const { return tc_module_size(module_.get()); }
  Definition definition(int32_t index) const {
    return Definition(module_, detail::checked(tc_module_definition(module_.get(), index)));
  }
  Definition operator[](const std::string& name) const {
    return Definition(
        module_, detail::ask<const tc_definition*>(tc_module_find, module_.get(), name.c_str()));
  }
  /// Legal but suspect places, as messages with carets.
  std::vector<std::string> warnings() const {
    std::vector<std::string> result;
    for (int32_t i = 0; i < tc_module_warning_count(module_.get()); ++i) {
      result.emplace_back(tc_module_warning(module_.get(), i));
    }
    return result;
  }

 private:
  friend class Store;
  explicit Module(tc_module* module) : module_(module, tc_module_free) {}
  std::shared_ptr<tc_module> module_;
};

// ---- stores

/// Texts with their options, saved next to a model that calls their operators.
class Store {
 public:
  struct StoredDefinition {
    std::string name;
    std::string operator_name;  ///< what graphs call it by, without the namespace
    std::string key;            ///< as Definition::key
    std::string options;        ///< as Options::text
    bool derived;               ///< saved as a function whose derivative the compiler finds
    std::string backward;       ///< namespace::operator_name of the user's derivative, or empty
    std::vector<std::string> pairs;  ///< all backwards that it was saved with, named likewise
  };
  struct StoredText {
    std::string ns;
    std::string source;
    bool by_user;  ///< else the compiler wrote it, as a derivative, and it has no plain name
    std::vector<StoredDefinition> definitions;
  };

  /// One that holds nothing.
  Store() : store_(detail::ask<tc_store*>(tc_store_create)) {}
  /// What a file holds; CacheError. With `may_be_missing`, no file holds nothing.
  static Store read(const std::string& path, bool may_be_missing = false) {
    return Store(detail::ask<tc_store*>(tc_store_read, path.c_str(), may_be_missing));
  }

  int32_t size() const { return tc_store_size(store_.get()); }
  StoredText operator[](int32_t index) const {
    const auto text = detail::ask<tc_stored_text>(tc_store_text, store_.get(), index);
    StoredText result{text.ns, text.source, text.by_user != 0, {}};
    for (int32_t k = 0; k < text.definition_count; ++k) {
      const auto found =
          detail::ask<tc_stored_definition>(tc_store_definition, store_.get(), index, k);
      result.definitions.push_back({found.name,
                                    found.operator_name,
                                    found.key,
                                    found.options,
                                    found.derived != 0,
                                    found.backward ? found.backward : "",
                                    {}});
      for (int32_t p = 0; const char* pair = tc_store_pair(store_.get(), index, k, p); ++p)
        result.definitions.back().pairs.emplace_back(pair);
    }
    return result;
  }
  /// The definitions of a text; CacheError where this version refuses it.
  Module parse(int32_t index) const {
    return Module(detail::ask<tc_module*>(tc_store_parse, store_.get(), index));
  }
  /// Adds a text as the last one, with options and a name that graphs hold for each definition.
  void add(const std::string& ns, const std::string& source, bool by_user,
           const std::vector<Options>& options, const std::vector<std::string>& operator_names) {
    if (options.size() != operator_names.size()) {
      throw UsageError(TC_USAGE_ERROR, "a text needs as many options as names of operators");
    }
    std::vector<const tc_options*> chosen;
    std::vector<const char*> names;
    for (const Options& each : options) chosen.push_back(each.get());
    for (const std::string& each : operator_names) names.push_back(each.c_str());
    check(tc_store_add(store_.get(), ns.c_str(), source.c_str(), by_user, chosen.data(),
                       names.data(), static_cast<int32_t>(names.size())));
  }
  /// Says what the derivative of a definition is; empty for what the compiler derives.
  void set_derivative(int32_t text, int32_t index, const std::string& backward = "") {
    check(tc_store_set_derivative(store_.get(), text, index,
                                  backward.empty() ? nullptr : backward.c_str()));
  }
  /// Says that graphs call a definition with a backward, as namespace::operator_name.
  void add_pair(int32_t text, int32_t index, const std::string& backward) {
    check(tc_store_add_pair(store_.get(), text, index, backward.c_str()));
  }
  /// The options saved last for a definition, whatever names it had; of texts by users, or of all.
  std::optional<Options> find_options(const Definition& definition, bool by_user = true) const {
    auto* options =
        detail::ask<tc_options*>(tc_store_find_options, store_.get(), definition.get(), by_user);
    if (!options) return std::nullopt;
    return Options(options);
  }
  /// Adds the texts to those that a file holds; see tc_store_save.
  void save(const std::string& path) const { check(tc_store_save(store_.get(), path.c_str())); }
  const tc_store* get() const { return store_.get(); }

 private:
  struct Free {
    void operator()(tc_store* store) const { tc_store_free(store); }
  };
  explicit Store(tc_store* store) : store_(store) {}
  std::unique_ptr<tc_store, Free> store_;
};

// ---- kernels

/// A definition compiled for sizes, strides, element types, options and a target.
class Kernel {
 public:
  explicit Kernel(tc_kernel* kernel) : kernel_(kernel, tc_kernel_free) {}

  /// Checks every argument, then runs; without a host, on the calling thread alone.
  void run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
           const tc_host* host = tc_default_host()) const {
    detail::Arguments in(inputs), out(outputs);
    check(tc_kernel_run(kernel_.get(), host, in.data(), in.size(), out.data(), out.size()));
  }
  /// Runs without checks: pointers of the inputs in order, then of the outputs.
  void launch(const std::vector<void*>& pointers, const tc_host* host = tc_default_host()) const {
    check(tc_kernel_launch(kernel_.get(), host, pointers.data()));
  }
  /// "program", "schedule_tree", "loop_nest", "stmt", "assembly", ...: see tc_kernel_text.
  std::string text(const std::string& what) const {
    return detail::ask<const char*>(tc_kernel_text, kernel_.get(), what.c_str());
  }
  int64_t number(const std::string& what) const {
    return detail::ask<int64_t>(tc_kernel_number, kernel_.get(), what.c_str());
  }
  /// The device binary of a CUDA kernel.
  std::vector<unsigned char> binary() const {
    const void* data = nullptr;
    size_t size = 0;
    check(tc_kernel_binary(kernel_.get(), &data, &size));
    const auto* bytes = static_cast<const unsigned char*>(data);
    return std::vector<unsigned char>(bytes, bytes + size);
  }
  const tc_kernel* get() const { return kernel_.get(); }

 private:
  std::shared_ptr<tc_kernel> kernel_;
};

/// Compiles for the sizes of `inputs`; only scalars have their data read. Without options the
/// library chooses, without outputs they are dense and row-major.
inline Kernel compile(const Definition& definition, const std::vector<Tensor>& inputs,
                      const Options* options = nullptr, const std::string& target = "cpu",
                      const std::vector<Tensor>& outputs = {}) {
  detail::Arguments in(inputs), out(outputs);
  return Kernel(detail::ask<tc_kernel*>(tc_compile, definition.get(),
                                        options ? options->get() : nullptr, target.c_str(),
                                        in.data(), in.size(), out.data(), out.size()));
}

}  // namespace tensor_comprehensions

#endif  // TC_TC_HPP_
