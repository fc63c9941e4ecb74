#include "runtime/arguments.h"

#include <limits>
#include <utility>

#include "base/arguments.h"
#include "base/error.h"
#include "base/notes.h"
#include "lang/lowering/index_tables.h"
#include "runtime/check_tensor.h"
#include "runtime/overlap.h"

namespace tc::runtime {
namespace {

using Halide::Internal::as_const_int;

std::vector<int64_t> sizes_of(const DLTensor& tensor) {
  return {tensor.shape, tensor.shape + tensor.ndim};
}

/// "(M, K)" as the signature writes it.
std::string declared(const ir::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const ir::Expr& size : tensor.sizes) sizes.push_back(concat(size));
  return "(" + join(sizes) + ")";
}

const DLTensor& not_null(const DLTensor* tensor, const std::string& name) {
  return api::required(tensor, name.c_str());
}

void check_dtype(const std::string& name, Halide::Type expected, DLDataType came) {
  if (ir::same(ir::to_dlpack(expected), came)) return;
  throw ShapeError("argument ", name, ": expected dtype ", ir::dtype_name(expected), " but got ",
                   ir::dtype_name(came), "; convert it, or change its type in the text");
}

void check_scalar(const ir::Scalar& scalar, const DLTensor& given) {
  check_dtype(scalar.name, scalar.type, given.dtype);
  if (given.ndim != 0)
    throw ShapeError("argument ", scalar.name, ": expected a scalar but got ", shape_text(given));
  check_tensor(given, "argument " + scalar.name);
  if (given.device.device_type != kDLCPU)
    throw ShapeError("argument ", scalar.name, ": expected a scalar on the CPU but got ",
                     device_name(given.device));
}

int64_t scalar_value(const DLTensor& tensor, const std::string& name) {
  const void* data = data_pointer(tensor);
  if (!data)
    throw UsageError("argument ", name, ": data must not be NULL, since the value decides sizes");
  const int64_t value = read_integer(tensor.dtype, data, [&](auto given) {
    auto kept = static_cast<int32_t>(given);
    bool fits = static_cast<decltype(given)>(kept) == given && (kept < 0) == (given < 0);
    if (!fits)
      throw ShapeError("argument ", name,
                       ": a range or subscript depends on it, so it must fit int32, but got ",
                       +given);
    return static_cast<int64_t>(kept);
  });
  return tensor.dtype.code == kDLBool ? value != 0 : value;
}

/// There is no largest of no values, and so no index of one; and int64 has to hold every index.
void expect_candidates(const lang::Definition& definition, const ir::Statement& statement,
                       const Arguments& arguments) {
  const auto refuse = [&](const std::string& along, const char* fault, const char* way_out) {
    std::string sizes;
    for (const std::string& name : definition.signature.sizes)
      sizes += concat(sizes.empty() ? "" : ", ", name, " = ", arguments.sizes.at(name));
    throw ShapeError(definition.name, ": ", statement.tensor, " ", spelling(statement.reduction),
                     "! looks along ", along, fault, " for these inputs",
                     sizes.empty() ? "" : " (" + sizes + ")", way_out,
                     statement.where.valid() ? concat(" (line ", statement.where.line(), ")") : "");
  };
  std::vector<std::string> counts;
  for (const ir::Iterator& iterator : ir::reduced_indices(statement)) {
    if (Halide::Internal::is_const_zero(iterator.extent))
      refuse("index " + iterator.name, ", which has no value",
             "; there is no index to give, so pass larger ones");
    counts.push_back(concat(iterator.extent));
  }
  if (ir::count_points(ir::reduced_indices(statement)) == std::numeric_limits<int64_t>::max())
    refuse(join(counts, " * ") + " points", ", of which int64 does not count the last",
           "; look along fewer indices at once, or pass smaller ones");
}

/// Binds the size names of a tensor; `first` says which argument bound each.
void bind_sizes(const ir::Tensor& tensor, const DLTensor& given,
                std::map<std::string, int64_t>& sizes, std::map<std::string, std::string>& first) {
  if (given.ndim != static_cast<int32_t>(tensor.sizes.size()))
    throw ShapeError("argument ", tensor.name, ": expected ",
                     plural(tensor.sizes.size(), "dimension"), " ", declared(tensor), " but got ",
                     given.ndim, ", ", shape_text(given));
  check_tensor(given, "argument " + tensor.name, given.ndim);
  for (int32_t d = 0; d < given.ndim; ++d) {
    int64_t size = given.shape[d];
    const ir::Expr& expected = tensor.sizes[d];
    if (auto constant = as_const_int(expected)) {
      if (*constant != size)
        throw ShapeError("argument ", tensor.name, ": Constant dimension expected size ", *constant,
                         " for dimension ", d, " but found ", size);
      continue;
    }
    if (size > std::numeric_limits<int32_t>::max())
      throw ShapeError("argument ", tensor.name, ": dimension ", d, " is ", size,
                       ", but indices have 32 bits and sizes end at ",
                       std::numeric_limits<int32_t>::max(), "; pass smaller pieces");
    const std::string& name = expected.as<Halide::Internal::Variable>()->name;
    auto [known, added] = sizes.emplace(name, size);
    if (added) {
      first[name] = concat("dimension ", d, " of ", tensor.name);
    } else if (known->second != size) {
      throw ShapeError("Mismatched sizes for dimension ", d, " of argument ", tensor.name, ": ",
                       name, " is ", known->second, " (", first[name], ") but found ", size);
    }
  }
}

}  // namespace

