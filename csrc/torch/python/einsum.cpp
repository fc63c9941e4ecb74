// Extended einsum for Python.
#include <torch/extension.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "torch/operator.h"
#include "torch/python/parts.h"

namespace py = pybind11;

namespace tc_torch {
namespace {

class Einsum {
 public:
  /// Operands by sizes and dtype; tables, on the CPU, are read.
  Einsum(const std::string& equation,
         const std::vector<std::pair<std::vector<int64_t>, at::ScalarType>>& operands,
         const std::vector<std::pair<std::string, at::Tensor>>& tables)
      : operands_(operands.size()) {
    if (size_t at = equation.find('\0'); at != std::string::npos)
      raise(TC_USAGE_ERROR, "a NUL character in the equation, at ", at);
    Tensors values;
    std::vector<const char*> names;
    for (const auto& [sizes, dtype] : operands) values.add(cpu_tensor(dtype, nullptr, sizes));
    for (const auto& [name, table] : tables) {
      names.push_back(name.c_str());
      values.add(to_dltensor(table));
    }
    einsum_.reset(ask<tc_einsum*>(
        tc_einsum_create, equation.c_str(), values.data(), static_cast<int32_t>(operands.size()),
        names.data(), values.data() + operands.size(), static_cast<int32_t>(tables.size())));
  }

  /// The labels of every operand, then of the output.
  std::vector<std::vector<int32_t>> labels() const {
    std::vector<std::vector<int32_t>> result(operands_ + 1);
    for (size_t k = 0; k <= operands_; ++k)
      for (int32_t label = 0; label < tc_einsum_label_count(einsum_.get()); ++label)
        if (tc_einsum_has_label(einsum_.get(), static_cast<int32_t>(k), label))
          result[k].push_back(label);
    return result;
  }

  std::vector<int64_t> extents() const {
    std::vector<int64_t> result;
    for (int32_t label = 0; label < tc_einsum_label_count(einsum_.get()); ++label)
      result.push_back(tc_einsum_extent(einsum_.get(), label));
    return result;
  }

  /// The text for a contraction order, and the values of its scalars.
  std::pair<std::string, std::vector<int64_t>> source(
      const std::vector<std::vector<int32_t>>& path) const {
    std::vector<int32_t> flat;
    for (const std::vector<int32_t>& step : path) {
      flat.push_back(static_cast<int32_t>(step.size()));
      flat.insert(flat.end(), step.begin(), step.end());
    }
    const std::string text = ask<const char*>(tc_einsum_text, einsum_.get(), flat.data(),
                                              static_cast<int32_t>(flat.size()));
    std::vector<int64_t> scalars;
    for (int32_t k = 0; k < tc_einsum_scalar_count(einsum_.get()); ++k)
      scalars.push_back(tc_einsum_scalar(einsum_.get(), k));
    return {text, scalars};
  }

  /// The names of the tables in the order of the text's parameters.
  std::vector<std::string> tables() const {
    std::vector<std::string> names;
    while (const char* name = tc_einsum_table(einsum_.get(), static_cast<int32_t>(names.size())))
      names.emplace_back(name);
    return names;
  }

 private:
  std::unique_ptr<tc_einsum, Free<tc_einsum_free>> einsum_;
  size_t operands_;
};

}  // namespace

void bind_einsum(py::module_& m) {
  py::class_<Einsum>(m, "Einsum")
      .def(py::init<const std::string&,
                    const std::vector<std::pair<std::vector<int64_t>, at::ScalarType>>&,
                    const std::vector<std::pair<std::string, at::Tensor>>&>())
      .def("labels", &Einsum::labels)
      .def("extents", &Einsum::extents)
      .def("source", &Einsum::source)
      .def("tables", &Einsum::tables);
}

}  // namespace tc_torch
