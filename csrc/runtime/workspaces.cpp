#include "runtime/workspaces.h"

#include "base/error.h"

namespace tc::runtime {

Workspaces::Workspaces(const tc_host& host, const std::vector<Workspace>& wanted, DLDevice device)
    : host_(host), device_(device) {
  pointers.reserve(wanted.size());
  for (const Workspace& workspace : wanted) {
    void* pointer = host.allocate(host.context, device, static_cast<size_t>(workspace.bytes));
    if (!pointer) {
      release();
      if (device.device_type == kDLCUDA)
        throw UsageError("out of memory on CUDA device ", device.device_id, ": a temporary needs ",
                         workspace.bytes, " bytes; free some, or compute less at a time");
      throw Error(TC_USAGE_ERROR, concat("out of memory: the temporary ", workspace.name, " needs ",
                                         workspace.bytes, " bytes"));
    }
    pointers.push_back(pointer);
  }
}

void Workspaces::release() {
  for (void* pointer : pointers) host_.release(host_.context, device_, pointer);
  pointers.clear();
}

}  // namespace tc::runtime