std::map<std::string, int64_t> Arguments::values() const {
  std::map<std::string, int64_t> all = sizes;
  all.insert(scalars.begin(), scalars.end());
  return all;
}

void* data_pointer(const DLTensor& tensor) {
  return tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
}

Layout layout_of(const DLTensor& tensor) {
  std::vector<int64_t> sizes = sizes_of(tensor);
  if (!tensor.strides) return row_major(sizes);
  return canonical({sizes, {tensor.strides, tensor.strides + tensor.ndim}});
}

Arguments check_inputs(const lang::Definition& definition, const DLTensor* const* inputs,
                       int32_t count) {
  const ir::Program& signature = definition.signature;
  api::check_array(inputs, "inputs", count, "input_count");
  int32_t expected = static_cast<int32_t>(signature.parameters.size());
  if (count != expected)
    throw ShapeError(definition.name, " expected ", plural(expected, "input"), " but found ",
                     count);
  Arguments arguments;
  std::map<std::string, std::string> first;  // where a size was bound
  const std::string* on_device = nullptr;
  for (int32_t i = 0; i < count; ++i) {
    const ir::Parameter& parameter = signature.parameters[i];
    const DLTensor& given = not_null(inputs[i], "argument " + parameter.name);
    if (parameter.scalar) {
      const ir::Scalar& scalar = signature.scalars.at(parameter.name);
      check_scalar(scalar, given);
      if (scalar.specialized) arguments.scalars[scalar.name] = scalar_value(given, scalar.name);
      continue;
    }
    const ir::Tensor& tensor = signature.tensor(parameter.name);
    check_dtype(tensor.name, tensor.type, given.dtype);
    bind_sizes(tensor, given, arguments.sizes, first);
    if (!on_device) {
      arguments.device = given.device;
      on_device = &tensor.name;
    } else if (!is_same_device(given.device, arguments.device)) {
      throw ShapeError("argument ", tensor.name, ": expected device ",
                       device_name(arguments.device), " (that of ", *on_device, ") but got ",
                       device_name(given.device), "; move one of them");
    }
    arguments.layouts[tensor.name] = layout_of(given);
  }
  return arguments;
}

std::map<std::string, int64_t> scalar_values(const lang::Definition& definition,
                                             const DLTensor* const* inputs, int32_t count) {
  std::map<std::string, int64_t> values;
  const ir::Program& signature = definition.signature;
  api::check_array(inputs, "inputs", count, "input_count");
  if (static_cast<size_t>(count) > signature.parameters.size())
    throw UsageError("input_count is ", count, ", but ", definition.name, " has ",
                     signature.parameters.size(), " inputs");
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const ir::Parameter& parameter = signature.parameters[i];
    if (!parameter.scalar || !signature.scalars.at(parameter.name).specialized) continue;
    if (!inputs || static_cast<int32_t>(i) >= count)
      throw UsageError("the sizes of ", definition.name, " depend on the value of scalar ",
                       parameter.name, ", which was not given");
    const DLTensor& given = not_null(inputs[i], "argument " + parameter.name);
    check_scalar(signature.scalars.at(parameter.name), given);
    values[parameter.name] = scalar_value(given, parameter.name);
  }
  return values;
}

std::string mismatch(const ir::Program& program, const ir::DeclaredSize& declared) {
  const ir::Expr& size = program.tensor(declared.tensor).sizes[declared.dimension];
  std::string value = concat(declared.value);
  std::string wanted = declared.text + (value == declared.text ? "" : " = " + value);
  if (!declared.called.empty())
    return concat(program.name, ": ", wanted, " was expected for dimension ", declared.dimension,
                  " of ", declared.called, ", but that of ", declared.tensor, " is ", size);
  return concat(program.name, ": dimension ", declared.dimension, " of ", declared.tensor,
                " is declared as ", wanted, " but its index takes ", size,
                " values for these inputs; drop the sizes from the return list or give the index a "
                "range in a where clause");
}

