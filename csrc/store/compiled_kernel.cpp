#include "store/compiled_kernel.h"

#include "code.pb.h"

namespace tc::store {

namespace pb = tensor_comprehensions::store;

std::string encode(const CompiledKernel& kernel) {
  pb::CompiledKernel message;
  for (const codegen::CpuCode& code : kernel.functions) {
    pb::CompiledFunction& function = *message.add_functions();
    function.set_name(code.name);
    function.set_object(code.object);
    function.set_arguments(code.arguments);
    for (const runtime::Workspace& workspace : code.workspaces) {
      pb::CompiledWorkspace& added = *function.add_workspaces();
      added.set_name(workspace.name);
      added.set_bytes(workspace.bytes);
    }
    function.set_scratch_bytes(code.scratch);
    function.set_task_scratch_bytes(code.task_scratch);
    function.set_streams(code.streams);
    for (const std::string& name : code.streamed) function.add_streamed(name);
  }
  message.mutable_texts()->insert(kernel.texts.begin(), kernel.texts.end());
  return message.SerializeAsString();
}

std::optional<CompiledKernel> decode_kernel(const std::string& bytes) {
  pb::CompiledKernel message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  CompiledKernel kernel;
  for (const pb::CompiledFunction& function : message.functions()) {
    codegen::CpuCode code;
    code.name = function.name();
    code.object = function.object();
    code.arguments = function.arguments();
    for (const pb::CompiledWorkspace& workspace : function.workspaces())
      code.workspaces.push_back({workspace.name(), workspace.bytes()});
    code.scratch = function.scratch_bytes();
    code.task_scratch = function.task_scratch_bytes();
    code.streams = function.streams();
    code.streamed.assign(function.streamed().begin(), function.streamed().end());
    kernel.functions.push_back(std::move(code));
  }
  for (const auto& [name, text] : message.texts()) kernel.texts[name] = text;
  return kernel;
}

std::string encode(const runtime::CudaBinary& binary) {
  pb::CompiledCuda message;
  message.set_cubin(binary.cubin.data(), binary.cubin.size());
  message.set_log(binary.log);
  return message.SerializeAsString();
}

std::optional<runtime::CudaBinary> decode_cuda(const std::string& bytes) {
  pb::CompiledCuda message;
  if (!message.ParseFromString(bytes) || message.cubin().empty()) return std::nullopt;
  runtime::CudaBinary binary;
  binary.cubin.assign(message.cubin().begin(), message.cubin().end());
  binary.log = message.log();
  return binary;
}

}  // namespace tc::store
