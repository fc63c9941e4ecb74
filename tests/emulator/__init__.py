"""Runs CUDA texts on the CPU: g++ compiles what NVRTC would, and every CUDA thread is a fiber.

    module = emulator.compile(text)
    module.launch("tc_add", grid=(4,), block=(64,), args=[c, a, b, np.float32(2)])

Missing barriers show because threads run forward, in reverse and shuffled (``ORDERS``; a wrong
kernel gives different results) and shared memory is full of NaNs when a block starts. Barriers
that some threads do not reach, or that differ between threads, raise ``EmulatorError``. Arrays are
copied between guard zones: a store beside an array raises, a load beside it gives NaN. With
``sanitize=True`` the kernel runs in a process of its own under AddressSanitizer, which also finds
accesses beside shared and local arrays.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).parent
ORDERS = ("forward", "reverse", "shuffled")
_GUARD_BYTES = 4096
_GUARD = 0xFF

# Fused multiply-adds only where the text asks for them; integers wrap as they do on a GPU; local
# arrays start with a pattern, so that a use before the first store shows.
_FLAGS = [
    "-std=c++17",
    "-O1",
    "-g1",
    "-w",
    "-fPIC",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ftrivial-auto-var-init=pattern",
    f"-I{HERE}",
]
_SANITIZE = ["-fsanitize=address", "-fsanitize-sections=emulator_shared", "-fno-omit-frame-pointer"]


class EmulatorError(RuntimeError):
    """The kernel did what would be an error, or undefined, on a GPU."""


@functools.cache
def _cache() -> pathlib.Path:
    # A directory that only this user may have made, since libraries are loaded from it.
    path = pathlib.Path(tempfile.gettempdir()) / f"cuda-emulator-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise RuntimeError(f"{path} belongs to another user")
    return path


def _build(source: str, suffix: str, command: list) -> pathlib.Path:
    """The output of a compiler command for a text, kept by what it depends on."""
    key = hashlib.sha256()
    files = (f.read_text() for f in sorted(HERE.glob("*.[hc]*")))
    for part in [source, *map(str, command), *files]:
        key.update(part.encode() + b"\0")
    output = _cache() / f"{key.hexdigest()[:24]}{suffix}"
    if output.exists():
        return output
    with tempfile.TemporaryDirectory() as scratch:
        text = pathlib.Path(scratch) / "kernel.cpp"
        text.write_text(source)
        made = pathlib.Path(scratch) / "out"
        run = subprocess.run(
            [*map(str, command), str(text), "-o", str(made)], capture_output=True, text=True
        )
        if run.returncode:
            raise EmulatorError(f"g++ rejects the CUDA text:\n{run.stderr}\n{source}")
        # Atomic, so that test processes may build the same text at once.
        target = _cache() / f"{output.name}.{os.getpid()}"
        target.write_bytes(made.read_bytes())
        target.chmod(0o700)
        target.rename(output)
    return output


def _runtime(flags: list) -> pathlib.Path:
    source = '#include "cuda_emulator.cpp"\n'
    return _build(source, ".o", ["g++", *flags, "-O2", "-c"])


_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)


def _array(arg):
    """The array behind a pointer argument, or None for one passed by value."""
    if hasattr(arg, "data_ptr"):  # a torch tensor
        import torch

        assert arg.is_contiguous(), "the emulator takes contiguous tensors"
        arg = arg.detach()
        if arg.dtype in (torch.bfloat16, torch.bool):
            arg = arg.view(torch.int16 if arg.dtype == torch.bfloat16 else torch.uint8)
        return arg.numpy()
    if isinstance(arg, np.ndarray):
        assert arg.flags.c_contiguous, "the emulator takes contiguous arrays"
        return arg
    return None


def _three(extents) -> tuple:
    extents = tuple(int(e) for e in np.atleast_1d(extents))
    return extents + (1,) * (3 - len(extents))


class Module:
    """A compiled text."""

    def __init__(self, text: str):
        self.kernels = _KERNEL.findall(text)
        if not self.kernels:
            raise EmulatorError("the text has no __global__ function")
        text = _DYNAMIC.sub(r"static \1* const& \2 = (\1* const&)emulator::dynamic_memory;", text)
        exports = "".join(f"EMULATOR_EXPORT({k})\n" for k in self.kernels)
        self._source = f'#line 1 "kernel.cu"\n{text}\n{exports}'
        self._library = None

    def launch(
        self, kernel, grid, block, args, shared_bytes=0, order="forward", seed=1, sanitize=False
    ):
        """Runs one launch. Arrays (numpy, or torch on the CPU) are passed by pointer and written
        in place; numpy scalars are passed by value."""
        if kernel not in self.kernels:
            raise EmulatorError(f"no kernel {kernel}; the text has {', '.join(self.kernels)}")
        arrays = [_array(arg) for arg in args]
        values = [np.asarray(arg) if a is None else None for arg, a in zip(args, arrays)]
        grid, block, order = _three(grid), _three(block), ORDERS.index(order)
        run = self._launch_sanitized if sanitize else self._launch_here
        run(kernel, grid, block, arrays, values, int(shared_bytes), order, int(seed))

    def library(self) -> pathlib.Path:
        """The shared library with a function <kernel>_emulated for each kernel."""
        command = [
            "g++",
            *_FLAGS,
            "-shared",
            "-include",
            HERE / "cuda_emulator.h",
            _runtime(_FLAGS),
            "-x",
            "c++",
        ]
        return _build(self._source, ".so", command)

    def _launch_here(self, kernel, grid, block, arrays, values, shared_bytes, order, seed):
        if self._library is None:
            self._library = ctypes.CDLL(str(self.library()))
        function = getattr(self._library, f"{kernel}_emulated")
        function.restype = ctypes.c_char_p
        function.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_uint,
        ]
        guarded, pointers = [], []
        for array, value in zip(arrays, values):
            if array is None:
                pointers.append(value.ctypes.data)
                continue
            memory = np.full(array.nbytes + 2 * _GUARD_BYTES, _GUARD, np.uint8)
            inside = memory[_GUARD_BYTES : _GUARD_BYTES + array.nbytes]
            inside[:] = array.reshape(-1).view(np.uint8)
            guarded.append((array, memory, inside, ctypes.c_void_p(inside.ctypes.data)))
            pointers.append(ctypes.addressof(guarded[-1][3]))
        extents = [(ctypes.c_uint * 3)(*e) for e in (grid, block)]
        table = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        failure = function(*extents, table, shared_bytes, order, seed)
        for i, (array, memory, inside, _) in enumerate(guarded):
            array.reshape(-1).view(np.uint8)[:] = inside
            if (memory[:_GUARD_BYTES] != _GUARD).any() or (memory[-_GUARD_BYTES:] != _GUARD).any():
                raise EmulatorError(f"{kernel} stores beside its array argument {i}")
        if failure:
            raise EmulatorError(f"{kernel}: {failure.decode()}")

    def _launch_sanitized(self, kernel, grid, block, arrays, values, shared_bytes, order, seed):
        command = [
            "g++",
            *_FLAGS,
            *_SANITIZE,
            "-include",
            HERE / "cuda_emulator.h",
            _runtime(_FLAGS + _SANITIZE),
            f"-DEMULATED_KERNEL={kernel}_emulated",
            "-x",
            "c++",
        ]
        main = (HERE / "run_sanitized.cpp").read_text()
        program = _build(f'{self._source}\n#line 1 "run_sanitized.cpp"\n{main}', ".exe", command)
        with tempfile.TemporaryDirectory() as scratch:
            names = []
            for i, (array, value) in enumerate(zip(arrays, values)):
                names.append(f"{scratch}/{'array' if value is None else 'value'}{i}")
                (array if value is None else value).tofile(names[-1])
            options = "detect_leaks=0:detect_stack_use_after_return=0"
            run = subprocess.run(
                [program, *map(str, (*grid, *block, shared_bytes, order, seed)), *names],
                capture_output=True,
                text=True,
                env={**os.environ, "ASAN_OPTIONS": options},
            )
            if run.returncode:
                raise EmulatorError(f"{kernel}: {run.stderr.strip() or run.returncode}")
            for array, name in zip(arrays, names):
                if array is not None:
                    array.reshape(-1)[:] = np.fromfile(name, array.dtype)


@functools.lru_cache(maxsize=64)
def compile(text: str) -> Module:
    """The module of a CUDA text."""
    return Module(text)


def fake_driver() -> pathlib.Path:
    """A directory with a libcuda.so.1 whose one device runs the library of kernels that the
    environment variable EMULATED_KERNELS names; for the loader's path of a child process."""
    source = (HERE / "fake_driver.cpp").read_text()
    built = _build(
        source, ".so", ["g++", *_FLAGS, "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c++"]
    )
    directory = built.with_suffix("")
    directory.mkdir(exist_ok=True)
    link = directory / "libcuda.so.1"
    if not link.exists():
        scratch = directory / f"link.{os.getpid()}"
        scratch.symlink_to(built)
        scratch.rename(link)
    return directory
