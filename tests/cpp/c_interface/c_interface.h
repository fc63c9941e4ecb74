// Calls of the C interface as data: what a function takes, as tc.h declares it, one call that
// works, and the values of each argument that must be refused.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tc/tc.h"

namespace c_interface {

// ---- the header

struct Parameter {
  std::string type, name;
};

struct Declaration {
  std::string result, name;
  std::vector<Parameter> parameters;
};

inline std::string trimmed(const std::string& text) {
  size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

/// "const char* name", "void (*sink)(const char* topic, const char* message)".
inline Parameter parse_parameter(const std::string& text) {
  std::smatch match;
  if (std::regex_match(text, match, std::regex(R"((.*)\(\*(\w+)\)(\(.*\)))")))
    return {match[1].str() + "(*)" + match[3].str(), match[2]};
  if (std::regex_match(text, match, std::regex(R"((.*[^\w])(\w+))")))
    return {trimmed(match[1]), match[2]};
  return {text, ""};
}

/// Every function that a header declares with TC_API.
inline std::vector<Declaration> read_declarations(const std::string& path) {
  std::ifstream file(path);
  std::stringstream contents;
  contents << file.rdbuf();
  std::string text =
      std::regex_replace(contents.str(), std::regex(R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)"), "");
  text = std::regex_replace(text, std::regex("#[^\n]*"), "");
  text = std::regex_replace(text, std::regex(R"(\s+)"), " ");
  std::vector<Declaration> result;
  const std::regex declaration(R"(TC_API ([^();]*[ *])(\w+)\(([^;]*)\);)");
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) {
    Declaration found{trimmed((*at)[1]), (*at)[2], {}};
    std::string list = (*at)[3], parameter;
    int depth = 0;
    auto take = [&] {
      if (parameter = trimmed(parameter); parameter != "void" && !parameter.empty())
        found.parameters.push_back(parse_parameter(parameter));
      parameter.clear();
    };
    for (char c : list) {
      depth += (c == '(') - (c == ')');
      if (c == ',' && depth == 0)
        take();
      else
        parameter += c;
    }
    take();
    result.push_back(found);
  }
  return result;
}

// ---- calls

/// An argument or a result of any type.
using Bits = uint64_t;

template <class T>
Bits to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(Bits));
  Bits bits = 0;
  if constexpr (!std::is_same_v<T, std::nullptr_t>) std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

using Function = std::function<Bits(const std::vector<Bits>&)>;

template <class R, class... A, size_t... Is>
Function callable(R (*function)(A...), std::index_sequence<Is...>) {
  return [function](const std::vector<Bits>& arguments) -> Bits {
    (void)arguments;
    if constexpr (std::is_void_v<R>) {
      function(from_bits<A>(arguments[Is])...);
      return 0;
    } else {
      return to_bits(function(from_bits<A>(arguments[Is])...));
    }
  };
}

/// A value of an argument that must be refused.
struct Bad {
  std::string label;
  Bits bits = 0;
  tc_status status = TC_USAGE_ERROR;
  std::string words;  ///< in the message; empty: the name of the parameter
};

/// An argument: its value in a call that works, and what is tried in its place. NULL and negative
/// numbers are tried everywhere.
class Argument {
 public:
  template <class T>
  Argument(T good) : good(to_bits(good)) {}

  /// What must be refused as well.
  template <class T>
  Argument& bad(const std::string& label, T value, const std::string& words,
                tc_status status = TC_USAGE_ERROR) {
    more.push_back({label, to_bits(value), status, words});
    return *this;
  }
  /// Numbers from `count` on; `words` where the message does not name the parameter.
  Argument& below(int32_t count, const std::string& words) {
    negative_words = words;
    bad("the count", count, words);
    return bad("the largest", INT32_MAX, words);
  }
  /// Another value that works.
  template <class T>
  Argument& also(const std::string& label, T value) {
    accepted.push_back({label, to_bits(value), TC_OK, ""});
    return *this;
  }
  /// NULL works.
  Argument& optional() {
    tries_null = false;
    return also("NULL", nullptr);
  }
  /// Every number works.
  Argument& any() {
    tries_negative = false;
    return also("-1", -1);
  }
  /// What the message says of NULL.
  Argument& null_words(const std::string& words) {
    null_message = words;
    return *this;
  }
  /// What is written there must be 0 after a failure.
  Argument& result(size_t size) {
    result_size = size;
    return *this;
  }

