"""Builds the core library and the PyTorch binding with CMake; all else is in pyproject.toml.

Environment: TC_BUILD_DIR is CMake's directory (kept, so that a second build is quick),
CMAKE_BUILD_PARALLEL_LEVEL the number of compilers at once, CMAKE_ARGS more arguments for CMake.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = "tensor_comprehensions"


def torch_requirement() -> str:
    """libtorch keeps its C++ interface within a minor release only."""
    try:
        major, minor = version("torch").split(".")[:2]
    except PackageNotFoundError:
        return "torch>=2.13"
    return f"torch=={major}.{minor}.*"


class CMakeBuild(build_ext):
    """Everything compiled goes where CMake's install rules put it, beside the Python files."""

    def run(self) -> None:
        # An editable install runs from the source tree, and finds ops/ there.
        in_place = bool(self.inplace) or getattr(self, "editable_mode", False)
        package = ROOT / PACKAGE if in_place else Path(self.build_lib).resolve() / PACKAGE
        default = ROOT / "build" / f"cmake-{sysconfig.get_config_var('SOABI')}"
        build = Path(os.environ.get("TC_BUILD_DIR", default)).resolve()
        configure = ["cmake", "-S", str(ROOT / "csrc"), "-B", str(build)]
        configure += [f"-DPython3_EXECUTABLE={sys.executable}"]
        # In a wheel the libraries find halide and torch beside the package. The source tree is not
        # beside them, so there the full paths are needed too.
        configure += [f"-DCMAKE_INSTALL_RPATH_USE_LINK_PATH={'ON' if in_place else 'OFF'}"]
        if not (build / "CMakeCache.txt").exists():
            configure += ["-G", "Ninja"] if shutil.which("ninja") else []
            if shutil.which("ccache"):
                configure += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        configure += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(build), "--parallel", jobs], check=True)
        subprocess.run(["cmake", "--install", str(build), "--prefix", str(package)], check=True)
        if not in_place:
            shutil.copytree(ROOT / "ops", package / "ops", dirs_exist_ok=True)

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


setup(
    ext_modules=[Extension(f"{PACKAGE}._torch", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    install_requires=[torch_requirement(), "halide==21.*", "numpy", "opt_einsum"],
)
