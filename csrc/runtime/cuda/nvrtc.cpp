#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "ir/halide.h"
#include "runtime/cuda.h"
#include "runtime/cuda/driver.h"

namespace tc::runtime {

namespace fs = std::filesystem;

namespace {

/// The functions of libnvrtc.
struct Nvrtc {
#define TC_DECLARE(member, parameters) nvrtcResult(*member) parameters = nullptr;
  TC_NVRTC_FUNCTIONS(TC_DECLARE)
#undef TC_DECLARE
  const char* (*nvrtcGetErrorString)(nvrtcResult result) = nullptr;
  std::string path;
  int major = 0, minor = 0;
  std::vector<int> archs;

  /// Empty, or why this library is of no use.
  std::string open(const std::string& library_path);
  void check(nvrtcResult result, const char* call) const {
    if (result == NVRTC_SUCCESS) return;
    throw CompilationError(call, " failed: ", nvrtcGetErrorString(result));
  }
};

/// Files of a directory whose names begin so, the last by name first; none where it cannot be read.
std::vector<std::string> files_of(const fs::path& directory, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (entry.path().filename().native().rfind(prefix, 0) == 0) found.push_back(entry.path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::string Nvrtc::open(const std::string& library_path) {
  path = library_path;
  // A library given by its path does not find its builtins beside it, unless they are open.
  for (const std::string& file : files_of(fs::path(path).parent_path(), "libnvrtc-builtins.so"))
    dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return dlerror();
#define TC_LOOK_UP(member, parameters)                                           \
  member = reinterpret_cast<nvrtcResult(*) parameters>(dlsym(library, #member)); \
  if (!member) return path + " is too old: it has no " #member;
  TC_NVRTC_FUNCTIONS(TC_LOOK_UP)
#undef TC_LOOK_UP
  nvrtcGetErrorString =
      reinterpret_cast<const char* (*)(nvrtcResult)>(dlsym(library, "nvrtcGetErrorString"));
  if (!nvrtcGetErrorString) return path + " is too old: it has no nvrtcGetErrorString";
  nvrtcVersion(&major, &minor);
  int count = 0;
  nvrtcGetNumSupportedArchs(&count);
  archs.resize(count);
  if (count) nvrtcGetSupportedArchs(archs.data());
  return "";
}

/// The directory of the shared object that holds `address`.
fs::path directory_of(const void* address) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname) return {};
  std::error_code ignored;
  return fs::weakly_canonical(info.dli_fname, ignored).parent_path();
}

/// Libraries to try, best first.
std::vector<std::string> candidates() {
  std::vector<std::string> result;
  const auto add_directory = [&](const fs::path& directory) {
    const std::vector<std::string> found = files_of(directory, "libnvrtc.so");
    result.insert(result.end(), found.begin(), found.end());
  };
  if (const char* path = std::getenv("TC_NVRTC_PATH"); path && *path) {
    // Who names a library gets that one or an error, never another.
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      add_directory(path);
    } else {
      result.push_back(path);
    }
    return result;
  }
  // Installed, both libraries lie two directories below site-packages, and so does NVRTC. In a
  // development tree only Halide's does.
  for (const fs::path& directory :
       {directory_of(reinterpret_cast<const void*>(&directory_of)),
        directory_of(reinterpret_cast<const void*>(&Halide::Internal::is_const_zero))}) {
    if (directory.empty()) continue;
    const fs::path packages = directory.parent_path().parent_path();
    for (const char* package : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
      add_directory(packages / package);
  }
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    result.push_back(name);
  return result;
}

const Nvrtc& get_nvrtc() {
  struct Search {
    std::unique_ptr<Nvrtc> nvrtc;
    std::string tried;  ///< one line a candidate that was of no use
  };
  static const Search* search = [] {
    auto* result = new Search();
    const Driver* driver = Driver::find();
    const int driver_major = driver ? driver->version() / 1000 : 0;
    for (const std::string& path : candidates()) {
      auto nvrtc = std::make_unique<Nvrtc>();
      const std::string failure = nvrtc->open(path);
      if (!failure.empty()) {
        result->tried += "\n  " + path + ": " + failure;
        continue;
      }
      // A driver loads no code of a newer major version: prefer a compiler it can follow.
      const bool fits = driver_major == 0 || nvrtc->major <= driver_major;
      if (fits || !result->nvrtc) result->nvrtc = std::move(nvrtc);
      if (fits) break;
    }
    return result;
  }();
  if (search->nvrtc) return *search->nvrtc;
  std::string message =
      "no NVRTC to compile CUDA with: pip install nvidia-cuda-nvrtc, or set "
      "TC_NVRTC_PATH to libnvrtc.so or its directory. Looked for:";
  throw CompilationError(message + (search->tried.empty() ? " nothing" : search->tried));
}

/// The lines around the first error of the log, with their numbers.
std::string lines_near_error(const std::string& source, const std::string& log) {
  std::smatch match;
  if (!std::regex_search(log, match, std::regex("\\((\\d+)\\): (catastrophic )?error"))) return "";
  const int wrong = std::stoi(match[1]);
  std::istringstream stream(source);
  std::string line, result;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (number < wrong - 4 || number > wrong + 4) continue;
    result += concat(number == wrong ? "> " : "  ", number, ": ", line, "\n");
  }
  return result;
}

}  // namespace

// --ptxas-options=-v prints one paragraph a kernel.
std::vector<KernelResources> parse_resources(const std::string& log) {
  static const std::regex entry("Compiling entry function '([^']+)'");
  static const std::regex stack(
      "(\\d+) bytes stack frame, (\\d+) bytes spill stores, "
      "(\\d+) bytes spill loads");
  static const std::regex used("Used (\\d+) registers");
  static const std::regex shared("(\\d+)(?:\\+\\d+)? bytes smem");
  std::vector<KernelResources> result;
  std::istringstream stream(log);
  std::string line;
  std::smatch match;
  while (std::getline(stream, line)) {
    if (std::regex_search(line, match, entry)) {
      result.emplace_back();
      result.back().symbol = match[1];
    }
    if (result.empty()) continue;
    KernelResources& kernel = result.back();
    if (std::regex_search(line, match, stack)) {
      kernel.stack_bytes = std::stoll(match[1]);
      kernel.spill_bytes = std::stoll(match[2]) + std::stoll(match[3]);
    }
    if (std::regex_search(line, match, used)) kernel.registers = std::stoll(match[1]);
    if (std::regex_search(line, match, shared)) kernel.shared_bytes = std::stoll(match[1]);
  }
  return result;
}

std::string nvrtc_identity() {
  const Driver* driver = Driver::find();
  std::string text = concat("driver ", driver ? driver->version() : 0);
  for (const std::string& path : candidates()) {
    text += concat(", ", path);
    struct stat status {};
    if (stat(path.c_str(), &status) == 0)
      text += concat(" ", status.st_size, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec);
  }
  return text;
}

CudaBinary compile_cuda(const std::string& source, const std::string& arch) {
  const Nvrtc& nvrtc = get_nvrtc();
  // "sm_90a" is sm_90 with what only that one generation has.
  std::smatch match;
  const bool well_formed = std::regex_match(arch, match, std::regex("sm_(\\d+)[a-z]?"));
  // No architecture has more digits, and more are no int.
  const int number = well_formed && match[1].length() <= 4 ? std::stoi(match[1]) : 0;
  if (std::find(nvrtc.archs.begin(), nvrtc.archs.end(), number) == nvrtc.archs.end()) {
    std::string known;
    for (int a : nvrtc.archs) known += concat(known.empty() ? "sm_" : ", sm_", a);
    throw CompilationError("NVRTC ", nvrtc.major, ".", nvrtc.minor, " (", nvrtc.path,
                           ") does not compile for \"", arch, "\"; it knows ", known);
  }
  nvrtcProgram program = nullptr;
  nvrtc.check(nvrtc.nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
              "nvrtcCreateProgram");
  struct Destroy {
    const Nvrtc& nvrtc;
    nvrtcProgram program;
    ~Destroy() { nvrtc.nvrtcDestroyProgram(&program); }
  } destroy{nvrtc, program};

  const std::string arch_option = "--gpu-architecture=" + arch;
  // A generated text may declare what one branch of it does not use (177, 550).
  std::vector<const char*> options = {arch_option.c_str(), "--std=c++17", "--ptxas-options=-v",
                                      "--diag-suppress=177,550"};
  // NVRTC's own cache, which it has since 12.9 where there is a GPU, gives code without the log
  // that says what the kernels use.
  if (std::make_pair(nvrtc.major, nvrtc.minor) >= std::make_pair(12, 9))
    options.push_back("--no-cache");
  const nvrtcResult compiled =
      nvrtc.nvrtcCompileProgram(program, int(options.size()), options.data());
  CudaBinary result;
  size_t bytes = 0;
  nvrtc.check(nvrtc.nvrtcGetProgramLogSize(program, &bytes), "nvrtcGetProgramLogSize");
  result.log.resize(bytes);
  if (bytes) nvrtc.check(nvrtc.nvrtcGetProgramLog(program, &result.log[0]), "nvrtcGetProgramLog");
  // The size counts the terminating zero.
  while (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  if (compiled != NVRTC_SUCCESS) {
    if (log_enabled("cuda")) log("cuda", source);
    throw CompilationError("NVRTC ", nvrtc.major, ".", nvrtc.minor, " rejects the kernel for ",
                           arch, " (", nvrtc.nvrtcGetErrorString(compiled), "):\n", result.log,
                           lines_near_error(source, result.log));
  }
  nvrtc.check(nvrtc.nvrtcGetCUBINSize(program, &bytes), "nvrtcGetCUBINSize");
  result.cubin.resize(bytes);
  nvrtc.check(nvrtc.nvrtcGetCUBIN(program, result.cubin.data()), "nvrtcGetCUBIN");
  result.kernels = parse_resources(result.log);
  return result;
}

}  // namespace tc::runtime
