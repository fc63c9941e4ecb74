#include "base/threads/out_of_memory.h"

#include <gmp.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "base/threads/task.h"

namespace tc {
namespace {

// Address space, which is what limits are about. Between two steps some MiB are allocated.
constexpr size_t kReserve = size_t{32} << 20;

thread_local void* reserve = nullptr;

void* map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

/// Whether an allocation that failed may be tried again.
bool find_memory() {
  if (!reserve) return false;
  release_reserve();
  Task::run_out_of_memory();
  return true;
}

std::new_handler handler_before = nullptr;

void handle_new() {
  if (Task::is_inside()) {
    if (!find_memory()) Task::abandon(/*out_of_memory=*/true);
  } else if (handler_before) {
    handler_before();
  } else {
    throw std::bad_alloc();
  }
}

// ---- GMP, whose own functions end the process

void* reallocate_number(void* old, size_t, size_t bytes) {
  for (;;) {
    if (void* memory = std::realloc(old, bytes)) return memory;
    if (!Task::is_inside()) throw std::bad_alloc();
    if (!find_memory()) Task::abandon(/*out_of_memory=*/true);
  }
}

void* allocate_number(size_t bytes) { return reallocate_number(nullptr, 0, bytes); }
void free_number(void* memory, size_t) { std::free(memory); }

// ---- what ends in abort()

/// The allocation that failed is not known here, and has perhaps been small.
bool lacks_memory() {
  void* memory = map(kReserve);
  if (memory) munmap(memory, kReserve);
  return memory == nullptr || Task::is_out_of_memory();
}

/// Instead of the process the thread ends, where it is a task's.
void end_thread() {
  if (Task::is_inside()) Task::abandon(/*out_of_memory=*/lacks_memory());
}

[[noreturn]] void abort_in_halide() {
  end_thread();
  std::abort();
}

/// LLVM asserts what failed allocations have made untrue. Anything else is its bug, and says so.
[[noreturn]] void fail_assertion_in_halide(const char* assertion, const char* file,
                                           unsigned int line, const char* function) {
  if (Task::is_inside() && lacks_memory()) Task::abandon(/*out_of_memory=*/true);
  __assert_fail(assertion, file, line, function);
}

std::terminate_handler terminate_before = nullptr;

void handle_terminate() {
  end_thread();
  if (terminate_before) terminate_before();
  std::abort();
}

/// The slot through which a library calls a function of another one; null where it has none.
void** find_slot(const dl_phdr_info& library, const char* function) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int k = 0; k < library.dlpi_phnum; ++k)
    if (library.dlpi_phdr[k].p_type == PT_DYNAMIC)
      dynamic =
          reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[k].p_vaddr);
  if (!dynamic) return nullptr;
  // The loader has made addresses of these.
  auto table = [&](ElfW(Sxword) tag) -> ElfW(Addr) {
    for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == tag) return entry->d_un.d_ptr;
    return 0;
  };
  const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(table(DT_SYMTAB));
  const auto* names = reinterpret_cast<const char*>(table(DT_STRTAB));
  if (!symbols || !names) return nullptr;
  const ElfW(Sxword) kinds[][2] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
  for (const auto& [start, size] : kinds) {
    const auto* relocations = reinterpret_cast<const ElfW(Rela)*>(table(start));
    const size_t count = relocations ? table(size) / sizeof(ElfW(Rela)) : 0;
    for (size_t k = 0; k < count; ++k) {
      const size_t symbol = ELF64_R_SYM(relocations[k].r_info);
      if (symbol != 0 && std::strcmp(names + symbols[symbol].st_name, function) == 0)
        return reinterpret_cast<void**>(library.dlpi_addr + relocations[k].r_offset);
    }
  }
  return nullptr;
}

void redirect(const dl_phdr_info& library, const char* function, void* to) {
  void** slot = find_slot(library, function);
  if (!slot) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) / page * page);
  if (mprotect(start, page, PROT_READ | PROT_WRITE) == 0) *slot = to;
}

int redirect_in_halide(dl_phdr_info* library, size_t, void*) {
  if (!std::strstr(library->dlpi_name, "libHalide")) return 0;
  redirect(*library, "abort", reinterpret_cast<void*>(abort_in_halide));
  redirect(*library, "__assert_fail", reinterpret_cast<void*>(fail_assertion_in_halide));
  return 1;
}

}  // namespace

void release_reserve() {
  if (reserve) munmap(reserve, kReserve);
  reserve = nullptr;
}

void reserve_memory() {
  static const bool prepared = [] {
    handler_before = std::set_new_handler(handle_new);
    terminate_before = std::set_terminate(handle_terminate);
    mp_set_memory_functions(allocate_number, reallocate_number, free_number);
    dl_iterate_phdr(redirect_in_halide, nullptr);
    return true;
  }();
  (void)prepared;
  reserve = map(kReserve);
}

}  // namespace tc