ir::Program specialize(const lang::Definition& definition, const Arguments& arguments) {
  const ir::Program general = lang::infer_ranges(definition, arguments.scalars);
  ir::Program program = ir::specialize(general, arguments.values());
  for (const auto& [name, tensor] : program.tensors) {
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
      int64_t size = *as_const_int(tensor.sizes[d]);
      if (size < 0)
        throw ShapeError(definition.name, ": dimension ", d, " of ", name, " would have size ",
                         size, " for these inputs; an input is smaller than the subscripts need");
    }
  }
  for (const ir::DeclaredSize& declared : program.declared_sizes) {
    const ir::Expr& size = program.tensor(declared.tensor).sizes[declared.dimension];
    auto wanted = as_const_int(declared.value);
    if (wanted && *wanted == *as_const_int(size)) continue;
    throw ShapeError(mismatch(program, declared));
  }
  lang::AccessCheck accesses = lang::check_accesses(program);
  if (!accesses.outside.empty()) throw ShapeError(definition.name, ": ", accesses.outside);
  program.open_accesses = std::move(accesses.open);
  if (auto other = lang::with_index_tables_in_place(general, arguments.values(), program))
    program = std::move(*other);
  for (const ir::Statement& statement : program.statements)
    if (ir::is_position(statement.reduction)) expect_candidates(definition, statement, arguments);
  return program;
}

void check_outputs(const ir::Program& program, const DLTensor* const* inputs, int32_t input_count,
                   const DLTensor* const* outputs, int32_t output_count, bool addresses,
                   Arguments& arguments) {
  api::check_array(outputs, "outputs", output_count, "output_count");
  int32_t expected = static_cast<int32_t>(program.outputs.size());
  if (output_count != expected)
    throw ShapeError(program.name, " expected ", plural(expected, "output"), " but found ",
                     output_count);
  for (int32_t o = 0; o < output_count; ++o) {
    const ir::Tensor& tensor = program.tensor(program.outputs[o]);
    std::string what = concat("output ", tensor.name);
    const DLTensor& given = not_null(outputs[o], what);
    if (!ir::same(ir::to_dlpack(tensor.type), given.dtype))
      throw ShapeError(what, ": expected dtype ", ir::dtype_name(tensor.type), " but got ",
                       ir::dtype_name(given.dtype));
    std::vector<int64_t> sizes;
    for (const ir::Expr& size : tensor.sizes) sizes.push_back(*as_const_int(size));
    auto refuse_sizes = [&] {
      bool shown = given.ndim >= 0 && given.ndim <= kMostDimensions && (!given.ndim || given.shape);
      throw ShapeError(what, ": expected sizes ", tuple_text(sizes), " but got ",
                       shown ? tuple_text(sizes_of(given)) : shape_text(given));
    };
    if (given.ndim != static_cast<int32_t>(sizes.size())) refuse_sizes();
    check_tensor(given, what, given.ndim);
    if (sizes != sizes_of(given)) refuse_sizes();
    if (!is_same_device(given.device, arguments.device))
      throw ShapeError(what, ": expected device ", device_name(arguments.device), " but got ",
                       device_name(given.device));
    Layout layout = layout_of(given);
    if (overlaps_itself(layout))
      throw ShapeError(what, ": several of its elements share one place in memory (strides ",
                       tuple_text({given.strides, given.strides + given.ndim}),
                       "); pass a contiguous tensor or clone() it");
    arguments.layouts[tensor.name] = layout;
    if (!addresses) continue;
    auto region = [](const DLTensor& t) {
      return MemoryRegion{data_pointer(t), layout_of(t), t.dtype.bits / 8};
    };
    // The value of a specialised scalar is part of the kernel, which does not read its memory.
    auto is_read = [&](const ir::Parameter& parameter) {
      return !parameter.scalar || !program.scalars.at(parameter.name).specialized;
    };
    for (int32_t i = 0; i < input_count; ++i)
      if (is_read(program.parameters[i]) && overlap(region(given), region(*inputs[i])))
        throw ShapeError(what, " overlaps input ", program.parameters[i].name,
                         " in memory; pass another tensor or clone() one of them");
    for (int32_t other = 0; other < o; ++other)
      if (overlap(region(given), region(*outputs[other])))
        throw ShapeError(what, " overlaps output ", program.outputs[other],
                         " in memory; pass another tensor or clone() one of them");
  }
}

}  // namespace tc::runtime
