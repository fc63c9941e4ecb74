"""`python -m tensor_comprehensions caffe2-build` where something is in the way.

That it builds, and what it builds, is tested beside a Caffe2 (make test-caffe2).
"""

from __future__ import annotations

import json
import stat
import sys
import textwrap
from pathlib import Path

import pytest

from tensor_comprehensions import _caffe2_build, _caffe2_environment
from tensor_comprehensions.__main__ import main
from tensor_comprehensions._caffe2_environment import PINS, Caffe2, Caffe2Error, candidates


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def python_that_reports(path: Path, **report: object) -> str:
    """An interpreter whose Caffe2 is as a report says."""
    return str(script(path, f"print({json.dumps({'version': '3.9', **report})!r})"))


def failure(capfd: pytest.CaptureFixture[str], *arguments: object, status: int = 1) -> str:
    assert main(["caffe2-build", *map(str, arguments)]) == status
    said = capfd.readouterr()
    assert said.out == ""
    return said.err


def test_no_such_python(tmp_path, capfd):
    said = failure(capfd, "--python", tmp_path / "nowhere")
    assert "nowhere does not run as a Python" in said


def test_python_without_torch(tmp_path, capfd):
    """As it is: no report is made up."""
    empty = tmp_path / "empty"
    _caffe2_environment._run([sys.executable, "-m", "venv", "--without-pip", str(empty)], "venv")
    said = failure(capfd, "--python", empty / "bin" / "python")
    assert "cannot import Caffe2" in said and "No module named 'torch'" in said
    assert f"=> pip install {PINS[0]}" in said
    assert "--environment FOLDER makes an environment" in said


def test_torch_of_today(capfd):
    said = failure(capfd, "--python", sys.executable)
    assert "Caffe2 is expected as torch 1.10 has it, the last release whose Caffe2 works" in said


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("ModuleNotFoundError: No module named 'future'", "pip install future==1.0.0"),
        ("ModuleNotFoundError: No module named 'past'", "pip install future==1.0.0"),
        ("ModuleNotFoundError: No module named 'six'", "pip install six==1.17.0"),
        ("ModuleNotFoundError: No module named 'google'", "protobuf==3.20.3"),
        ("TypeError: Descriptors cannot be created directly.", "pip install protobuf==3.20.3"),
        ("AttributeError: module 'numpy' has no attribute 'bool'", "pip install numpy==1.23.5"),
        ("A module that was compiled using NumPy 1.x cannot", "pip install numpy==1.23.5"),
        ("version `GLIBCXX_3.4.30' not found (required by", "older than the compiler's"),
        (
            "libtensor_comprehensions.so: cannot open shared object file",
            "run caffe2-build again",
        ),
    ],
)
def test_pitfalls_are_named(error, advice, tmp_path, capfd):
    python = python_that_reports(
        tmp_path / "python", torch="1.10.2", folder="/nowhere", new_abi=False, error=error
    )
    said = failure(capfd, "--python", python)
    assert error in said and "=> " in said and advice in said.split("=> ")[1]


def test_torch_without_headers(tmp_path, capfd):
    python = python_that_reports(
        tmp_path / "python", torch="1.10.2", folder=str(tmp_path), new_abi=False
    )
    assert f"{tmp_path} has no headers of Caffe2" in failure(capfd, "--python", python)


