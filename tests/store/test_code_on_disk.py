"""Compiled code that later processes find on disk: what is found, and what is refused."""

from __future__ import annotations

import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tensor_comprehensions as tc

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
#: For a process that begins in another directory.
PACKAGE = str(Path(tc.__file__).parents[1])
#: Several groups, temporaries, tasks.
SOFTMAX = """def softmax(float(N, D) I) -> (O) {
  top(n) max=! I(n, d)
  E(n, d) = exp(I(n, d) - top(n))
  sum(n) +=! E(n, d)
  O(n, d) = E(n, d) / sum(n)
}"""
#: Indices that are data, looked at before the run and by the loops.
GATHER = "def gather(float(V, D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }"
CHAIN = """def chain(float(B) x, int32(B) I, int32(V) J, float(W) T) -> (O) {
  O(b) = x(b) * T(J(I(b)))
}"""
LIBRARY = """def layer(float(B, N) x, float(O, N) w) -> (y) {
  y(b, o) +=! x(b, n) * w(o, n)
  y(b, o) = tanh(y(b, o))
}"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "code"
    tc.cache_dir(path)
    yield path
    tc.cache_dir(None)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tccode"))


def is_found(executor: Any) -> bool:
    return "code on disk" in executor.text("stages")


def inputs(m: int = 33, n: int = 40, k: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, k), torch.randn(n, k)


def check_tmm(*sizes: int, found: bool) -> None:
    a, b = inputs(*sizes)
    executor = tc.compile(TMM, "tmm", None, a, b)
    assert is_found(executor) == found
    torch.testing.assert_close(executor(a, b), a @ b.t(), rtol=1e-5, atol=1e-5)


# ---- what is found


CALLS = """
import json, sys, time, torch
import tensor_comprehensions as tc
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]
from machine_code import code
from test_code_on_disk import CHAIN, GATHER, LIBRARY, SOFTMAX, TMM
torch.manual_seed(0)
x, w = torch.randn(33, 20), torch.randn(40, 20)
i, j = torch.randint(0, 20, (33,), dtype=torch.int32), torch.randint(0, 9, (20,), dtype=torch.int32)
table = torch.randn(9)
calls = [
    (TMM, "tmm", (x, w)), (SOFTMAX, "softmax", (x,)), (GATHER, "gather", (x, i)),
    (CHAIN, "chain", (torch.randn(33), i, j, table)), (LIBRARY, "layer", (x, w)),
]
plain = tc.MappingOptions().matchLibraryCalls(True).libraryCalls("S0")
report = []
for text, entry, given in calls:
    executor = tc.compile(text, entry, plain if entry == "layer" else None, *given)
    total = executor(*given).double().sum().item()
    report.append(["code on disk" in executor.text("stages"), total, str(executor.options),
                   executor.loop_nest, code(executor)])
t = tc.define(GATHER)
for index in (-1, 33):
    bad = i.clone()
    bad[5] = index
    try:
        t.gather(x, bad)
    except tc.ShapeError as error:
        report.append(str(error))
