"""The commands `cache` and `tune`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions.__main__ import main
from tensor_comprehensions._commands import make_inputs, parse_sizes

TEXT = """def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }
def relu(float(M,N) A) -> (B) { B(m,n) = fmax(A(m,n), 0) }
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "layers.tc").write_text(TEXT)
    arguments = ["tune", str(folder / "layers.tc"), "--shapes", "M=17,N=20,K=12"]
    arguments += ["--shapes", "M=9,N=20,K=12", "--candidates", "4"]
    arguments += ["--log", str(folder / "log.jsonl")]
    assert main(arguments) == 0
    return folder


def test_tune(tuned: Path) -> None:
    tunings = _torch.Store.read(str(tuned / "layers.tc.pb"), False).tunings()
    assert [tuning.arguments for tuning in tunings] == [
        "(17, 12), (20, 12) -> (17, 20)",
        "(9, 12), (20, 12) -> (9, 20)",
        "(17, 20) -> (17, 20)",
        "(9, 20) -> (9, 20)",
    ]
    assert all(tuning.plans for tuning in tunings)
    rows = [json.loads(line) for line in (tuned / "log.jsonl").read_text().splitlines()]
    assert {row["definition"] for row in rows} == {"tmm", "relu"}
    t = tc.define(TEXT, cache=tuned / "layers.tc.pb")
    a, b = torch.randn(17, 12), torch.randn(20, 12)
    assert "tuned" in t.tmm.compile(a, b).explain()
    _torch.forget_tunings()


def test_cache_ls_and_show(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tuned / "layers.tc.pb")
    assert main(["cache", "ls", file]) == 0
    out = capsys.readouterr().out
    assert "0 definitions, 4 tuned" in out
    assert "tmm (17, 12), (20, 12) -> (17, 20) on cpu" in out
    assert " of the compiler's own)" in out
    assert main(["cache", "show", file]) == 0
    out = capsys.readouterr().out
    assert "def tmm(" in out and "vector_bits=" in out
    assert 'tc.MappingOptions("default")' in out


def test_cache_merge_and_prune(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, target = str(tuned / "layers.tc.pb"), str(tmp_path / "all.tc.pb")
    tc.save(target, tc.define(TEXT))
    assert main(["cache", "merge", target, file]) == 0
    store = _torch.Store.read(target, False)
    assert len(store.texts()) == 1 and len(store.tunings()) == 4
    assert any(tuning.trials for tuning in store.tunings())
    assert main(["cache", "prune", target, "--this-machine"]) == 0
    assert "bytes, now" in capsys.readouterr().out
    store = _torch.Store.read(target, False)
    assert len(store.texts()) == 1 and len(store.tunings()) == 4
    assert not any(tuning.trials for tuning in store.tunings())


def test_errors_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, binary = tmp_path / "layers.tc", tmp_path / "binary.tc"
    file.write_text(TEXT)
    binary.write_bytes(b"# a\n\x7fELF\xff")
    for arguments, words in (
        (["cache", "ls", str(tmp_path / "none")], "cannot read"),
        (["cache", "prune", str(tmp_path / "none")], "cannot read"),
        (["cache", "merge", str(tmp_path / "all"), str(file)], "is no file that"),
        (["tune", str(tmp_path / "none"), "--shapes", "M=1"], "No such file"),
        (["tune", str(file), "--shapes", "M=1"], "--shapes says nothing of K, N, which tmm has"),
        (["tune", str(file), "--shapes", "17x3"], "expected sizes by name, as M=128,K=1024"),
        (["tune", str(file), "mm", "--shapes", "M=1"], "defines tmm, relu, but no mm"),
        (["tune", str(binary), "--shapes", "M=1"], "binary.tc:2: byte 0xff is not UTF-8"),
        (["tune", str(file), "--shapes", "M=-3,K=2,N=2"], "M=-3, but M is a size of tmm: 0 at"),
        (["tune", str(file), "--shapes", f"M={10**20},K=2,N=2"], "no inputs of tmm can be made"),
        (["tune", str(file), "--shapes", f"M={10**15},K=2,N=2"], "no inputs of tmm can be made"),
        (["tune", str(file), "--shapes", "M=1", "--threads", "0"], "--threads 0: expected a"),
        (["tune", str(file), "--shapes", "M=1", "--threads=-2"], "--threads -2: expected a"),
    ):
        assert main(arguments) == 1
        assert words in capsys.readouterr().err
    assert not (tmp_path / "all").exists()


def test_all_sizes_are_looked_at_before_the_first_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later definition's missing size, and one that does not fit, are said at once."""
    text = TEXT + "def square(float(N, N) A, float(N) x) -> (y) { y(n) +=! A(n, k) * x(k) }\n"
    text += "def tail(float(M) x) -> (y) { y(m) = x(m + 5) where m in 0:M }\n"
    file = tmp_path / "layers.tc"
    file.write_text(text)
    for names, words in (
        (["relu", "tmm"], "--shapes says nothing of K, which tmm has"),
        (["relu", "tail"], "tail"),
    ):
        arguments = ["tune", str(file), *names, "--shapes", "M=9,N=20", "--candidates", "2"]
        assert main(arguments) == 1
        said = capsys.readouterr()
        assert words in said.err
        assert said.out == ""
        assert not (tmp_path / "layers.tc.pb").exists()


def test_inputs_of_given_sizes() -> None:
    text = (
        "def f(int32 s, float a, float(V, 10) T, int64(B, L) I, bool(B) on) -> (Y) {\n"
        "  Y(b, d) +=! (on(b) ? a * T(I(b, l), d) : 0.0) where l in 0:s\n}"
    )
    (definition,) = _torch.parse(text).definitions
    s, a, table, index, on = make_inputs(definition, parse_sizes("V=50, B=7,L=4,s=3"))
    assert (s, a) == (3, 1)
    assert table.shape == (50, 10) and index.shape == (7, 4) and on.shape == (7,)
    assert index.dtype == torch.int64 and index.min() >= 0 and index.max() < 10
    assert on.dtype == torch.bool
    tc.define(text).f(s, a, table, index, on)
