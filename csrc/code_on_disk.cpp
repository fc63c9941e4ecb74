#include "code_on_disk.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "base/error.h"
#include "codegen/cpu/cpu_jit.h"
#include "machine/facts.h"
#include "runtime/nontemporal.h"
#include "store/code_folder.h"

namespace tc {
namespace {

/// The library that this code is in: another one has other passes.
std::string build_identity() {
  static const std::string identity = [] {
    static const char here = 0;
    Dl_info info;
    struct stat status;
    if (!dladdr(&here, &info) || stat(info.dli_fname, &status) != 0) return std::string();
    return concat(status.st_size, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec);
  }();
  return identity;
}

}  // namespace

std::shared_ptr<runtime::Kernel> FoundCode::load() {
  if (next == functions.size())
    throw InternalError(__FILE__, __LINE__, "code on disk has too few functions");
  return codegen::load_cpu_kernel(functions[next++]);
}

std::string key_on_disk(const MappingOptions& options, const CpuMachine& machine,
                        const CompileContext& context) {
  if (context.trial || context.subject.empty() || build_identity().empty() ||
      store::code_folder().empty())
    return "";
  return concat("kernel of ", build_identity(), "\n", codegen::cpu_target(), " ",
                runtime::has_nontemporal_stores(), "\n", machine::values(machine), "\n",
                to_string(options), " ", options.check_indices, "\n", to_string(context.notes),
                "\n", context.subject);
}

std::optional<store::CompiledKernel> find_on_disk(const std::string& key) {
  const std::optional<std::string> bytes = key.empty() ? std::nullopt : store::find_code(key);
  return bytes ? store::decode_kernel(*bytes) : std::nullopt;
}

std::string cuda_key_on_disk(const std::string& source, const std::string& arch) {
  if (build_identity().empty() || store::code_folder().empty()) return "";
  return concat("CUDA of ", build_identity(), "\n", arch, " by ", runtime::nvrtc_identity(), "\n",
                source);
}

std::optional<runtime::CudaBinary> find_cuda_on_disk(const std::string& key) {
  const std::optional<std::string> bytes = key.empty() ? std::nullopt : store::find_code(key);
  return bytes ? store::decode_cuda(*bytes) : std::nullopt;
}

}  // namespace tc
