"""The core library shows its C interface and nothing else, and needs no framework."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def library() -> Path:
    # find_spec does not import the package, so this also works where PyTorch would not load.
    spec = find_spec("tensor_comprehensions")
    assert spec and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "lib" / "libtensor_comprehensions.so"
    assert path.exists(), f"{path} is missing: build the package first"
    return path


def lines(*command: object) -> list[str]:
    run = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


def dynamic_entries(library: Path, tag: str) -> list[str]:
    entries = [line for line in lines("readelf", "-d", library) if f"({tag})" in line]
    return [entry.partition("[")[2].rstrip("]") for entry in entries]


def test_exports_the_c_interface_only(library):
    symbols = [line.split()[-1] for line in lines("nm", "-D", "--defined-only", library)]
    assert "tc_module_parse" in symbols and "tc_kernel_run" in symbols
    assert [s for s in symbols if not s.startswith("tc_")] == []


def test_every_declared_function_is_exported(library):
    header = library.parent.parent / "include" / "tc" / "tc.h"
    declared = {
        word.split("(")[0].lstrip("*")
        for line in header.read_text().splitlines()
        if line.startswith("TC_API")
        for word in line.split()
        if "(" in word and word.lstrip("*").startswith("tc_")
    }
    exported = {line.split()[-1] for line in lines("nm", "-D", "--defined-only", library)}
    assert len(declared) > 20
    assert declared - exported == set()


def test_needs_no_framework(library):
    needed = dynamic_entries(library, "NEEDED")
    assert any("Halide" in name for name in needed)
    for name in needed:
        for other in ("torch", "c10", "python", "cuda", "nvrtc", "isl", "gmp"):
            assert other not in name.lower(), f"{library.name} depends on {name}"


def test_finds_halide_beside_it(library):
    (paths,) = dynamic_entries(library, "RUNPATH") + dynamic_entries(library, "RPATH")
    assert paths.split(":")[:2] == ["$ORIGIN/../../halide/lib64", "$ORIGIN"]


def test_protobuf_is_beside_it(library):
    (name,) = (name for name in dynamic_entries(library, "NEEDED") if "protobuf" in name)
    assert "-lite" in name
    assert (library.parent / name).is_file() and not (library.parent / name).is_symlink()