def test_no_python_has_caffe2(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert candidates() == []
    said = failure(capfd)
    assert "no Python with Caffe2 was found" in said and "--environment FOLDER" in said
    python_that_reports(tmp_path / "bin" / "python3.9", torch="1.13.0", folder="", new_abi=False)
    said = failure(capfd)
    assert "bin/python3.9 has torch 1.13.0" in said


def test_pythons_of_pyenv_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = script(tmp_path / ".pyenv/versions/3.9.18/bin/python3.9", "")
    script(tmp_path / ".pyenv/versions/3.10.1/bin/python3.10", "")
    assert candidates() == [str(found)]


def test_no_python_to_make_an_environment_with(tmp_path, capfd, monkeypatch):
    """Where uv cannot fetch one either: with a status of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    script(
        tmp_path / "bin" / "uv",
        "import sys; sys.exit('error: no download') if 'venv' in sys.argv else sys.exit(1)",
    )
    said = failure(capfd, "--environment", tmp_path / "made", status=3)
    assert "Caffe2 needs Python 3.9, and there is none" in said
    assert "error: no download" in said and "--base" in said
    assert not (tmp_path / "made").exists()


def test_base_of_another_version(tmp_path, capfd):
    other = script(tmp_path / "python3.8", "import sys; sys.exit(1)")
    said = failure(capfd, "--environment", tmp_path / "made", "--base", other, status=3)
    assert f"{other} is not Python 3.9, or has no ensurepip" in said


def test_folder_of_somebody_else_is_left_alone(tmp_path, capfd):
    (tmp_path / "letter.txt").write_text("dear")
    said = failure(capfd, "--environment", tmp_path)
    assert "is not empty, and caffe2-build has not made it" in said
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_environment_that_was_left_unfinished(tmp_path, capfd):
    """Is made anew: here by a Python whose environments have a pip that fails."""
    folder = tmp_path / "made"
    (folder / "bin").mkdir(parents=True)
    (folder / "caffe2-pins.txt").write_text("unfinished\n")
    program = """
        import sys, pathlib
        if sys.argv[1:3] == ["-m", "venv"]:
            bin = pathlib.Path(sys.argv[3]) / "bin"
            bin.mkdir(parents=True)
            (bin / "python").write_text("#!/bin/sh\\necho no network; exit 1\\n")
            (bin / "python").chmod(0o755)
    """
    base = script(tmp_path / "python3.9", textwrap.dedent(program))
    for _ in range(2):
        said = failure(capfd, "--environment", folder, "--base", base, status=3)
        assert f"making {folder}" in said and "pip failed:\nno network" in said


def a_caffe2(tmp_path: Path, python: str = sys.executable) -> Caffe2:
    return Caffe2(python, "1.10.2", tmp_path / "torch", False)


def test_headers_that_cannot_be_fetched(tmp_path):
    python = script(tmp_path / "python", "import sys; sys.exit('no network')")
    with pytest.raises(Caffe2Error, match=r"could not download grpcio-tools.*\n.*no network"):
        _caffe2_build.build(a_caffe2(tmp_path, str(python)), tmp_path / "out")


def headers(folder: Path, version: str) -> None:
    port = folder / "protobuf" / "google" / "protobuf" / "port_def.inc"
    port.parent.mkdir(parents=True)
    port.write_text(f"#define PROTOBUF_VERSION {version}\n")


def test_headers_of_another_release(tmp_path):
    headers(tmp_path / "out", "3021012")
    with pytest.raises(Caffe2Error, match=r"is not protobuf 3013000.*remove it"):
        _caffe2_build.build(a_caffe2(tmp_path), tmp_path / "out")


def test_what_the_compiler_says(tmp_path):
    """And nothing is left that would be taken for a library."""
    headers(tmp_path / "out", "3013000")
    with pytest.raises(Caffe2Error, match=r"(?s)compiling .* failed:.*error"):
        _caffe2_build.build(a_caffe2(tmp_path), tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.so"))


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Caffe2Error, match=r"no-such-compiler was not found.*CXX"):
        _caffe2_build.build(a_caffe2(tmp_path), tmp_path / "out")


def test_an_empty_variable_names_no_compiler(monkeypatch):
    for given in ("", "  "):
        monkeypatch.setenv("CXX", given)
        assert _caffe2_build._compiler()[-1] == "g++"


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", "1000000"])
def test_a_number_of_compilers_that_is_none(given, tmp_path, monkeypatch):
    headers(tmp_path / "out", "3013000")
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", given)
    with pytest.raises(Caffe2Error, match=f"CMAKE_BUILD_PARALLEL_LEVEL is '{given}', but has to"):
        _caffe2_build.build(a_caffe2(tmp_path), tmp_path / "out")


def test_texts_are_those_of_the_library():
    """As a raw string, which nothing in them ends."""
    from tensor_comprehensions import ops

    text = _caffe2_build.ops_texts()
    for name in ops.names():
        assert f'"{name}") return R"TC({ops.source(name)})TC"' in text
        assert ')TC"' not in ops.source(name)
