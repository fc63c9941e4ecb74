"""The environment variables that are read while programs run; docs/environment.md says more."""

from __future__ import annotations

#: By name, what each is for.
VARIABLES = {
    "TC_CHECK": "kernels that look at every index that is data",
    "TC_LOGS": "what the compiler logs",
    "TC_MACHINE": "the machine that decisions are made for",
    "TC_NVRTC_PATH": "the library that compiles CUDA C",
    "OMP_NUM_THREADS": "the threads that PyTorch begins with",
    "TMPDIR": "where files go that are gone again at once",
}