  Bits good;
  std::vector<Bad> more, accepted;
  bool tries_null = true, tries_negative = true;
  std::string negative_words, null_message;
  size_t result_size = 0;
};

/// A function with a call that works.
struct Entry {
  std::string name;
  Function call;
  std::vector<Argument> arguments;
  std::function<void(Bits result)> after;  ///< gives back what the call made
  bool tried_without_memory = true;
  tc_status good_status = TC_OK;

  Declaration declaration;  ///< from the header

  bool returns_status() const { return declaration.result == "tc_status"; }
  std::vector<Bits> good() const {
    std::vector<Bits> values;
    for (const Argument& argument : arguments) values.push_back(argument.good);
    return values;
  }
  /// The values of an argument that must be refused.
  std::vector<Bad> bad(size_t place) const {
    const Argument& argument = arguments[place];
    const Parameter& parameter = declaration.parameters[place];
    std::vector<Bad> values;
    auto named = [&](const std::string& words) { return words.empty() ? parameter.name : words; };
    bool pointer = parameter.type.find('*') != std::string::npos;
    if (pointer && argument.tries_null)
      values.push_back({"NULL", 0, TC_USAGE_ERROR, named(argument.null_message)});
    if (!pointer && argument.tries_negative)
      for (int32_t number : {-1, INT32_MIN})
        values.push_back({std::to_string(number),
                          parameter.type == "int64_t" ? to_bits(int64_t{number}) : to_bits(number),
                          TC_USAGE_ERROR, named(argument.negative_words)});
    for (Bad value : argument.more) {
      value.words = named(value.words);
      values.push_back(value);
    }
    return values;
  }
};

template <class R, class... A>
Entry entry(const std::string& name, R (*function)(A...), std::vector<Argument> arguments,
            std::function<void(Bits)> after = nullptr) {
  Entry made;
  made.name = name;
  made.call = callable(function, std::index_sequence_for<A...>());
  made.arguments = std::move(arguments);
  made.after = std::move(after);
  return made;
}

/// A place for what a function writes.
template <class T>
class Result {
 public:
  T* get() { return &value_; }
  T& operator*() { return value_; }
  Argument argument() { return Argument(&value_).result(sizeof(T)); }

 private:
  T value_{};
};

// ---- tensors

/// A dense tensor with memory of its own, and room in `shape` for tests that lie about `ndim`.
class Tensor {
 public:
  Tensor(std::string name, std::vector<int64_t> sizes, DLDataType dtype)
      : name(std::move(name)), shape_(std::move(sizes)) {
    int64_t count = 1;
    int32_t rank = static_cast<int32_t>(shape_.size());
    strides_.resize(shape_.size());
    for (size_t d = shape_.size(); d-- > 0;) {
      strides_[d] = count;
      count *= shape_[d];
    }
    constexpr size_t kSpare = 4;
    shape_.resize(shape_.size() + kSpare, 1);
    strides_.resize(shape_.size(), 1);
    memory_.resize(static_cast<size_t>(count) * 2);
    plain.data = memory_.data();
    plain.device = {kDLCPU, 0};
    plain.ndim = rank;
    plain.dtype = dtype;
    plain.shape = shape_.data();
    plain.strides = strides_.data();
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  template <class T>
  T* data() {
    return reinterpret_cast<T*>(memory_.data());
  }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }

  std::string name;  ///< as messages call it
  DLTensor plain{};

 private:
  std::vector<int64_t> shape_, strides_;
  std::vector<int64_t> memory_;  ///< 16 bytes for each element
};

/// Tensors as arguments, with all that can be wrong in one of them.
class Tensors {
 public:
  explicit Tensors(std::vector<Tensor*> tensors) : tensors_(std::move(tensors)) {
    for (Tensor* tensor : tensors_) good_.push_back(&tensor->plain);
  }
  const DLTensor* const* get() const { return good_.data(); }

  bool gpu_is_fine = false;
  std::string gpu_words = "cuda:0";

  /// `data_needed` has the places of tensors whose elements are used. Where not all of them are
  /// looked at, `looked_at` has the places of those that are.
  Argument argument(const std::set<size_t>& data_needed,
                    const std::optional<std::set<size_t>>& looked_at = std::nullopt) {
    Argument made(get());
    for (size_t k = 0; k < tensors_.size(); ++k)
      if (!looked_at || looked_at->count(k)) add_bad(made, k, data_needed.count(k) > 0);
    return made;
  }

