"""Builds the library of operators that a Caffe2 loads (csrc/caffe2).

It has to be compiled where Caffe2 is: with its headers, its C++ ABI, and the release of protobuf
that its headers ask for. The core is linked as it stands, through its C interface.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tensor_comprehensions._caffe2_environment import Caffe2, Caffe2Error, explain
from tensor_comprehensions.ops import names, source

LIBRARY = "libtensor_comprehensions_caffe2.so"

#: A source package that holds protobuf 3.13, whose headers those of Caffe2 want and no wheel or
#: Debian has.
PROTOBUF_PACKAGE = "grpcio-tools==1.34.0"
PROTOBUF_FOLDER = "third_party/protobuf/src"
PROTOBUF_VERSION = "3013000"
#: What of protobuf's library is needed to write arguments of operators.
PROTOBUF_SOURCES = ("arena", "repeated_field", "stubs/common")

FLAGS = (
    *("-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fopenmp", "-Wall", "-Wextra"),
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden", "-Wno-unused-parameter"),
    *("-ffunction-sections", "-fdata-sections"),  # the linker drops those that nobody needs
)


def sources() -> tuple[Path, Path]:
    """The folders that `caffe2/operator.cpp` and `tc/tc.h` are in."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "csrc"
    if (checkout / "caffe2").exists():
        return checkout, checkout / "include"
    return package / "src", package / "include"


def core_folder() -> Path:
    return Path(__file__).resolve().parent / "lib"


def ops_texts() -> str:
    """C++ that holds the texts of ops/."""
    cases = "".join(
        f'  if (file == "{name}") return R"TC({source(name)})TC";\n' for name in names()
    )
    return (
        '#include "caffe2/library.h"\n\n'
        "namespace tc_caffe2 {\n\n"
        f"const char* ops_text(const std::string& file) {{\n{cases}  return nullptr;\n}}\n\n"
        "}  // namespace tc_caffe2\n"
    )


