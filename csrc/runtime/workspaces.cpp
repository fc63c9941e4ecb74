#include "runtime/workspaces.h"

#include "base/error.h"

namespace tc::runtime {
namespace {

constexpr DLDevice kCpu = {kDLCPU, 0};

}  // namespace

Workspaces::Workspaces(const tc_host& host, const std::vector<Workspace>& wanted) : host_(host) {
  for (const Workspace& workspace : wanted) {
    void* pointer = host.allocate(host.context, kCpu, static_cast<size_t>(workspace.bytes));
    if (!pointer) {
      release();
      throw Error(TC_USAGE_ERROR, concat("out of memory: the temporary ", workspace.name, " needs ",
                                         workspace.bytes, " bytes"));
    }
    pointers.push_back(pointer);
  }
}

void Workspaces::release() {
  for (void* pointer : pointers) host_.release(host_.context, kCpu, pointer);
  pointers.clear();
}

}  // namespace tc::runtime
