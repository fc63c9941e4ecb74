"""Runs CUDA texts on the CPU: g++ compiles what NVRTC would, and every CUDA thread is a fiber.

    module = emulator.compile(text)
    module.launch("tc_add", grid=(4,), block=(64,), args=[c, a, b, np.float32(2)])

Every access to shared memory and to arrays is watched, so that one run in one order finds, with an
``EmulatorError`` that names both accesses: a barrier that is missing, lost updates, conflicts
between blocks, reads of what nobody has written, accesses beside an array. Barriers that some
threads do not reach, or that differ between threads, raise as well. Threads run shuffled, and
those of several blocks side by side (``ORDERS`` has others). With ``counts=True`` a launch says
what it asks of memory (``Counts``). With ``sanitize=True`` the kernel runs in a process of its own
under AddressSanitizer instead, which finds accesses beside local arrays.
"""

import ctypes
import functools
import hashlib
import itertools
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).parent
ORDERS = ("forward", "reverse", "shuffled")

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
# What watches accesses is in memory.cpp, not in the library that this option would link.
_WATCH = [
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=0",
    "-nodefaultlibs",
]
_SANITIZE = ["-fsanitize=address", "-fno-omit-frame-pointer"]


class EmulatorError(RuntimeError):
    """The kernel did what would be an error, or undefined, on a GPU."""


class _Array(ctypes.Structure):
    """emulator::Array of launch.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("element", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("defined", ctypes.c_void_p),
    )


class Counts(ctypes.Structure):
    """What a launch asks of memory (emulator::Counts of launch.h). A request is one access by the
    lanes of a warp; lanes pass it together where they pass it equally often."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "global_requests",
            "sectors",
            "used_bytes",
            "shared_requests",
            "wavefronts",
            "least_wavefronts",
            "atomics",
            "barriers",
            "threads",
        )
    )

    @property
    def sectors_per_request(self) -> float:
        """Pieces of 32 bytes of global memory; 4 where the lanes read consecutive floats."""
        return self.sectors / max(1, self.global_requests)

    @property
    def efficiency(self) -> float:
        """The share of the moved bytes that some lane asked for."""
        return self.used_bytes / max(1, 32 * self.sectors)

    @property
    def bank_conflicts(self) -> float:
        """Times that shared memory is visited for a request, by those of one without conflicts."""
        return self.wavefronts / max(1, self.least_wavefronts)