print(json.dumps(report))
"""


def run_calls(folder: Path | None) -> list[Any]:
    here = str(Path(__file__).parent)
    environment = {**os.environ}
    environment.pop("TC_CACHE_DIR", None)
    if folder is not None:
        environment["TC_CACHE_DIR"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", CALLS, here], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    report: list[Any] = json.loads(done.stdout)
    return report


def test_another_process_finds_what_one_has_compiled(tmp_path: Path) -> None:
    """Products, chains, checks of indices, library calls: the same results, texts and errors."""
    folder = tmp_path / "code"
    plain, first, second = run_calls(None), run_calls(folder), run_calls(folder)
    assert [row[0] for row in plain[:5]] == [row[0] for row in first[:5]] == [False] * 5
    assert [row[0] for row in second[:5]] == [True] * 5
    for row, again, found in zip(plain[:5], first[:5], second[:5], strict=True):
        assert row[1:] == again[1:] == found[1:]
    assert len(plain) == 7
    assert plain[5:] == first[5:] == second[5:]
    assert len(files(folder)) >= 5
    assert folder.stat().st_mode & 0o777 == 0o700


def test_texts_sizes_options_and_machines_are_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_tmm(found=False)
    tc.clear_cache()
    check_tmm(found=True)
    check_tmm(34, found=False)
    a, b = inputs()
    assert not is_found(tc.compile(TMM, "tmm", "naive", a, b))
    assert not is_found(tc.compile(TMM, "tmm", None, a.t().contiguous().t(), b))
    monkeypatch.setenv("TC_MACHINE", "cache_bytes=100000")
    check_tmm(found=False)
    monkeypatch.delenv("TC_MACHINE")
    scaled = "def f(float(N) x) -> (y) { y(i) = x(i) * %s }"
    x = torch.ones(5)
    for ulps in (1, 2):  # which six digits do not tell apart
        factor = 1 + ulps * 2.0**-23
        executor = tc.compile(scaled % f"{factor:.20f}", "f", None, x)
        assert not is_found(executor)
        assert executor(x)[0].item() == factor


def test_what_is_found_says_so(folder: Path) -> None:
    check_tmm(found=False)
    tc.clear_cache()
    executor = tc.compile(TMM, "tmm", None, *inputs())
    assert f"found in {folder}" in executor.explain()
    tc.cache_dir(None)
    tc.clear_cache()
    assert executor.loop_nest == tc.compile(TMM, "tmm", None, *inputs()).loop_nest


def test_what_nvrtc_made_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its text, architecture and compiler, of which the process need not open one then."""

    def compile_for(arch: str, *sizes: int) -> dict[str, Any]:
        tc.clear_cache()  # which keeps what is in use
        executor = tc.compile(TMM, "tmm", None, *inputs(*sizes), target=f"cuda:{arch}")
        texts = {name: executor.text(name) for name in ("cuda_source", "build_log", "loop_nest")}
        numbers = {name: executor.number(name) for name in ("registers", "shared_bytes")}
        return {"found": is_found(executor), "cubin": executor.binary, **texts, **numbers}

    first = compile_for("sm_90")
    assert not first["found"]
    assert first["cubin"] != b""
    assert len(files(folder)) == 1
    second = compile_for("sm_90")
    assert second == {**first, "found": True}
    assert not compile_for("sm_80")["found"]
    assert not compile_for("sm_90", 35)["found"]
    assert len(files(folder)) == 3
    # Another compiler makes other code: it is looked for, and is none.
    monkeypatch.setenv("TC_NVRTC_PATH", str(folder))
    assert not compile_for("sm_90")["found"]
    assert len(files(folder)) == 4
    monkeypatch.delenv("TC_NVRTC_PATH")
    for path in files(folder):
        path.write_bytes(path.read_bytes()[:-1])
    again = compile_for("sm_90")
    assert not again["found"]
    assert again["cubin"] == first["cubin"]
    assert compile_for("sm_90") == {**again, "found": True}


@pytest.mark.slow
def test_fifty_definitions_in_a_second(tmp_path: Path) -> None:
    """As the time of all calls after imports, on a machine that may be busy: processor time."""
    script = (
        "import sys, time, torch\n"
        "import tensor_comprehensions as tc\n"
        "x = torch.randn(40, 50)\n"
        "tc.define('def warm(float(N) x) -> (y) { y(i) = x(i) }').warm(torch.ones(3))\n"
        "text = sys.argv[1]\n"
        "begin = time.process_time()\n"
        "for k in range(50):\n"
        "    t = tc.define(text.replace('softmax', f's{k}'))\n"
        "    t(f's{k}', x)\n"
        "print(time.process_time() - begin)\n"
    )
    seconds = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script, SOFTMAX],
            capture_output=True,
            text=True,
            env={**os.environ, "TC_CACHE_DIR": str(tmp_path / "code")},
        )
        assert done.returncode == 0, done.stderr
        seconds.append(float(done.stdout))
    assert seconds[1] < 1, seconds
    assert seconds[1] < seconds[0] / 3, seconds


def test_nothing_is_kept_without_a_folder(tmp_path: Path) -> None:
    tc.cache_dir(tmp_path / "code")
    tc.cache_dir(None)
    check_tmm(found=False)
    tc.clear_cache()
    check_tmm(found=False)
    assert files(tmp_path / "code") == []


# ---- what is refused


def test_damaged_files_are_replaced(folder: Path) -> None:
    check_tmm(found=False)
    (file,) = files(folder)
    good = file.read_bytes()
    r = random.Random(0)
    for kind in range(12):
        bad = bytearray(good)
        if kind % 3 == 0:
            bad[r.randrange(len(bad))] ^= 1 << r.randrange(8)
        elif kind % 3 == 1:
            bad = bad[: r.randrange(len(bad))]
        else:
            bad += b"\0" * r.randrange(1, 9)
        file.write_bytes(bytes(bad))
        tc.clear_cache()
        check_tmm(found=False)
        tc.clear_cache()
        check_tmm(found=True)
    assert files(folder) == [file]