 private:
  /// The array with another tensor at one place.
  const DLTensor* const* with(size_t place, const DLTensor* other) {
    variants_.push_back(good_);
    variants_.back()[place] = other;
    return variants_.back().data();
  }

  void add_bad(Argument& argument, size_t place, bool data_needed) {
    const Tensor& tensor = *tensors_[place];
    const std::string& name = tensor.name;
    auto changed = [&](auto change) {
      changed_.push_back(tensor.plain);
      change(changed_.back());
      return with(place, &changed_.back());
    };
    auto bad = [&](const std::string& what, tc_status status, auto change) {
      argument.bad(name + " with " + what, changed(change), name, status);
    };
    auto also = [&](const std::string& what, auto change) {
      argument.also(name + " with " + what, changed(change));
    };
    auto number = [](auto n) { return std::to_string(n); };
    argument.bad(name + " that is NULL", with(place, nullptr), name);
    for (int32_t ndim : {-1, INT32_MIN, INT32_MAX, 65, tensor.plain.ndim + 1})
      bad("ndim " + number(ndim), TC_SHAPE_ERROR, [&](DLTensor& t) { t.ndim = ndim; });
    for (int code : {3, 5, 99, 255})
      bad("dtype code " + number(code), TC_SHAPE_ERROR, [&](DLTensor& t) { t.dtype.code = code; });
    for (int bits : {0, 7, 128})
      bad("dtype bits " + number(bits), TC_SHAPE_ERROR, [&](DLTensor& t) { t.dtype.bits = bits; });
    for (int lanes : {0, 4, 65535})
      bad("dtype lanes " + number(lanes), TC_SHAPE_ERROR,
          [&](DLTensor& t) { t.dtype.lanes = lanes; });
    for (int32_t device : {0, -1, 3, 77, INT32_MAX})
      bad("device type " + number(device), TC_SHAPE_ERROR,
          [&](DLTensor& t) { t.device.device_type = decltype(t.device.device_type)(device); });
    for (int32_t id : {-1, 5, INT32_MIN})
      bad("device id " + number(id), TC_SHAPE_ERROR, [&](DLTensor& t) { t.device.device_id = id; });
    // Where it is the first one, the next one does not fit.
    auto on_gpu = changed([&](DLTensor& t) { t.device = {kDLCUDA, 0}; });
    if (gpu_is_fine)
      argument.also(name + " on a GPU", on_gpu);
    else
      argument.bad(name + " on a GPU", on_gpu, gpu_words, TC_SHAPE_ERROR);
    bad("a negative device of CUDA", TC_SHAPE_ERROR, [&](DLTensor& t) {
      t.device = {kDLCUDA, -1};
    });
    for (uint64_t offset : {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 58})
      bad("byte_offset " + number(offset), TC_SHAPE_ERROR,
          [&](DLTensor& t) { t.byte_offset = offset; });
    bad("data at the end of memory", TC_SHAPE_ERROR,
        [&](DLTensor& t) { t.data = reinterpret_cast<void*>(~uintptr_t{0} - 1); });
    if (data_needed)
      bad("data NULL", TC_USAGE_ERROR, [&](DLTensor& t) { t.data = nullptr; });
    else
      also("data NULL", [&](DLTensor& t) { t.data = nullptr; });
    if (tensor.plain.ndim == 0) return;
    also("strides NULL", [&](DLTensor& t) { t.strides = nullptr; });
    bad("shape NULL", TC_USAGE_ERROR, [&](DLTensor& t) { t.shape = nullptr; });
    for (int64_t size : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 40})
      bad("size " + number(size), TC_SHAPE_ERROR, [&](DLTensor& t) {
        lists_.push_back(tensor.shape());
        lists_.back()[0] = size;
        t.shape = lists_.back().data();
      });
    for (int64_t stride : {INT64_MIN, INT64_MAX, int64_t{1} << 60, -(int64_t{1} << 57)})
      bad("stride " + number(stride), TC_SHAPE_ERROR, [&](DLTensor& t) {
        lists_.push_back(tensor.strides());
        lists_.back()[t.ndim - 1] = stride;
        t.strides = lists_.back().data();
      });
  }

  std::vector<Tensor*> tensors_;
  std::vector<const DLTensor*> good_;
  // Addresses of elements must stay.
  std::deque<std::vector<const DLTensor*>> variants_;
  std::deque<DLTensor> changed_;
  std::deque<std::vector<int64_t>> lists_;
};

}  // namespace c_interface
