// Registers all operators when Caffe2 loads this library.
#include <climits>

#include "caffe2/arguments.h"
#include "caffe2/errors.h"
#include "caffe2/gradient.h"
#include "caffe2/library.h"
#include "caffe2/make_source.h"
#include "caffe2/operator.h"
#include "caffe2/types.h"

namespace tc_caffe2 {
namespace {

using caffe2::OpSchema;
using caffe2::TensorShape;

const Described kCommon = {
    {"mappingOptions",
     "How the text is scheduled: str(tc.MappingOptions(...)) or a preset's name. The compiler "
     "chooses where it is missing."},
    {"gradMappingOptions", "The same for the gradient."},
    {"tc_cache",
     "A file of tensor_comprehensions.save, whose options count where the two before are missing."},
    {"checkSizes",
     "1 to have the core check every argument at every run. Sizes and types are looked at anyway, "
     "and they may change between runs."},
};

const Described kText = {
    {"tcDef", "The text: one definition or several, in the language of Tensor Comprehensions."},
    {"tcName", "The name of the definition that is meant; where there is one, it may be missing."},
    {"tcGradDef", "The text of the gradient. Where it is missing, the gradient is derived."},
    {"tcGradName", "The name of the definition in tcGradDef."},
    {"is_backward", "1 for the operator of the gradient, as Caffe2 adds it to a net."},
    {"inputs_used_by_gradient",
     "Numbers of the inputs that tcGradDef takes first. Needed with tcGradDef only, as are the "
     "other lists."},
    {"outputs_used_by_gradient", "Numbers of the outputs that it takes then."},
    {"output_gradients_used_by_gradient",
     "Numbers of the outputs whose gradients it takes at the end."},
    {"inputs_to_compute_gradients_of", "Numbers of the inputs whose gradients it gives, in order."},
};

const char* const kTextDocumentation = R"DOC(
Computes a definition in the language of Tensor Comprehensions. Inputs are its parameters in their
order, a scalar a tensor of one element; outputs are its results.

    core.CreateOperator("TcOp", ["A", "B"], ["C"], tcDef="""
    def matmul(float(M, K) A, float(K, N) B) -> (C) {
        C(m, n) +=! A(m, k) * B(k, n)
    }""")

Kernels are compiled for the sizes and types that come, and kept. Arguments may also be spelled with
underscores: tc_def, tc_name, mapping_options.
)DOC";

std::unique_ptr<caffe2::OperatorBase> make_operator(const caffe2::OperatorDef& definition,
                                                    caffe2::Workspace* workspace) {
  return std::make_unique<TcOperator>(definition, workspace);
}

TensorShape unknown() {
  TensorShape shape;
  shape.set_unknown_shape(true);
  return shape;
}

/// What a net is told before it runs. Nothing is known of what has sizes by a scalar's value.
std::vector<TensorShape> infer_shapes(const Arguments& arguments,
                                      const std::vector<TensorShape>& given) {
  const auto count = static_cast<size_t>(arguments.definition().output_size());
  std::vector<Given> inputs;
  for (const TensorShape& shape : given) {
    const auto type = caffe2::DataTypeToTypeMeta(shape.data_type());
    inputs.push_back({to_dlpack(type, "input " + std::to_string(inputs.size())),
                      Sizes(shape.dims().begin(), shape.dims().end())});
  }
  const SourcePtr source = make_source(arguments);
  if (!source->deciding_inputs().empty()) return std::vector<TensorShape>(count, unknown());
  const Definition definition = source->definition(inputs);
  const auto parameters = source->parameters(definition, inputs);
  const auto sizes = definition.infer_sizes(to_tensors(parameters, inputs));
  std::vector<TensorShape> result;
  for (size_t o = 0; o < sizes.size(); ++o) {
    const auto type = to_caffe2(definition.output(static_cast<int32_t>(o)).dtype);
    TensorShape shape;
    shape.set_data_type(caffe2::TypeMetaToDataType(type));
    for (int64_t size : source->output_sizes(o, sizes[o], inputs)) shape.add_dims(size);
    result.push_back(shape);
  }
  return result;
}

OpSchema& add(const std::string& type) {
  caffe2::CPUOperatorRegistry()->Register(type, make_operator);
  auto infer = [type](const caffe2::OperatorDef& definition,
                      const std::vector<TensorShape>& inputs) {
    return as_caffe2(type, [&] { return infer_shapes(Arguments(definition), inputs); });
  };
  return caffe2::OpSchemaRegistry::NewSchema(type, __FILE__, __LINE__)
      .TensorInferenceFunction(OpSchema::NeedsAllInputShapes(infer));
}

void describe(OpSchema& schema, const Described& arguments) {
  for (const auto& [name, meaning] : arguments) schema.Arg(name, meaning);
}

int register_all() {
  OpSchema& text = add("TcOp").SetDoc(kTextDocumentation);
  describe(text, kText);
  describe(text, kCommon);
  register_gradient("TcOp");
  for (const LibraryOperator& each : library_operators()) {
    OpSchema& schema = add(each.type)
                           .NumInputs(static_cast<int>(each.inputs.size()))
                           .NumOutputs(static_cast<int>(each.outputs.size()))
                           .SetDoc(documentation(each));
    describe(schema, each.arguments);
    describe(schema, kCommon);
    for (size_t k = 0; k < each.inputs.size(); ++k)
      schema.Input(static_cast<int>(k), each.inputs[k].first, each.inputs[k].second);
    for (size_t k = 0; k < each.outputs.size(); ++k)
      schema.Output(static_cast<int>(k), each.outputs[k].first, each.outputs[k].second);
    register_gradient(each.type);
    add(each.type + kGradientSuffix)
        .NumInputs(1, INT_MAX)
        .NumOutputs(1, INT_MAX)
        .SetDoc("The derivative of " + std::string(each.type) + ", as Caffe2 adds it to a net.");
  }
  return 0;
}

[[maybe_unused]] const int registered = register_all();

}  // namespace
}  // namespace tc_caffe2
