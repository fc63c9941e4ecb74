// The one include of CUDA (design decision 8): our own declarations of what is used of the driver
// interface and of NVRTC, since neither their headers nor their libraries are needed to build. Both
// libraries are opened at run time, by driver.cpp and nvrtc.cpp, and nowhere else.
//
// Pitfalls:
//  - Functions whose arguments changed over time have a _v2 symbol, which cuda.h hides behind a
//    macro; a program that looks symbols up must name it itself.
//  - libnvrtc finds libnvrtc-builtins only if that is on the loader's path or already open.
#pragma once

#include <cstddef>

namespace tc::runtime {

// ---- the driver, libcuda.so.1
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

enum : CUresult { CUDA_SUCCESS = 0 };
enum CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum : unsigned { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2 };
enum CUfunction_attribute { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };

/// The functions of libcuda that are used, as (member, symbol, parameters).
#define TC_CUDA_DRIVER_FUNCTIONS(F)                                                               \
  F(cuInit, "cuInit", (unsigned flags))                                                           \
  F(cuDriverGetVersion, "cuDriverGetVersion", (int* version))                                     \
  F(cuGetErrorName, "cuGetErrorName", (CUresult error, const char** name))                        \
  F(cuGetErrorString, "cuGetErrorString", (CUresult error, const char** text))                    \
  F(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                 \
  F(cuDeviceGetCount, "cuDeviceGetCount", (int* count))                                           \
  F(cuDeviceGetAttribute, "cuDeviceGetAttribute",                                                 \
    (int* value, CUdevice_attribute attribute, CUdevice device))                                  \
  F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device)) \
  F(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                    \
  F(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                 \
  F(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                 \
  F(cuModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void* image))                 \
  F(cuModuleUnload, "cuModuleUnload", (CUmodule module))                                          \
  F(cuModuleGetFunction, "cuModuleGetFunction",                                                   \
    (CUfunction * function, CUmodule module, const char* name))                                   \
  F(cuFuncSetAttribute, "cuFuncSetAttribute",                                                     \
    (CUfunction function, CUfunction_attribute attribute, int value))                             \
  F(cuLaunchKernel, "cuLaunchKernel",                                                             \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                  \
     void** parameters, void** extra))                                                            \
  F(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                           \
  F(cuMemFree, "cuMemFree_v2", (CUdeviceptr pointer))                                             \
  F(cuMemHostAlloc, "cuMemHostAlloc", (void** pointer, size_t bytes, unsigned flags))             \
  F(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                    \
    (CUdeviceptr * pointer, void* host, unsigned flags))                                          \
  F(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                \
  F(cuEventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                            \
  F(cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream))                             \
  F(cuEventSynchronize, "cuEventSynchronize", (CUevent event))                                    \
  F(cuEventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent begin, CUevent end))  \
  F(cuEventDestroy, "cuEventDestroy_v2", (CUevent event))

// ---- NVRTC, libnvrtc.so
using nvrtcResult = int;
using nvrtcProgram = struct _nvrtcProgram*;

enum : nvrtcResult { NVRTC_SUCCESS = 0 };

#define TC_NVRTC_FUNCTIONS(F)                                                                     \
  F(nvrtcVersion, (int* major, int* minor))                                                       \
  F(nvrtcGetNumSupportedArchs, (int* count))                                                      \
  F(nvrtcGetSupportedArchs, (int* archs))                                                         \
  F(nvrtcCreateProgram, (nvrtcProgram * program, const char* source, const char* name,            \
                         int header_count, const char* const* headers, const char* const* names)) \
  F(nvrtcDestroyProgram, (nvrtcProgram * program))                                                \
  F(nvrtcCompileProgram, (nvrtcProgram program, int option_count, const char* const* options))    \
  F(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * bytes))                               \
  F(nvrtcGetProgramLog, (nvrtcProgram program, char* log))                                        \
  F(nvrtcGetCUBINSize, (nvrtcProgram program, size_t * bytes))                                    \
  F(nvrtcGetCUBIN, (nvrtcProgram program, char* cubin))

}  // namespace tc::runtime
