"""Importing this module makes the process ready for the binding: libHalide.so is loaded, and the
release of PyTorch is checked."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from pathlib import Path

import torch

# The binding holds this text with the release of PyTorch that it was compiled against.
_MARKER = re.compile(rb"tensor_comprehensions built with torch (\d+)\.(\d+)")


def load_halide() -> None:
    """Loads libHalide.so from the installed package ``halide``.

    A wheel finds it by a path relative to its own; a source tree does not lie beside the package.
    The dynamic linker takes a library that is loaded already for one of the same name.
    """
    spec = importlib.util.find_spec("halide")
    for directory in (spec and spec.submodule_search_locations) or ():
        library = Path(directory) / "lib64" / "libHalide.so"
        if library.exists():
            ctypes.CDLL(str(library))
            return
    raise ImportError(
        "tensor_comprehensions generates code with Halide, and the Python package halide with "
        'libHalide.so is not installed; run: pip install "halide==21.*"'
    )


def check_torch(binding: Path | None = None, version: str = torch.__version__) -> None:
    """ImportError where the binding was compiled against another minor release of PyTorch.

    It is read from the file: loading the library first could fail with a missing symbol, or worse,
    succeed.
    """
    if binding is None:
        spec = importlib.util.find_spec("tensor_comprehensions._torch")
        if spec is None or spec.origin is None:
            raise ImportError(
                "the compiled part of tensor_comprehensions is missing; in a source tree run: "
                "pip install --no-build-isolation -e ."
            )
        binding = Path(spec.origin)
    built = _MARKER.search(binding.read_bytes())
    release = re.match(r"(\d+)\.(\d+)", version)
    if built is None or release is None:
        return
    wanted, found = b".".join(built.groups()).decode(), ".".join(release.groups())
    if wanted != found:
        raise ImportError(
            f"tensor_comprehensions was built with torch {wanted}, but torch {version} is "
            f"installed. PyTorch's C++ interface changes between minor releases: install "
            f'"torch=={wanted}.*", or build tensor_comprehensions again with this one'
        )


load_halide()
check_torch()
