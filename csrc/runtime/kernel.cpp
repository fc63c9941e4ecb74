#include "runtime/kernel.h"

#include "base/error.h"

namespace tc::runtime {
namespace {

template <class Map>
std::string names(const Map& map) {
  std::string list;
  for (const auto& entry : map) list += (list.empty() ? "" : ", ") + entry.first;
  return list;
}

}  // namespace

std::string Kernel::text(const std::string& what) const {
  auto found = texts.find(what);
  if (found == texts.end())
    throw UsageError(concat("this kernel has no text '", what, "'; it has: ", names(texts)));
  return found->second;
}

int64_t Kernel::number(const std::string& what) const {
  auto found = numbers.find(what);
  if (found == numbers.end())
    throw UsageError(concat("this kernel has no number '", what, "'; it has: ", names(numbers)));
  return found->second;
}

const std::vector<char>& Kernel::binary() const {
  throw UsageError("only kernels for CUDA targets have a device binary");
}

}  // namespace tc::runtime
