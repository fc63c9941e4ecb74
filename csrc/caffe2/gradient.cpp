// What Caffe2 adds to a net for the derivatives of our operators.
#include "caffe2/gradient.h"

#include <algorithm>
#include <numeric>

#include "caffe2/arguments.h"
#include "caffe2/derivative.h"
#include "caffe2/errors.h"
#include "caffe2/make_source.h"

namespace tc_caffe2 {
namespace {

const char* const kLists[] = {"inputs_used_by_gradient", "outputs_used_by_gradient",
                              "output_gradients_used_by_gradient",
                              "inputs_to_compute_gradients_of"};

/// The tensors of a derivative's operator, by the numbers of those of its forward operator.
struct Lists {
  std::vector<int> inputs, outputs, output_gradients, input_gradients;
};

void check_range(const std::vector<int>& list, const char* name, int count, const char* what) {
  for (int k : list)
    if (k < 0 || k >= count)
      usage_error(name, " has ", k, ", but the operator has ", count, " ", what);
}

class GradientMaker final : public caffe2::GradientMakerBase {
 public:
  using GradientMakerBase::GradientMakerBase;
  /// GetGradientDefs does it, in which the lists take the place of what the operator has of them.
  bool CopyArguments() const override { return false; }

 protected:
  std::vector<caffe2::OperatorDef> GetGradientDefs() override {
    return as_caffe2(Def().type(), [&] { return make(); });
  }

 private:
  std::vector<caffe2::OperatorDef> make() {
    const Arguments arguments(Def());
    if (is_backward(arguments))
      usage_error(
          "a derivative has no gradient operator itself; write the second derivative "
          "as a text of its own");
    const bool by_text = arguments.has("tcGradDef");
    const Lists lists = by_text ? given_lists(arguments) : derived_lists(arguments);
    if (lists.input_gradients.empty()) return {};
    std::vector<std::string> inputs, outputs;
    for (int k : lists.inputs) inputs.push_back(I(k));
    for (int k : lists.outputs) inputs.push_back(O(k));
    for (int k : lists.output_gradients) inputs.push_back(GO(k));
    for (int k : lists.input_gradients) outputs.push_back(GI(k));
    const bool own_type = Def().type() != "TcOp";
    caffe2::OperatorDef made = caffe2::CreateOperatorDef(
        own_type ? Def().type() + kGradientSuffix : Def().type(), "", inputs, outputs);
    for (const caffe2::Argument& argument : Def().arg())
      if (std::find(std::begin(kLists), std::end(kLists), argument.name()) == std::end(kLists))
        made.add_arg()->CopyFrom(argument);
    auto add = [&](const caffe2::Argument& argument) { made.add_arg()->CopyFrom(argument); };
    if (!own_type) add(caffe2::MakeArgument<bool>("is_backward", true));
    add(caffe2::MakeArgument(kLists[0], lists.inputs));
    add(caffe2::MakeArgument(kLists[1], lists.outputs));
    add(caffe2::MakeArgument(kLists[2], lists.output_gradients));
    add(caffe2::MakeArgument(kLists[3], lists.input_gradients));
    return {made};
  }

  /// Those of 2018, which a text of the user's needs.
  Lists given_lists(const Arguments& arguments) {
    for (const char* list : {kLists[2], kLists[3]})
      if (!arguments.has(list))
        usage_error(arguments.spelled("tcGradDef"), " is given, but not the argument ", list,
                    ": its inputs are those of inputs_used_by_gradient, then "
                    "outputs_used_by_gradient, then output_gradients_used_by_gradient, "
                    "its outputs inputs_to_compute_gradients_of; without a text the "
                    "derivative is found, and no list is needed");
    Lists lists{arguments.integers(kLists[0]), arguments.integers(kLists[1]),
                arguments.integers(kLists[2]), arguments.integers(kLists[3])};
    check_range(lists.inputs, kLists[0], Def().input_size(), "inputs");
    check_range(lists.outputs, kLists[1], Def().output_size(), "outputs");
    check_range(lists.output_gradients, kLists[2], Def().output_size(), "outputs");
    check_range(lists.input_gradients, kLists[3], Def().input_size(), "inputs");
    return lists;
  }

  Lists derived_lists(const Arguments& arguments) {
    const SourcePtr forward = make_forward_source(arguments);
    const Definition definition = forward->definition({});
    check_output_count(definition, Def().output_size());
    Lists lists;
    lists.inputs.resize(static_cast<size_t>(Def().input_size()));
    std::iota(lists.inputs.begin(), lists.inputs.end(), 0);
    for (int k = 0; k < Def().output_size(); ++k)
      if (!GradOut(k).IsEmpty()) lists.output_gradients.push_back(k);
    std::vector<int> wanted = arguments.has(kLists[3]) ? arguments.integers(kLists[3])
                                                       : differentiable_inputs(definition);
    check_range(wanted, kLists[3], Def().input_size(), "inputs");
    std::sort(wanted.begin(), wanted.end());
    const auto shape = derivative_shape(*forward, lists.output_gradients, wanted);
    return {lists.inputs, shape.outputs, lists.output_gradients, shape.input_gradients};
  }
};

std::unique_ptr<caffe2::GradientMakerBase> make_maker(
    const caffe2::OperatorDef& definition,
    const std::vector<caffe2::GradientWrapper>& output_gradients) {
  return std::make_unique<GradientMaker>(definition, output_gradients);
}

}  // namespace

void register_gradient(const std::string& type) {
  caffe2::GradientRegistry()->Register(type, make_maker);
}

}  // namespace tc_caffe2
