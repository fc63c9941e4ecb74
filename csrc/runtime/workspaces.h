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

/// The workspaces of one run in the memory of the CPU; given back when it ends, whether it got all
/// of them or not. An Error names the one that it did not get.
class Workspaces {
 public:
  Workspaces(const tc_host& host, const std::vector<Workspace>& wanted);
  ~Workspaces() { release(); }
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::vector<void*> pointers;

 private:
  void release();
  const tc_host& host_;
};

}  // namespace tc::runtime
