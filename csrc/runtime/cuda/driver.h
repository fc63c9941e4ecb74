// The CUDA driver, opened when first asked for. Nothing links it: without a driver everything but
// running on a GPU works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda.h"

namespace tc::runtime {

/// The functions of libcuda. A failure of one of them is an Error with CUDA's own words.
class Driver {
 public:
  /// The process's driver; UsageError saying what was looked for when there is none.
  static const Driver& get();
  /// The same, or null without a driver.
  static const Driver* find();

#define TC_DECLARE(member, symbol, parameters) CUresult(*member) parameters = nullptr;
  TC_CUDA_DRIVER_FUNCTIONS(TC_DECLARE)
#undef TC_DECLARE

  /// Throws when `result` is no success, naming the call that gave it.
  void check(CUresult result, const char* call) const;
  /// 13020 for 13.2.
  int version() const { return version_; }

 private:
  Driver() = default;
  std::string open();
  static const std::pair<std::unique_ptr<Driver>, std::string>& instance();
  int version_ = 0;
};

/// One GPU with its primary context, the one frameworks use.
class Device {
 public:
  /// The device of an ordinal; UsageError when there is none. Kept for the process.
  static const Device& get(int ordinal);
  /// "sm_90".
  const std::string& arch() const { return arch_; }
  /// What one block may have when it asks for it at launch.
  int64_t max_shared_bytes() const { return max_shared_bytes_; }
  CUcontext context() const { return context_; }
  int ordinal() const { return ordinal_; }

 private:
  explicit Device(int ordinal);
  int ordinal_;
  CUcontext context_ = nullptr;
  std::string arch_;
  int64_t max_shared_bytes_ = 0;
};

/// Makes a device's context current for the calling thread while it lives.
class CurrentContext {
 public:
  explicit CurrentContext(const Device& device);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  bool pushed_ = false;
};

/// A point in a stream that the device passes, of the current context.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  CUevent get() const { return event_; }
  /// Waits until a later event has passed.
  double seconds_until(const Event& end) const;

 private:
  CUevent event_ = nullptr;
};

/// Code loaded on a device.
class DeviceModule {
 public:
  DeviceModule(const Device& device, const std::vector<char>& cubin);
  ~DeviceModule();
  DeviceModule(const DeviceModule&) = delete;
  DeviceModule& operator=(const DeviceModule&) = delete;

  /// A kernel of the module; `dynamic_shared_bytes` is what its launches will ask for.
  CUfunction function(const std::string& symbol, int64_t dynamic_shared_bytes) const;
  const Device& device() const { return device_; }

 private:
  const Device& device_;
  CUmodule module_ = nullptr;
};

}  // namespace tc::runtime
