// The C interface: extended einsum.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "api_error.h"
#include "einsum/bind.h"
#include "einsum/equation.h"
#include "einsum/source.h"
#include "runtime/arguments.h"

using tc::api::guarded;
using tc::api::required;

struct tc_einsum {
  std::vector<tc::einsum::Table> tables;
  tc::einsum::Binding binding;  ///< points into the tables
  std::vector<tc::einsum::Label> labels;
  std::vector<std::vector<tc::einsum::Label>> operands;  ///< their labels, then the output's
  tc::einsum::Source source;
};

namespace {

tc::einsum::Shape shape_of(const DLTensor& tensor, const std::string& name) {
  if (tensor.ndim > 0) required(tensor.shape, "shape");
  return {{tensor.shape, tensor.shape + tensor.ndim}, tc::runtime::from_dlpack(tensor.dtype, name)};
}

int64_t read_integer(const char* from, const tc::ir::Type& type) {
  auto read = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return static_cast<int64_t>(value);
  };
  if (type.is_int()) {
    switch (type.bits()) {
      case 8: return read(int8_t());
      case 16: return read(int16_t());
      case 32: return read(int32_t());
      default: return read(int64_t());
    }
  }
  switch (type.bits()) {
    case 8: return read(uint8_t());
    case 16: return read(uint16_t());
    case 32: return read(uint32_t());
    default: return read(uint64_t());
  }
}

tc::einsum::Table read_table(const char* name, const DLTensor& tensor) {
  tc::einsum::Table table;
  table.name = name;
  table.shape = shape_of(tensor, tc::concat("table ", name));
  const tc::ir::Type& type = table.shape.type;
  if (type.is_bool() || !(type.is_int() || type.is_uint()))
    throw tc::ShapeError(tc::concat("einsum: table ", name, " is ",
                                    tc::runtime::dtype_name(tensor.dtype),
                                    "; tables hold integers"));
  if (tensor.device.device_type != kDLCPU)
    throw tc::UsageError(tc::concat("table ", name, " must be in memory of the CPU"));
  std::vector<int64_t> strides = tc::runtime::layout_of(tensor).strides;
  int64_t count = 1;
  for (int64_t size : table.shape.sizes) count *= size;
  const char* data = static_cast<const char*>(tc::runtime::data_pointer(tensor));
  std::vector<int64_t> at(table.shape.sizes.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
    int64_t value = read_integer(data + offset * type.bytes(), type);
    // Products with factors and sums of such values must stay within 64 bits.
    if (value > INT32_MAX || value < INT32_MIN) {
      std::string place;
      for (int64_t k : at) place += tc::concat(place.empty() ? "" : ", ", k);
      throw tc::ShapeError(tc::concat("einsum: table ", name, " holds ", value, " at [", place,
                                      "], but indices have 32 bits"));
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
  return guarded([&] {
    required(einsum, "einsum") = nullptr;
    auto handle = std::make_unique<tc_einsum>();
    tc::einsum::Equation parsed = tc::einsum::parse_equation(&required(equation, "equation"));
    if (operand_count > 0) required(operands, "operands");
    if (table_count > 0) required(tables, "tables");
    if (table_count > 0) required(table_names, "table_names");
    std::vector<tc::einsum::Shape> shapes;
    for (int32_t k = 0; k < operand_count; ++k)
      shapes.push_back(shape_of(required(operands[k], "operand"), tc::concat("operand ", k)));
    for (int32_t k = 0; k < table_count; ++k)
      handle->tables.push_back(
          read_table(&required(table_names[k], "table name"), required(tables[k], "table")));
    handle->binding = tc::einsum::bind(parsed, shapes, handle->tables);
    for (const auto& [label, range] : handle->binding.ranges) handle->labels.push_back(label);
    for (const auto& dimensions : handle->binding.operands)
      handle->operands.push_back(tc::einsum::labels_of(dimensions));
    handle->operands.push_back(handle->binding.output);
    *einsum = handle.release();
  });
}

void tc_einsum_free(tc_einsum* einsum) { delete einsum; }

int32_t tc_einsum_label_count(const tc_einsum* einsum) {
  return static_cast<int32_t>(einsum->labels.size());
}

int64_t tc_einsum_extent(const tc_einsum* einsum, int32_t label) {
  return einsum->binding.ranges.at(einsum->labels.at(label)).size();
}

int32_t tc_einsum_has_label(const tc_einsum* einsum, int32_t operand, int32_t label) {
  for (tc::einsum::Label other : einsum->operands.at(operand))
    if (other == einsum->labels.at(label)) return 1;
  return 0;
}

tc_status tc_einsum_text(tc_einsum* einsum, const int32_t* path, int32_t count, const char** text) {
  return guarded([&] {
    required(text, "text") = nullptr;
    if (count > 0) required(path, "path");
    tc::einsum::Path steps;
    for (int32_t i = 0; i < count;) {
      int32_t length = path[i++];
      if (length < 1 || length > count - i) throw tc::UsageError("the path is cut off");
      steps.emplace_back(path + i, path + i + length);
      i += length;
    }
    required(einsum, "einsum").source = tc::einsum::make_source(einsum->binding, steps);
    *text = einsum->source.text.c_str();
  });
}

const char* tc_einsum_table(const tc_einsum* einsum, int32_t index) {
  const auto& tables = einsum->binding.tables;
  if (index < 0 || static_cast<size_t>(index) >= tables.size()) return nullptr;
  return tables[index]->name.c_str();
}

int32_t tc_einsum_scalar_count(const tc_einsum* einsum) {
  return static_cast<int32_t>(einsum->source.scalars.size());
}

int64_t tc_einsum_scalar(const tc_einsum* einsum, int32_t index) {
  return einsum->source.scalars.at(index);
}
