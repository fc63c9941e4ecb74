// The C interface: extended einsum.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "api/error.h"
#include "base/arguments.h"
#include "base/threads/task.h"
#include "einsum/bind.h"
#include "einsum/equation.h"
#include "einsum/source.h"
#include "runtime/arguments.h"
#include "runtime/check_tensor.h"

using namespace tc::api;

struct tc_einsum {
  std::vector<tc::einsum::Table> tables;
  tc::einsum::Binding binding;  ///< points into the tables
  std::vector<tc::einsum::Label> labels;
  std::vector<std::vector<tc::einsum::Label>> operands;  ///< their labels, then the output's
  tc::einsum::Source source;
};

namespace {

tc::einsum::Shape shape_of(const DLTensor& tensor, const std::string& name) {
  tc::runtime::check_tensor(tensor, name);
  return {{tensor.shape, tensor.shape + tensor.ndim}, tc::ir::from_dlpack(tensor.dtype, name)};
}

/// Tables are kept, with 8 bytes for each element.
constexpr int64_t kMostElements = INT32_MAX;

int64_t count_elements(const tc::einsum::Shape& shape, const std::string& name) {
  int64_t count = 1;
  for (int64_t size : shape.sizes)
    if (__builtin_mul_overflow(count, size, &count) || count > kMostElements)
      throw tc::ShapeError("einsum: ", name, " has more than ", kMostElements, " elements");
  return count;
}

tc::einsum::Table read_table(const char* name, const DLTensor& tensor) {
  tc::einsum::Table table;
  table.name = name;
  const std::string shown = tc::concat("table ", name);
  table.shape = shape_of(tensor, shown);
  const tc::ir::Type& type = table.shape.type;
  if (type.is_bool() || !(type.is_int() || type.is_uint()))
    throw tc::ShapeError("einsum: table ", name, " is ", tc::ir::dtype_name(tensor.dtype),
                         "; tables hold integers");
  if (tensor.device.device_type != kDLCPU)
    throw tc::ShapeError("einsum: table ", name, " is on ", tc::runtime::device_name(tensor.device),
                         "; tables are in memory of the CPU");
  tc::runtime::check_data(tensor, shown);
  int64_t count = count_elements(table.shape, shown);
  std::vector<int64_t> strides = tc::runtime::layout_of(tensor).strides;
  const char* data = static_cast<const char*>(tc::runtime::data_pointer(tensor));
  std::vector<int64_t> at(table.shape.sizes.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    const int64_t value = tc::runtime::read_integer(tensor.dtype, data + offset * type.bytes(),
                                                    [](auto v) { return static_cast<int64_t>(v); });
    // Products with factors and sums of such values must stay within 64 bits. Above 2^63, unsigned
    // numbers are negative here.
    if (value > INT32_MAX || value < INT32_MIN || (value < 0 && type.is_uint())) {
      std::string place;
      for (int64_t k : at) place += tc::concat(place.empty() ? "" : ", ", k);
      const std::string shown_value =
          type.is_uint() ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
      throw tc::ShapeError("einsum: table ", name, " holds ", shown_value, " at [", place,
                           "], but indices have 32 bits");
    }
    table.values.push_back(value);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < table.shape.sizes[d]) break;
      at[d] = 0;
    }
  }
  return table;
}

}  // namespace

