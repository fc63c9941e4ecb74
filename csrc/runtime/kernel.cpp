#include "runtime/kernel.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/threads/leaf_mutex.h"
#include "base/threads/task.h"

namespace tc::runtime {
namespace {

template <class Map>
std::string names(const Map& map) {
  std::string list;
  for (const auto& entry : map) list += (list.empty() ? "" : ", ") + entry.first;
  return list;
}

/// Of the texts and kernels that all kernels have made. Nobody compiles under it: a child of fork
/// would wait for a thread that it does not have.
LeafMutex& made_mutex = *new LeafMutex;

}  // namespace

void Kernel::launch_unchecked(const tc_host& host, void* const* pointers) const {
  (make_unchecked ? unchecked() : *this).launch(host, pointers);
}

const Kernel& Kernel::unchecked() const {
  if (const Kernel* kernel = unchecked_) return *kernel;
  auto made = run_apart("compiling without checks of indices", make_unchecked);
  const LeafLock lock(made_mutex);
  if (!made_unchecked_) unchecked_ = (made_unchecked_ = std::move(made)).get();
  return *made_unchecked_;
}

double Kernel::time(const tc_host& host, void* const* pointers) const {
  const auto start = std::chrono::steady_clock::now();
  launch(host, pointers);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string Kernel::text(const std::string& what) const {
  auto found = texts.find(what);
  if (found != texts.end()) return found->second;
  const std::shared_ptr<const Texts> made = all_texts();
  const Texts& all = made ? *made : texts;
  found = all.find(what);
  if (found != all.end()) return found->second;
  throw UsageError("this kernel has no text '", what, "'; it has: ", names(all));
}

std::shared_ptr<const Kernel::Texts> Kernel::all_texts() const {
  {
    const LeafLock lock(made_mutex);
    if (made_texts_ || !make_texts) return made_texts_;
  }
  auto made = std::make_shared<const Texts>(run_apart("compiling again", make_texts));
  const LeafLock lock(made_mutex);
  if (!made_texts_) made_texts_ = std::move(made);
  return made_texts_;
}

int64_t Kernel::bytes() const {
  // What is kept to compile it again, for readers, and its names.
  constexpr int64_t kAround = 16 * 1024;
  int64_t total = kAround;
  for (const auto& [name, text] : texts) total += static_cast<int64_t>(text.size());
  auto code = numbers.find("code_bytes");
  return code == numbers.end() ? total : total + code->second;
}

int64_t Kernel::number(const std::string& what) const {
  auto found = numbers.find(what);
  if (found == numbers.end())
    throw UsageError("this kernel has no number '", what, "'; it has: ", names(numbers));
  return found->second;
}

const std::vector<char>& Kernel::binary() const {
  throw UsageError("only kernels for CUDA targets have a device binary");
}

}  // namespace tc::runtime
