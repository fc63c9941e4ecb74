"""C and C++ programs against the installed package."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import torch


def package() -> Path:
    spec = find_spec("tensor_comprehensions")
    assert spec and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def build(source: Path, target: Path) -> None:
    c = source.suffix == ".c"
    command = ["gcc", "-std=c11"] if c else ["g++", "-std=c++17"]
    command += ["-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address", str(source)]
    command += ["-I", str(package() / "include"), "-L", str(package() / "lib")]
    command += ["-ltensor_comprehensions", f"-Wl,-rpath,{package() / 'lib'}"]
    command += ["-lm", "-o", str(target)]
    subprocess.run(command, check=True)


def build_with_torch(source: Path, target: Path) -> None:
    torch_package = Path(torch.__file__).parent
    headers = torch_package / "include"
    command = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", str(source)]
    command += ["-I", str(package() / "include")]
    command += ["-isystem", str(headers), "-isystem", str(headers / "torch/csrc/api/include")]
    for folder in (package() / "lib", torch_package / "lib"):
        command += ["-L", str(folder), f"-Wl,-rpath,{folder}"]
    command += ["-ltensor_comprehensions_torch", "-Wl,--no-as-needed", "-ltorch_cpu", "-ltorch"]
    command += ["-lc10", "-o", str(target)]
    subprocess.run(command, check=True)
