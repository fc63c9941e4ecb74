// Memory that a kernel gets from the host for the time of one run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tc/tc.h"

namespace tc::runtime {

struct Workspace {
  std::string name;  ///< of the temporary that lies in it
  int64_t bytes = 0;
};

/// The workspaces of one run, in the memory of a device; given back when it ends, on a GPU when it
/// is queued, whether it got all of them or not. An Error says which one it did not get.
class Workspaces {
 public:
  Workspaces(const tc_host& host, const std::vector<Workspace>& wanted,
             DLDevice device = {kDLCPU, 0});
  ~Workspaces() { release(); }
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::vector<void*> pointers;

 private:
  void release();
  const tc_host& host_;
  const DLDevice device_;
};

}  // namespace tc::runtime
