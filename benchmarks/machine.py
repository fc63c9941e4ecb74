"""The machine that is measured on: what is made the same for all, what is written down of it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]

#: Memory is the same for all candidates. Results of ours lie in huge pages, so PyTorch's do too;
#: and glibc keeps what was freed instead of giving it back to the system, which would map, and
#: clear, the pages of large results anew at every call.
MEMORY = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}


def use_same_memory() -> None:
    """Starts this program again with the variables of `MEMORY`, which are read when it starts."""
    if any(os.environ.get(name) != value for name, value in MEMORY.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **MEMORY})


def limit_threads(environment: dict[str, str], threads: int) -> dict[str, str]:
    """The variables for a process in which every library uses that many threads.

    XLA makes its pools once a process, and inductor's code has the number in it: numbers of
    threads are compared in processes of their own.
    """
    changed = {"OMP_NUM_THREADS": str(threads), "PJRT_NPROC": str(threads)}
    if threads == 1:
        changed["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return {**environment, "JAX_PLATFORMS": "cpu", **changed}


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit() -> str:
    """The commit that is checked out, "with changes" where the tree differs from it. Of a copy that
    has no history, TC_COMMIT says so."""
    if given := os.environ.get("TC_COMMIT"):
        return given
    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def gpu_facts() -> dict[str, object]:
    """Of the current device; empty where there is none."""
    if not torch.cuda.is_available():
        return {}
    found = torch.cuda.get_device_properties()
    return {
        "gpu": found.name,
        "multiprocessors": found.multi_processor_count,
        "gpu_L2": found.L2_cache_size,
        "gpu_memory": found.total_memory,
        "cuda": torch.version.cuda,
    }


def machine_facts() -> dict[str, object]:
    def read(path: str) -> str:
        try:
            return Path(path).read_text().strip()
        except OSError:
            return "unknown"

    caches = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = read(f"{cache}/type")
        if kind != "Instruction":
            caches[f"L{read(f'{cache}/level')}"] = read(f"{cache}/size")
    cpu = {}
    for line in read("/proc/cpuinfo").splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in ("cpu family", "model", "stepping"):
            cpu.setdefault(name, value)
    return {
        "cpu": cpu_name(),
        **cpu,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "caches": caches,
        "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory": {name: os.environ.get(name, "") for name in MEMORY},
        "torch": torch.__version__,
        "python": platform.python_version(),
        **gpu_facts(),
    }