def protobuf_headers(python: str, folder: Path) -> Path:
    """The folder with protobuf's headers and sources, which are fetched where they are missing."""
    headers = folder / "protobuf"
    port = headers / "google" / "protobuf" / "port_def.inc"
    if not port.exists():
        print(f"fetching protobuf's headers with {PROTOBUF_PACKAGE}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            # Its setup.py asks for nothing that a fresh environment lacks, and an isolated one
            # would be made for nothing.
            command = [python, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
            command += ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
            done = subprocess.run(
                [*command, "-d", temporary, PROTOBUF_PACKAGE],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            archives = list(Path(temporary).glob("*.tar.gz"))
            if done.returncode or len(archives) != 1:
                raise Caffe2Error(
                    f"pip could not download {PROTOBUF_PACKAGE}, whose source has the headers of "
                    f"protobuf 3.13 that Caffe2 is built with:\n{done.stdout.strip()[-4000:]}"
                )
            unpacked = Path(temporary) / "unpacked"
            with tarfile.open(archives[0]) as archive:
                root = archives[0].name.removesuffix(".tar.gz")
                wanted = f"{root}/{PROTOBUF_FOLDER}/google/"
                members = [m for m in archive.getmembers() if m.name.startswith(wanted)]
                archive.extractall(unpacked, members, filter="data")
            shutil.rmtree(headers, ignore_errors=True)
            (unpacked / root / PROTOBUF_FOLDER).rename(headers)
    if f"PROTOBUF_VERSION {PROTOBUF_VERSION}" not in port.read_text():
        raise Caffe2Error(
            f"{headers} is not protobuf {PROTOBUF_VERSION}, which Caffe2's headers ask for: "
            "remove it and run caffe2-build again"
        )
    return headers


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    if not shutil.which(command[0]):
        raise Caffe2Error(
            f"the C++ compiler {command[0]} was not found: install g++, or name one by CXX"
        )
    launcher = shutil.which("ccache")
    return [launcher, *command] if launcher else command


def _job_count() -> int:
    given = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "").strip()
    if not given:
        return os.cpu_count() or 1
    # More than any machine runs at once would be as many threads.
    if not given.isdecimal() or not 1 <= int(given) <= 1024:
        raise Caffe2Error(
            f"CMAKE_BUILD_PARALLEL_LEVEL is {given!r}, but has to be a number of compilers that "
            "run at once, from 1 to 1024; unset it for one a core"
        )
    return int(given)


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Caffe2Error(f"{what} failed:\n{done.stdout.strip()[-4000:]}{explain(done.stdout)}")


def _compile(caffe2: Caffe2, headers: Path, objects: Path) -> list[Path]:
    code, include = sources()
    texts = objects / "ops_texts.cpp"
    texts.write_text(ops_texts())
    command = [*_compiler(), *FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(caffe2.new_abi)}"]
    command += [f"-I{code}", f"-I{include}", "-isystem", str(headers)]
    command += ["-isystem", str(caffe2.folder / "include")]
    quiet = ["-w", "-DHAVE_PTHREAD"]
    jobs: dict[Path, list[str]] = {
        objects / f"protobuf_{Path(name).name}.o": [
            *quiet,
            str(headers / "google" / "protobuf" / f"{name}.cc"),
        ]
        for name in PROTOBUF_SOURCES
    }
    for path in [*sorted((code / "caffe2").glob("*.cpp")), texts]:
        jobs[objects / f"{path.stem}.o"] = [str(path)]

    def work(job: tuple[Path, list[str]]) -> None:
        made, given = job
        _run([*command, "-c", *given, "-o", str(made)], f"compiling {given[-1]}")

    with ThreadPoolExecutor(_job_count()) as pool:
        list(pool.map(work, jobs.items()))
    return list(jobs)


def _link(caffe2: Caffe2, objects: list[Path], library: Path) -> None:
    theirs, ours = caffe2.folder / "lib", core_folder()
    command = [*_compiler(), "-shared", *map(str, objects), "-o", str(library)]
    # Nothing is exported or left open: a second protobuf or OpenMP must not meet Caffe2's.
    command += ["-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs"]
    command += [f"-L{theirs}", "-ltorch_cpu", "-lc10", *map(str, theirs.glob("libgomp*.so*"))]
    command += [f"-L{ours}", "-ltensor_comprehensions", f"-Wl,-rpath,{theirs}:{ours}", "-ldl"]
    _run(command, "linking")


_TRY = """
import sys
import numpy
from caffe2.python import core, dyndep, workspace
dyndep.InitOpsLibrary(sys.argv[1])
x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
workspace.FeedBlob("x", x)
text = "def f(float(M, N) x) -> (y) { y(m, n) = 2 * x(m, n) }"
workspace.RunOperatorOnce(core.CreateOperator("TcOp", ["x"], ["y"], tcDef=text))
assert (workspace.FetchBlob("y") == 2 * x).all()
"""


def _try(caffe2: Caffe2, library: Path) -> None:
    command = [caffe2.python, "-W", "ignore", "-c", _TRY, str(library)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Caffe2Error(
            f"{library} was built, but does not work in {caffe2.python} (exit status "
            f"{done.returncode}):\n{done.stdout.strip()[-4000:]}{explain(done.stdout)}"
        )


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "tensor_comprehensions" / "caffe2"


def build(caffe2: Caffe2, folder: Path | None = None) -> Path:
    """The library for a Caffe2, below `folder`; it is built where something of it changed.

    Caffe2Error with what the compiler, the linker or Caffe2 says.
    """
    folder = (folder or default_folder()).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    code, include = sources()
    read = sorted([*(code / "caffe2").glob("*.*"), *include.rglob("*.h*")])
    state = [path.read_text() for path in read] + [ops_texts(), *FLAGS, *_compiler()]
    state += [caffe2.torch, str(caffe2.folder), str(core_folder()), str(caffe2.new_abi)]
    library = folder / _digest(state)[:16] / LIBRARY
    if not library.exists():
        headers = protobuf_headers(caffe2.python, folder)
        print(f"building {LIBRARY} for torch {caffe2.torch}", file=sys.stderr)
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as objects:
            made = Path(objects) / LIBRARY
            _link(caffe2, _compile(caffe2, headers, Path(objects)), made)
            _try(caffe2, made)
            made.replace(library)
    return library