def test_files_that_others_may_have_written_are_not_run(folder: Path) -> None:
    check_tmm(found=False)
    (file,) = files(folder)
    file.chmod(0o666)
    tc.clear_cache()
    check_tmm(found=False)
    assert file.stat().st_mode & 0o777 == 0o600  # ours took its place
    kept = file.read_bytes()
    elsewhere = folder.parent / "elsewhere"
    elsewhere.write_bytes(kept)
    file.unlink()
    file.symlink_to(elsewhere)
    tc.clear_cache()
    check_tmm(found=False)
    assert not file.is_symlink()
    if os.getuid() == 0:
        os.chown(file, 65534, 65534)
        tc.clear_cache()
        check_tmm(found=False)
        assert file.stat().st_uid == 0


def test_folders_that_others_may_write_to_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o777)
    with pytest.raises(tc.CacheError, match=r"others may write \(mode 0777\); chmod 700"):
        tc.cache_dir(path)
    if os.getuid() == 0:
        path.chmod(0o700)
        os.chown(path, 65534, 65534)
        with pytest.raises(tc.CacheError, match="belongs to user 65534 and not to user 0"):
            tc.cache_dir(path)
    (tmp_path / "file").touch()
    with pytest.raises(tc.CacheError, match=r"cannot keep compiled code in '.*file': Not a dir"):
        tc.cache_dir(tmp_path / "file")
    with pytest.raises(tc.TCError, match="bytes=-1 is negative"):
        tc.cache_dir(tmp_path / "code", bytes=-1)
    with pytest.raises(tc.TCError, match=r"bytes=1000000000\.0 is no integer"):
        tc.cache_dir(tmp_path / "code", bytes=1e9)  # type: ignore[arg-type]
    with pytest.raises(tc.TCError, match="the path is empty"):
        tc.cache_dir("")


def test_a_folder_that_becomes_shared_is_refused_by_the_next_call(folder: Path) -> None:
    check_tmm(found=False)
    folder.chmod(0o722)
    with pytest.raises(tc.CacheError, match="others may write"):
        check_tmm(50, found=False)
    folder.chmod(0o700)
    check_tmm(50, found=False)


@pytest.mark.parametrize("given", ["kept/here", "~/kept/here"])
def test_a_variable_with_a_relative_path_or_the_home(tmp_path: Path, given: str) -> None:
    """It is one folder for the whole process, wherever that goes."""
    script = (
        "import os, torch, tensor_comprehensions as tc\n"
        "t = tc.define('def f(float(N) x) -> (y) { y(i) = x(i) }')\n"
        "t.f(torch.ones(3))\n"
        "os.chdir('elsewhere')\n"
        "t.f(torch.ones(4))\n"
    )
    home, working = tmp_path / "home", tmp_path / "working"
    (working / "elsewhere").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=working,
        env={**os.environ, "TC_CACHE_DIR": given, "HOME": str(home), "PYTHONPATH": PACKAGE},
    )
    assert done.returncode == 0, done.stderr
    assert len(files((home if given[0] == "~" else working) / "kept" / "here")) == 2
    assert os.listdir(working / "elsewhere") == []


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    tc.cache_dir("kept")
    try:
        monkeypatch.chdir("elsewhere")
        check_tmm(found=False)
        assert len(files(tmp_path / "kept")) == 1 and os.listdir(".") == []
    finally:
        tc.cache_dir(None)


def run_with(path: str | bytes, *, home: str | None, script: str = "") -> Any:
    environment = {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items() if k != "HOME"}
    environment[b"TC_CACHE_DIR"] = os.fsencode(path)
    if home is not None:
        environment[b"HOME"] = os.fsencode(home)
    script = (
        "import torch, tensor_comprehensions as tc\n"
        "t = tc.define('def f(float(N) x) -> (y) { y(i) = x(i) }')\n"
    ) + (script or "t.f(torch.ones(3))\n")
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )


def test_the_home_without_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the system's list of users; a folder named ~ was made where the process was."""
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    if home.is_relative_to("/proc") or not os.access(home, os.W_OK):
        pytest.skip(f"the home {home} is none to write to")
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    monkeypatch.chdir(tmp_path)
    for given in (None, ""):
        kept = Path(tempfile.mkdtemp(prefix=".tc_test_home_", dir=home))
        try:
            done = run_with(f"~/{kept.name}", home=given)
            assert done.returncode == 0, done.stderr
            assert len(files(kept)) == 1
        finally:
            shutil.rmtree(kept)
    assert os.listdir() == []


def test_the_home_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    monkeypatch.chdir(tmp_path)
    done = run_with("~nobody/kept", home=str(tmp_path))
    assert done.returncode == 1
    assert "'~nobody/kept': ~nobody would be another user's home" in done.stderr
    assert os.listdir() == []


def test_a_path_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    script = "print(t.f.compile(torch.ones(3)).explain())"
    for _ in range(2):
        done = run_with(path, home=None, script=script)
        assert done.returncode == 0, done.stderr
    assert r"/caf\xe9; the stages" in done.stdout
    os.chmod(path, 0o777)
    done = run_with(path, home=None)
    assert done.returncode == 1
    assert "CacheError: compiled code is not taken from" in done.stderr
    assert r"/caf\xe9', to which others may write" in done.stderr