class _Launch(ctypes.Structure):
    """emulator::Launch of launch.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("arguments", ctypes.c_void_p),
        ("arrays", ctypes.POINTER(_Array)),
        ("argument_count", ctypes.c_size_t),
        ("dynamic_shared_bytes", ctypes.c_size_t),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_uint),
        ("counts", ctypes.POINTER(Counts)),
    )


@functools.cache
def _cache() -> pathlib.Path:
    # A directory that only this user may have made, since libraries are loaded from it.
    path = pathlib.Path(tempfile.gettempdir()) / f"cuda-emulator-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise RuntimeError(f"{path} belongs to another user")
    return path


@functools.cache
def _own_files() -> bytes:
    return b"\0".join(f.read_bytes() for f in sorted(HERE.glob("*.[hc]*")))


def _build(source: str, suffix: str, command: list, libraries: list = ()) -> pathlib.Path:
    """The output of a compiler command for a text, kept by what it depends on."""
    key = hashlib.sha256(_own_files())
    for part in [source, *map(str, command), *map(str, libraries)]:
        key.update(part.encode() + b"\0")
    output = _cache() / f"{key.hexdigest()[:24]}{suffix}"
    if output.exists():
        return output
    with tempfile.TemporaryDirectory() as scratch:
        text = pathlib.Path(scratch) / "kernel.cpp"
        text.write_text(source)
        made = pathlib.Path(scratch) / "out"
        run = subprocess.run(
            [*map(str, command), str(text), "-x", "none", *map(str, libraries), "-o", str(made)],
            capture_output=True,
            text=True,
        )
        if run.returncode:
            raise EmulatorError(f"g++ rejects the CUDA text:\n{run.stderr}\n{source}")
        # Atomic, so that test processes may build the same text at once.
        target = _cache() / f"{output.name}.{os.getpid()}"
        target.write_bytes(made.read_bytes())
        target.chmod(0o700)
        target.rename(output)
    return output


_RUNTIME = "".join(f'#include "{f}.cpp"\n' for f in ("cuda_emulator", "memory", "cuda_math"))


@functools.cache
def _header() -> pathlib.Path:
    """cuda_emulator.h, precompiled: g++ takes a third of the time."""
    text = f'#include "{HERE / "cuda_emulator.h"}"\n'
    command = ["g++", *_FLAGS, *_WATCH, "-x", "c++-header"]
    header = _build(text, ".h.gch", command).with_suffix("")
    if not header.exists():
        scratch = header.with_suffix(f".{os.getpid()}")
        scratch.write_text(text)
        scratch.rename(header)
    return header


_KERNEL = re.compile(
    r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)"
)
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w: ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_SHARED = re.compile(r"__shared__\s+([\w: ]+?)\s+(\w+)((?:\s*\[[^\]]+\])+)\s*;")


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
        self.text = text
        # The names of each kernel's parameters.
        self.kernels = {
            name: [p.split()[-1].lstrip("*&") for p in parameters.split(",") if p.strip()]
            for name, parameters in _KERNEL.findall(text)
        }
        if not self.kernels:
            raise EmulatorError("the text has no __global__ function")
        text = _DYNAMIC.sub(r"EMULATOR_DYNAMIC_SHARED(\1, \2);", text)
        number = itertools.count()
        text = _SHARED.sub(
            lambda m: f"EMULATOR_SHARED({next(number)}, {m[1]}, {m[2]}, {m[3].strip()});", text
        )
        exports = "".join(f"EMULATOR_EXPORT({k})\n" for k in self.kernels)
        self._source = f'#line 1 "kernel.cu"\n{text}\n{exports}'
        self._library = None

    def launch(
        self,
        kernel,
        grid,
        block,
        args,
        shared_bytes=0,
        order="shuffled",
        seed=1,
        sanitize=False,
        counts=False,
        defined=None,
    ):
        """Runs one launch. Arrays (numpy, or torch on the CPU) are passed by pointer and written
        in place; numpy scalars are passed by value.

        `defined` has, for some arrays by their position, an array of uint8 with an entry for each
        of their bytes, which says whether anybody has written it before, and is kept up to date.
        """
        if kernel not in self.kernels:
            raise EmulatorError(f"no kernel {kernel}; the text has {', '.join(self.kernels)}")
        if len(args) != len(self.kernels[kernel]):
            raise EmulatorError(
                f"{kernel} takes {', '.join(self.kernels[kernel])}, but got {len(args)} arguments"
            )
        arrays = [_array(arg) for arg in args]
        values = [np.asarray(arg) if a is None else None for arg, a in zip(args, arrays)]
        grid, block, order = _three(grid), _three(block), ORDERS.index(order)
        if sanitize:
            run = self._launch_sanitized
            return run(kernel, grid, block, arrays, values, int(shared_bytes), order, int(seed))
        result = Counts() if counts else None
        pointers = [v.ctypes.data if v is not None else None for v in values]
        described = [_Array() for _ in args]
        for i, (array, name) in enumerate(zip(arrays, self.kernels[kernel])):
            if array is None:
                continue
            mask = (defined or {}).get(i)
            assert mask is None or (mask.dtype == np.uint8 and mask.size == array.nbytes)
            described[i] = _Array(
                array.ctypes.data or 1,  # an empty one may have no address
                array.nbytes,
                array.itemsize,
                name.encode(),
                None if mask is None else mask.ctypes.data,
            )
        launch = _Launch(
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*block),
            ctypes.cast((ctypes.c_void_p * max(1, len(args)))(*pointers), ctypes.c_void_p),
            (_Array * max(1, len(args)))(*described),
            len(args),
            int(shared_bytes),
            order,
            int(seed),
            ctypes.pointer(result) if counts else None,
        )
        if self._library is None:
            self._library = ctypes.CDLL(str(self.library()))
        function = getattr(self._library, f"{kernel}_emulated")
        function.restype, function.argtypes = ctypes.c_char_p, [ctypes.POINTER(_Launch)]
        failure = function(ctypes.byref(launch))
        if failure:
            raise EmulatorError(f"{kernel}: {self._with_lines(failure.decode())}")
        return result

    def _with_lines(self, message: str) -> str:
        """The lines of the text in place of the offsets in the library."""
        offsets = re.findall(r"<\+(0x[0-9a-f]+)>", message)
        if not offsets:
            return message
        # Return addresses: one less is still in the call.
        command = ["addr2line", "-i", "-e", str(self.library())]
        texts, found = self.text.splitlines(), set()
        for offset in dict.fromkeys(offsets):
            run = subprocess.run(
                [*command, hex(int(offset, 16) - 1)], capture_output=True, text=True, check=True
            )
            # The last is the function itself, those before were inlined into it.
            lines = re.findall(r"kernel\.cu:(\d+)", run.stdout)
            where = "an unknown line"
            if lines:
                line = int(lines[-1])
                source = texts[line - 1].strip() if line <= len(texts) else ""
                where = f"line {line} (`{source}`)"
                found.add(line)
            message = message.replace(f"<+{offset}>", where)
        if len(found) == 1 and "is missing between them" in message:
            message += ", or the update must be atomic"
        return message

    def library(self) -> pathlib.Path:
        """The shared library with a function <kernel>_emulated for each kernel."""
        runtime = _build(_RUNTIME, ".so", ["g++", *_FLAGS, "-O2", "-shared"])
        command = ["g++", *_FLAGS, *_WATCH, "-shared", "-include", _header(), "-x", "c++"]
        return _build(self._source, ".so", command, [runtime, "-lm", "-lc"])

    def _launch_sanitized(self, kernel, grid, block, arrays, values, shared_bytes, order, seed):
        command = [
            "g++",
            *_FLAGS,
            *_SANITIZE,
            "-include",
            HERE / "cuda_emulator.h",
            _build(_RUNTIME, ".o", ["g++", *_FLAGS, *_SANITIZE, "-O2", "-c"]),
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