tc_status tc_einsum_create(const char* equation, const DLTensor* const* operands,
                           int32_t operand_count, const char* const* table_names,
                           const DLTensor* const* tables, int32_t table_count, tc_einsum** einsum) {
  return give(einsum, "einsum", [&] {
    auto handle = std::make_unique<tc_einsum>();
    tc::einsum::Equation parsed = tc::einsum::parse_equation(&required(equation, "equation"));
    check_array(operands, "operands", operand_count, "operand_count");
    check_array(table_names, "table_names", table_count, "table_count");
    check_array(tables, "tables", table_count, "table_count");
    // Before the arrays are read up to what is no count.
    tc::einsum::check_count(parsed, operand_count);
    if (static_cast<size_t>(table_count) > std::strlen(equation))
      throw tc::UsageError("table_count is ", table_count, ", but the equation has ",
                           std::strlen(equation), " characters to look tables up in");
    std::vector<tc::einsum::Shape> shapes;
    for (int32_t k = 0; k < operand_count; ++k) {
      const std::string name = tc::concat("operand ", k);
      shapes.push_back(shape_of(required(operands[k], name.c_str()), name));
    }
    for (int32_t k = 0; k < table_count; ++k) {
      const std::string name = tc::concat("table_names[", k, "]");
      const char* table_name = &required(table_names[k], name.c_str());
      const DLTensor& table = required(tables[k], tc::concat("table ", table_name).c_str());
      handle->tables.push_back(read_table(table_name, table));
    }
    tc::run_short([&] { handle->binding = tc::einsum::bind(parsed, shapes, handle->tables); });
    for (const auto& [label, range] : handle->binding.ranges) handle->labels.push_back(label);
    for (const auto& dimensions : handle->binding.operands)
      handle->operands.push_back(tc::einsum::labels_of(dimensions));
    handle->operands.push_back(handle->binding.output);
    return handle.release();
  });
}

void tc_einsum_free(tc_einsum* einsum) { delete einsum; }

int32_t tc_einsum_label_count(const tc_einsum* einsum) {
  return value_or_zero([&] { return count_of(required(einsum, "einsum").labels); });
}

int64_t tc_einsum_extent(const tc_einsum* einsum, int32_t label) {
  return value_or_zero([&] {
    const tc::einsum::Label found = at(required(einsum, "einsum").labels, label, "label");
    return einsum->binding.ranges.at(found).size();
  });
}

int32_t tc_einsum_has_label(const tc_einsum* einsum, int32_t operand, int32_t label) {
  return value_or_zero([&] {
    const auto& labels = at(required(einsum, "einsum").operands, operand, "operand");
    const tc::einsum::Label wanted = at(einsum->labels, label, "label");
    return std::count(labels.begin(), labels.end(), wanted) > 0 ? 1 : 0;
  });
}

tc_status tc_einsum_text(tc_einsum* einsum, const int32_t* path, int32_t count, const char** text) {
  return give(text, "text", [&] {
    required(einsum, "einsum");
    check_array(path, "path", count, "count");
    // A step that takes two operands has three numbers, one that sums in one operand has two.
    const size_t operands = einsum->operands.size() - 1;
    if (static_cast<size_t>(count) > 8 * operands)
      throw tc::UsageError("count is ", count, ", more numbers than a path of ", operands,
                           " operands has");
    tc::einsum::Path steps;
    for (int32_t i = 0; i < count;) {
      int32_t length = path[i++];
      if (length < 1 || length > count - i)
        throw tc::UsageError("path is cut off: its element ", i - 1, " says that ", length,
                             " operands follow, and there are ", count - i, " more elements");
      steps.emplace_back(path + i, path + i + length);
      i += length;
    }
    tc::run_short([&] { einsum->source = tc::einsum::make_source(einsum->binding, steps); });
    return einsum->source.text.c_str();
  });
}

const char* tc_einsum_table(const tc_einsum* einsum, int32_t index) {
  return value_or_zero([&]() -> const char* {
    const auto& tables = required(einsum, "einsum").binding.tables;
    if (index >= 0 && static_cast<size_t>(index) >= tables.size()) return nullptr;
    return at(tables, index, "table")->name.c_str();
  });
}

int32_t tc_einsum_scalar_count(const tc_einsum* einsum) {
  return value_or_zero([&] { return count_of(required(einsum, "einsum").source.scalars); });
}

int64_t tc_einsum_scalar(const tc_einsum* einsum, int32_t index) {
  return value_or_zero(
      [&] { return at(required(einsum, "einsum").source.scalars, index, "scalar"); });
}