def test_a_variable_that_names_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = (
        "import torch, tensor_comprehensions as tc\n"
        "tc.define('def f(float(N) x) -> (y) { y(i) = x(i) }').f(torch.ones(3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "TC_CACHE_DIR": str(tmp_path / "file")},
    )
    assert done.returncode == 1
    assert "CacheError: cannot keep compiled code in" in done.stderr
    assert "TC_CACHE_DIR and cache_dir take a folder" in done.stderr


# ---- limits, writers


def test_the_least_recently_used_goes(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    tc.cache_dir(folder)
    try:
        check_tmm(found=False)
        size = files(folder)[0].stat().st_size
        (first,) = files(folder)
        (folder / "notes.txt").write_text("not ours")
        tc.cache_dir(folder, bytes=6 * size)
        for m in range(50, 62):
            check_tmm(m, found=False)
            os.utime(first)  # as if it were used
            assert sum(file.stat().st_size for file in files(folder)) <= 6.5 * size
        tc.clear_cache()
        check_tmm(found=True)
        check_tmm(61, found=True)
        check_tmm(50, found=False)
        assert (folder / "notes.txt").read_text() == "not ours"
    finally:
        tc.cache_dir(None)


def test_a_full_disk_costs_only_what_would_be_kept(tmp_path: Path) -> None:
    script = (
        "import logging, resource, signal, sys, torch\n"
        "import tensor_comprehensions as tc\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"
        "t = tc.define(sys.argv[1])\n"
        "a, b = torch.randn(33, 20), torch.randn(40, 20)\n"
        "torch.testing.assert_close(t.tmm(a, b), a @ b.t(), rtol=1e-5, atol=1e-5)\n"
        "torch.testing.assert_close(t.tmm(a[:5], b), a[:5] @ b.t(), rtol=1e-5, atol=1e-5)\n"
    )
    folder = tmp_path / "code"
    done = subprocess.run(
        [sys.executable, "-c", script, TMM],
        capture_output=True,
        text=True,
        env={**os.environ, "TC_CACHE_DIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"compiled code is not kept in '{folder}': File too large") == 1
    assert list(folder.iterdir()) == []


WRITER = """
import sys, threading, torch
import tensor_comprehensions as tc
text, number = sys.argv[1], int(sys.argv[2])
def work(thread):
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    for k in range(3):
        a = torch.randn(8 + (thread + number * 2 + k) % 12, 16)
        torch.testing.assert_close(tc.compile(text, "tmm", None, a, w)(a, w), a @ w.t(),
                                   rtol=1e-4, atol=1e-4)
threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("right")
"""


def writers(folder: Path, count: int) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, TMM, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TC_CACHE_DIR": str(folder)},
        )
        for number in range(count)
    ]


def test_four_processes_of_eight_threads(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    for process in writers(folder, 4):
        out, err = process.communicate(timeout=300)
        assert out == "right\n", err
    assert len(files(folder)) == len(list(folder.iterdir())) >= 12


@pytest.mark.slow
def test_killed_while_writing(tmp_path: Path) -> None:
    """What others find is whole."""
    folder = tmp_path / "code"
    r = random.Random(0)
    for _ in range(6):
        for process in writers(folder, 2):
            time.sleep(2.5 + r.random())
            process.send_signal(signal.SIGKILL)
            process.communicate()
    (last,) = writers(folder, 1)
    out, err = last.communicate(timeout=300)
    assert out == "right\n", err
    assert "damaged" not in err
    # What they left is removed when nobody can be writing it any more.
    for file in folder.glob("*.unfinished"):
        os.utime(file, (0, 0))
    (folder / "0.tccode.1.1.unfinished").touch()
    os.utime(folder / "0.tccode.1.1.unfinished", (0, 0))
    tc.cache_dir(folder)
    try:
        check_tmm(200, found=False)
    finally:
        tc.cache_dir(None)
    assert list(folder.glob("*.unfinished")) == []


def test_a_folder_with_a_slash_behind_it(tmp_path: Path) -> None:
    """It is made for its owner alone as well, so that it may be read the next time."""
    path = tmp_path / "above" / "code"
    program = "import tensor_comprehensions as tc, torch; x = torch.ones(3)\n" + (
        "tc.compile('def f(float(N) A) -> (O) { O(i) = A(i) }', 'f', None, x)(x)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TC_CACHE_DIR": f"{path}/"},
        capture_output=True,
        text=True,
        check=False,
        umask=0o002,
    )
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o700
    assert files(path)
