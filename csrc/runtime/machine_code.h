// Machine code from an object file, in memory of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace tc::runtime {

/// The allocated sections of a relocatable ELF file for this processor (x86-64 or AArch64), linked
/// to what the process has, in one mapping that can be read and executed; what the file wants to
/// write has pages of its own. LLVM's JIT keeps some 860 KiB for a small kernel, this two pages.
/// There is no unwind information: no exception may pass through the code.
class MachineCode {
 public:
  /// `find` gives the address of a symbol that the file does not define, or null. An InternalError
  /// names what cannot be linked.
  MachineCode(const std::string& object, const std::function<void*(const std::string&)>& find);
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

  /// The address of a function that the file defines.
  void* function(const std::string& name) const;
  /// What the mapping takes.
  size_t bytes() const { return bytes_; }

 private:
  char* base_ = nullptr;
  size_t bytes_ = 0;
  std::map<std::string, void*> functions_;
};

}  // namespace tc::runtime
