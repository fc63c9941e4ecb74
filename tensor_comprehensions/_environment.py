"""The environment variables that are read while programs run; docs/environment.md says more."""

from __future__ import annotations

#: By name, what each is for.
VARIABLES = {
    "TC_CACHE_DIR": "a folder that keeps compiled code",
    "TC_CHECK": "whether kernels look at every index that is data",
    "TC_LOGS": "what the compiler logs",
    "TC_MACHINE": "the machine that decisions are made for",
    "TC_WITHOUT": "instruction sets that code is made without",
    "TC_NVRTC_PATH": "the library that compiles CUDA C",
    "CUDA_LAUNCH_BLOCKING": "whether calls wait for the kernels of a GPU",
    "OMP_NUM_THREADS": "the threads that PyTorch begins with",
    "HOME": "what ~ is in TC_CACHE_DIR",
    "TMPDIR": "where files go that are gone again at once",
}
