"""A wheel, installed into an empty virtual environment without any compiler, works.

TC_WHEEL names a wheel that is built already; without it the test builds one.
"""

import fcntl
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = ["g++", "gcc", "c++", "cc", "clang", "clang++", "ld", "as", "nvcc", "cmake", "ninja"]

PROGRAM = f"""
import shutil
for tool in {HIDDEN!r}:
    assert shutil.which(tool) is None, tool

import torch
import tensor_comprehensions as tc

T = tc.define('''
def matmul(float(M, K) A, float(K, N) B) -> (C) {{
    C(m, n) +=! A(m, k) * B(k, n)
}}
''')
A, B = torch.randn(37, 64), torch.randn(64, 50)
torch.testing.assert_close(T.matmul(A, B), A @ B, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(torch.ops.tc.matmul(A, B), A @ B, rtol=1e-4, atol=1e-4)
T = tc.ops.load("softmax")
torch.testing.assert_close(T.softmax(A), A.softmax(1), rtol=1e-5, atol=0)
tc.save("model.tc.pb", T)
assert len(tc.load("model.tc.pb")) == 1
print("from", tc.__file__)
with open("/proc/self/maps") as maps:
    print(*set(line.split()[-1] for line in maps if "libprotobuf" in line))
"""


def run(*command: object, **options) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def dynamic_entries(library: object, kind: str) -> list[str]:
    lines = [line for line in run("readelf", "-d", library).splitlines() if kind in line]
    return [line.partition("[")[2].rstrip("]") for line in lines]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    if "TC_WHEEL" in os.environ:
        return Path(os.environ["TC_WHEEL"]).resolve()
    # One for all of xdist's workers: their folders have one parent, and builds of one tree would be
    # in each other's way.
    folder = tmp_path_factory.getbasetemp().parent / f"wheel-{os.getppid()}"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
            run(*pip, "-w", folder, ROOT)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_what_it_should(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = "tensor_comprehensions"
    for name in ("__init__.py", "py.typed", "_torch.pyi", "lib/libtensor_comprehensions.so"):
        assert f"{package}/{name}" in names
    assert f"{package}/lib/libtensor_comprehensions_torch.so" in names
    for name in ("tc.h", "tc.hpp", "torch.hpp"):
        assert f"{package}/include/tc/{name}" in names
    # What caffe2-build compiles.
    for path in (ROOT / "csrc" / "caffe2").iterdir():
        assert f"{package}/src/caffe2/{path.name}" in names
    assert sum(name.startswith(f"{package}/_torch.cpython") for name in names) == 1
    shipped = {Path(name).name for name in names if name.startswith(f"{package}/ops/")}
    assert shipped - {"__init__.py"} == {path.name for path in (ROOT / "ops").glob("*.tc")}
    assert not [name for name in names if "halide" in name.lower() or "/csrc/" in name]


def test_no_path_of_the_build_machine_is_left(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        assert len(libraries) == 3
        for name in libraries:
            (paths,) = dynamic_entries(archive.extract(name, tmp_path), "PATH)")
            for path in paths.split(":"):
                assert path.startswith("$ORIGIN"), f"{name}: {path}"


def test_the_library_of_protobuf_is_in_the_wheel(wheel, tmp_path):
    """Under the name that ours asks for, in the folder where it looks, needing nothing unusual."""
    folder = "tensor_comprehensions/lib/"
    with zipfile.ZipFile(wheel) as archive:
        ours = archive.extract(f"{folder}libtensor_comprehensions.so", tmp_path)
        (needed,) = (name for name in dynamic_entries(ours, "(NEEDED)") if "protobuf" in name)
        theirs = archive.extract(folder + needed, tmp_path)
        assert sum("protobuf" in name for name in archive.namelist()) == 1
    assert "$ORIGIN" in dynamic_entries(ours, "PATH)")[0].split(":")
    assert dynamic_entries(theirs, "(SONAME)") == [needed]
    for name in dynamic_entries(theirs, "(NEEDED)"):
        assert name.startswith(("libc.", "libm.", "libstdc++.", "libgcc_s.", "libpthread.", "ld-"))


def test_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
        (notice,) = (n for n in archive.namelist() if n.endswith("/NOTICE"))
        # Licences of what is linked in ask for their words beside the binary.
        for library in ("Protocol Buffers", "isl", "GMP"):
            assert library in archive.read(notice).decode()
    release = ".".join(torch.__version__.split(".")[:2])
    assert "Name: tensor-comprehensions\n" in metadata
    assert f"Requires-Dist: torch=={release}.*\n" in metadata
    assert "Requires-Dist: halide==21.*\n" in metadata


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_works_without_a_compiler(wheel, tmp_path):
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    # torch by its exact version first: the wheel alone would accept a build for another device.
    run(python, "-m", "pip", "install", "-q", f"torch=={torch.__version__}")
    run(python, "-m", "pip", "install", "-q", wheel)
    empty = tmp_path / "empty"
    empty.mkdir()
    # -I: neither this checkout nor PYTHONPATH is looked at.
    bare = {"PATH": str(empty), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    output = run(python, "-I", "-c", PROGRAM, env=bare, cwd=empty)
    source, protobuf = output.splitlines()
    assert str(environment) in source
    assert str(environment) in protobuf, "the machine's own library was taken"
