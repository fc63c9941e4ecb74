#include "caffe2/make_source.h"

#include "caffe2/derivative.h"
#include "caffe2/errors.h"
#include "caffe2/library.h"

namespace tc_caffe2 {
namespace {

SourcePtr text_source(const Arguments& arguments, const char* definition, const char* name) {
  if (!arguments.has(definition))
    usage_error("the argument ", definition, " is missing: the text of the operator");
  return std::make_shared<TextSource>(arguments.text(definition), arguments.text(name),
                                      arguments.spelled(definition), arguments.spelled(name));
}

const LibraryOperator* find_library_operator(const std::string& type) {
  for (const LibraryOperator& each : library_operators())
    if (type == each.type || type == each.type + kGradientSuffix) return &each;
  return nullptr;
}

}  // namespace

bool is_backward(const Arguments& arguments) {
  if (arguments.integer("is_backward", 0) != 0) return true;
  const LibraryOperator* found = find_library_operator(arguments.definition().type());
  return found && arguments.definition().type() != found->type;
}

SourcePtr make_forward_source(const Arguments& arguments) {
  if (const LibraryOperator* found = find_library_operator(arguments.definition().type()))
    return found->source(*found, arguments);
  return text_source(arguments, "tcDef", "tcName");
}

SourcePtr make_source(const Arguments& arguments) {
  if (!is_backward(arguments)) return make_forward_source(arguments);
  if (arguments.has("tcGradDef")) return text_source(arguments, "tcGradDef", "tcGradName");
  return std::make_shared<Derivative>(make_forward_source(arguments),
                                      arguments.integers("outputs_used_by_gradient"),
                                      arguments.integers("output_gradients_used_by_gradient"),
                                      arguments.integers("inputs_to_compute_gradients_of"));
}

}  // namespace tc_caffe2
