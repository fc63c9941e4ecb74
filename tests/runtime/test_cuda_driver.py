"""Launches through the runtime with an emulated libcuda, and memory from PyTorch's allocator on
devices that are not there."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import emulator
import pytest
import torch
from cuda_cases import find_program

import tensor_comprehensions as tc


@pytest.mark.parametrize("shared_elements", [64, 20000])
def test_launch_through_the_driver(shared_elements: int) -> None:
    """Launches, temporaries, scalars and shared memory, the time by the device's clock, and what is
    said where memory is missing."""
    program = find_program("cuda_launch_test")
    size = str(shared_elements)
    text = subprocess.run([program, "--print", size], capture_output=True, text=True, check=True)
    environment = {
        **os.environ,
        "EMULATED_KERNELS": str(emulator.compile(text.stdout).library()),
        "LD_LIBRARY_PATH": f"{emulator.fake_driver()}:{os.environ.get('LD_LIBRARY_PATH', '')}",
    }
    run = subprocess.run(
        [program, "--launch", size], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr


# PyTorch's own stand-in for devices, and an allocator that says on which one it was asked.
DEVICES = """
#include <c10/core/Allocator.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include "tc/tc.h"

using Guard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

int asked_on = -1;
struct Allocator : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    asked_on = Guard::getDeviceIndex();
    void* memory = std::malloc(bytes);
    const c10::Device device(c10::DeviceType::CUDA, Guard::getDeviceIndex());
    return {memory, memory, &std::free, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void*, const void*, size_t) const override {}
};

extern "C" int allocate_elsewhere() {
  static Allocator allocator;
  c10::SetAllocator(c10::DeviceType::CUDA, &allocator);
  using HostFunction = const tc_host& (*)();
  auto host = reinterpret_cast<HostFunction>(dlsym(RTLD_DEFAULT, "_ZN8tc_torch10torch_hostEv"));
  if (!host) return 100;
  Guard::setDeviceIndex(2);
  void* memory = host().allocate(host().context, DLDevice{kDLCUDA, 5}, 64);
  if (asked_on != 5) return 101;
  host().release(host().context, DLDevice{kDLCUDA, 5}, memory);
  return Guard::getDeviceIndex();
}
"""
PROGRAM = """
import ctypes, sys
import torch
import tensor_comprehensions as tc
from tensor_comprehensions import _torch
for path in sys.argv[2:]:
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
print(ctypes.CDLL(sys.argv[1]).allocate_elsewhere())
"""


def test_allocations_leave_the_current_device_alone(tmp_path: pathlib.Path) -> None:
    packages = pathlib.Path(torch.__file__).parent
    ours = pathlib.Path(tc.__file__).parent
    (tmp_path / "devices.cpp").write_text(DEVICES)
    command = ["g++", "-std=c++20", "-O0", "-w", "-fPIC", "-shared", "-o", "devices.so"]
    command += [f"-I{packages / 'include'}", f"-I{ours / 'include'}", "devices.cpp"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    libraries = [str(packages / "lib" / "libc10.so"), str(ours / "lib" / TORCH_LIBRARY)]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "devices.so"), *libraries],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "2"


TORCH_LIBRARY = "libtensor_comprehensions_torch.so"
