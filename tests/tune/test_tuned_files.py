"""Tuned Plans in files: what they are for, who uses them, and what may happen to the file."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from sampling import REPEATED

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.trials import Search, Times, Trial
from tensor_comprehensions._tuning.tuner import TuningFile

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
#: Where scripts find this file and what it imports.
FOLDERS = os.pathsep.join(str(Path(__file__).parents[k]) for k in (0, 1))
#: The same under other names.
OTHER = "def other(float(I,J) x, float(L,J) y) -> (z) { z(a,b) +=! x(a,c) * y(b,c) }"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    _torch.forget_tunings()
    tc.clear_cache()


def inputs(m: int = 33, n: int = 40, k: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, k), torch.randn(n, k)


def problem(*sizes: int) -> Problem:
    return Problem(TMM, "tmm", inputs(*sizes))


def plan(rows: int = 3, *sizes: int) -> str:
    """A whole Plan that the compiler would not choose."""
    options = tc.MappingOptions().cluster("S0").registers(n=rows, m=16).parallel(False)
    options = options.copy("B(n, k)", statement="S0", order=(1, 0))
    return str(tc.compile(TMM, "tmm", options, *inputs(*sizes)).options)


def found(text: str, ratio: float = 0.5) -> Search:
    return Search(
        "tmm",
        standard_plan="",
        standard=Times(1e-3, 1.1e-3, 1.05, 10),
        best_plan=text,
        best=Times(ratio * 1e-3, ratio * 1.2e-3, 1.1, 12),
    )


def save(path: Path, rows: int = 3, ratio: float = 0.5, sizes: tuple[int, ...] = ()) -> str:
    text = plan(rows, *sizes)
    TuningFile(path, problem(*sizes)).save(found(text, ratio))
    return text


def save_other(path: Path, ratio: float = 0.5, measured: Any = ()) -> None:
    """A Plan that was found for the same definition under other names."""
    options = tc.MappingOptions().cluster("S0").registers(b=4, a=16).parallel(False)
    options = options.copy("y(b, c)", statement="S0", order=(1, 0))
    text = str(tc.compile(OTHER, "other", options, *inputs()).options)
    TuningFile(path, Problem(OTHER, "other", inputs())).save(found(text, ratio), measured)


def runs(source: str = TMM, entry: str = "tmm", sizes: tuple[int, ...] = ()) -> str:
    return str(tc.compile(source, entry, None, *inputs(*sizes)).options)


def explained(sizes: tuple[int, ...] = ()) -> str:
    return tc.compile(TMM, "tmm", None, *inputs(*sizes)).explain()


# ---- use


def test_define_with_a_file_runs_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    text = save(file)
    own = runs()
    assert own != text
    t = tc.define(TMM, cache=file)
    a, b = inputs()
    executor = t.tmm.compile(a, b)
    assert str(executor.options) == text
    torch.testing.assert_close(t.tmm(a, b), a @ b.t(), rtol=1e-5, atol=1e-5)
    note = explained()
    assert "tuned" in note and "(33, 20), (40, 20) -> (33, 40)" in note
    assert "0.5 ms, 1 for the compiler's own" in note


def test_load_reaches_definitions_that_are_there(tmp_path: Path) -> None:
    """Also what they have compiled already."""
    t = tc.define(TMM)
    a, b = inputs()
    t.tmm(a, b)
    compiled = tc.cache_info().compiled
    file = tmp_path / "model.tc.pb"
    text = save(file)
    tc.load(file)
    t.tmm(a, b)
    assert tc.cache_info().compiled == compiled + 1
    assert str(t.tmm.compile(a, b).options) == text


def test_names_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    tc.load(file)
    executor = tc.compile(OTHER, "other", None, *inputs())
    assert "tuned" in executor.explain()
    text = str(executor.options)
    assert ".registers(b=3, a=16)" in text and '.copy("y(b, c)"' in text


def test_findings_under_several_names_are_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "model.tc.pb"
    save(file, 3, 0.9)
    save_other(file, 0.5)
    (tuning,) = tunings(file)
    assert len(tuning.plans) == 2 and all('.copy("B(n, k)"' in p.options for p in tuning.plans)
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        text = str(tc.define(TMM, cache=file).tmm.compile(*inputs()).options)
    assert ".registers(n=4, m=16)" in text and '.copy("B(n, k)"' in text
    assert not any("does not fit" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("first", ["tmm", "other"])
def test_files_of_several_names_are_loaded(first: str, tmp_path: Path) -> None:
    """Whichever comes first, the faster Plan runs under both."""
    files = {"tmm": tmp_path / "tmm.tc.pb", "other": tmp_path / "other.tc.pb"}
    save(files["tmm"], 3, 0.9)
    save_other(files["other"], 0.5)
    tc.load(files.pop(first))
    tc.load(*files.values())
    assert ".registers(n=4, m=16)" in runs()
    assert ".registers(b=4, a=16)" in runs(OTHER, "other")


def test_a_search_goes_on_from_trials_under_other_names(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    text = save(file, 3, 0.9)
    TuningFile(file, problem()).save(found(text, 0.9), [(text, 0.9), (plan(5), None)])
    plans, trials = TuningFile(file, Problem(OTHER, "other", inputs())).begin()
    assert [".registers(b=3, a=16)" in each for each in plans] == [True]
    assert [options.count('.copy("y(b, c)"') for options, _ in trials] == [1, 1]
    assert [ratio for _, ratio in trials] == [0.9, None]
    save_other(file, 0.5, [(plans[0], 0.8), (trials[1][0], 1.2)])
    (tuning,) = tunings(file)
    assert tuning.trials == [(text, 0.8), (plan(5), 1.2)]


def test_options_of_a_file_have_the_names_of_a_definition(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    options = tc.MappingOptions().cluster("S0").order("m", "n").tile("task", m=16)
    tc.save(file, tc.define(TMM, options))
    t = tc.define(OTHER, cache=file)
    wanted = tc.MappingOptions().cluster("S0").order("a", "b").tile("task", a=16)
    assert t.other.options == wanted
    a, b = inputs()
    torch.testing.assert_close(t.other(a, b), a @ b.t(), rtol=1e-5, atol=1e-5)


#: Equal but for names, which are exchanged.
STRAIGHT = "def straight(float(M,K) A, float(M,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
CROSSED = "def crossed(float(M,K) A, float(M,K) B) -> (C) { C(n,m) +=! A(n,k) * B(m,k) }"


def test_options_of_a_user_hold_under_exchanged_names(tmp_path: Path) -> None:
    """A Plan was found for the same words, which say something else of the other definition."""
    file = tmp_path / "model.tc.pb"
    given = inputs(40, 40)
    options = tc.MappingOptions().cluster("S0").order("m", "n")
    text = str(tc.compile(STRAIGHT, "straight", options, *given).options)
    TuningFile(file, Problem(STRAIGHT, "straight", given, options)).save(found(text))
    tc.load(file)
    assert "tuned" in tc.compile(STRAIGHT, "straight", options, *given).explain()
    executor = tc.compile(CROSSED, "crossed", options, *given)
    assert "tuned" not in executor.explain() and '.order("m", "n")' in str(executor.options)
    same = tc.MappingOptions().cluster("S0").order("n", "m")
    executor = tc.compile(CROSSED, "crossed", same, *given)
    assert "tuned" in executor.explain() and '.order("n", "m")' in str(executor.options)
    # One finding, whatever the names.
    TuningFile(file, Problem(CROSSED, "crossed", given, same)).save(
        found(str(executor.options), 0.4)
    )
    (tuning,) = tunings(file)
    assert [p.options for p in tuning.plans] == [text]
    TuningFile(file, Problem(CROSSED, "crossed", given, options)).save(found(runs_crossed(given)))
    assert len(tunings(file)) == 2


def runs_crossed(given: tuple[torch.Tensor, ...]) -> str:
    options = tc.MappingOptions().cluster("S0").order("m", "n")
    return str(tc.compile(CROSSED, "crossed", options, *given).options)


def test_each_statement_has_names_of_its_own(tmp_path: Path) -> None:
    """The same one may mean other loops in each of them."""
    head = "(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k)\n"
    one = "def one" + head + "C(m,n) = fmax(C(m,n), 0) }"
    two = "def two" + head + "C(n,m) = fmax(C(n,m), 0) }"
    options = tc.MappingOptions().cluster("S0", "S1").order("m", "n").tile("task", m=16)
    options = options.copy("B(n, k)", statement="S0", order=(1, 0))
    file = tmp_path / "model.tc.pb"
    tc.save(file, tc.define(one, options))
    t = tc.define(two, cache=file)
    wanted = tc.MappingOptions().cluster("S0", "S1").order("n", "m").tile("task", n=16)
    wanted = wanted.copy("B(n, k)", statement="S0", order=(1, 0))
    assert t.two.options == wanted
    a, b = inputs()
    torch.testing.assert_close(t.two(a, b), (a @ b.t()).relu(), rtol=1e-5, atol=1e-5)


def test_options_of_a_user_are_not_overruled(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    tc.load(file)
    naive = tc.compile(TMM, "tmm", "naive", *inputs())
    assert "tuned" not in naive.explain()
    t = tc.define(TMM, tc.MappingOptions("naive"), cache=file)
    assert "tuned" not in t.tmm.compile(*inputs()).explain()


def test_other_strides_and_dtypes_are_others(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    tc.load(file)
    a, b = torch.randn(20, 33).t(), torch.randn(40, 20)
    assert "tuned" not in tc.compile(TMM, "tmm", None, a, b).explain()
    doubles = TMM.replace("float", "double")
    executor = tc.compile(doubles, "tmm", None, *(x.double() for x in inputs()))
    assert "tuned" not in executor.explain()


def test_another_machine_or_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    tc.load(file)
    monkeypatch.setenv("TC_MACHINE", "vector_bits=256,unit_bits=256")
    assert "tuned" not in explained()
    monkeypatch.setenv("TC_MACHINE", "last_cache_rate=3")  # nothing that decides about a Plan
    assert "tuned" in explained()
    monkeypatch.delenv("TC_MACHINE")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        if torch.get_num_threads() != threads and os.cpu_count() != 1:
            assert "tuned" not in explained()
    finally:
        torch.set_num_threads(threads)
    assert "tuned" in explained()


def test_the_nearest_sizes_where_the_model_agrees(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And said so."""
    file = tmp_path / "model.tc.pb"
    # What the compiler would do itself: the model finds nothing against it.
    text = runs()
    TuningFile(file, problem()).save(found(text))
    tc.load(file)
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        executor = tc.compile(TMM, "tmm", None, *inputs(34, 40, 20))
    (line,) = [r.getMessage() for r in caplog.records if "no Plan was tuned" in r.getMessage()]
    assert "tmm: no Plan was tuned for these sizes; taken is that for (33, 20), (40, 20)" in line
    assert "the nearest sizes that were tuned" in executor.explain()
    caplog.clear()
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        # More than four times as much is no neighbour.
        assert "tuned" not in explained((200, 40, 20))
    assert not any("tuned" in r.getMessage() for r in caplog.records)


def test_the_nearest_sizes_where_the_model_does_not_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "model.tc.pb"
    slow = tc.MappingOptions().cluster("S0").vector(False).registers().nest(None).parallel(False)
    text = str(tc.compile(TMM, "tmm", slow, *inputs()).options)
    TuningFile(file, problem()).save(found(text))
    own = runs(sizes=(34, 40, 20))
    tc.load(file)
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        assert runs(sizes=(34, 40, 20)) == own
    assert any("is not expected to be faster" in r.getMessage() for r in caplog.records)


def test_a_plan_that_does_not_fit_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As one of another version."""
    file = tmp_path / "model.tc.pb"
    own = runs()
    text = re.sub(r'\.order\("."', '.order("q"', plan())
    assert text != plan()
    TuningFile(file, problem()).save(found(text))
    t = tc.define(TMM, cache=file)
    a, b = inputs()
    with caplog.at_level(logging.INFO, "tensor_comprehensions"):
        result = t.tmm(a, b)
    torch.testing.assert_close(result, a @ b.t(), rtol=1e-5, atol=1e-5)
    assert runs() == own
    told = "does not fit, and the compiler's own is taken"
    assert any(told in r.getMessage() for r in caplog.records)


def test_derivatives_and_batches_use_what_was_tuned_for_them(tmp_path: Path) -> None:
    t = tc.define(TMM)
    a, b = (x.requires_grad_() for x in inputs())
    differentiable = tc.make_autograd(t.tmm)
    _torch.record_launches(True)
    torch.autograd.grad(differentiable(a, b).sum(), (a, b))
    _torch.record_launches(False)
    kernels = _torch.recorded_launches()
    assert len(kernels) == 2
    (gradient,) = [k for k in kernels if k[0].name != "tmm"]
    definition, _, arguments, outputs, _, count = gradient
    assert count == 1
    made = Problem(definition.text, definition.name, arguments, None, outputs)
    options = tc.MappingOptions().parallel(False)
    text = str(tc.compile(made.source, made.entry, options, *made.inputs).options)
    file = tmp_path / "model.tc.pb"
    TuningFile(file, made).save(found(text))
    tc.load(file)
    executor = tc.compile(made.source, made.entry, None, *made.inputs)
    assert "tuned" in executor.explain()


FRESH = """
import json, sys, torch
import tensor_comprehensions as tc
tc.load(sys.argv[1])
a, b = torch.randn(33, 20), torch.randn(40, 20)
info = tc.cache_info()
result = torch.ops.tc.tmm(a, b)
torch.testing.assert_close(result, a @ b.t(), rtol=1e-5, atol=1e-5)
torch.ops.tc.tmm(a, b)
print(json.dumps([tc.cache_info().compiled - info.compiled,
                  str(tc.define(sys.argv[2]).tmm.compile(a, b).options)]))
"""


def test_a_fresh_process_runs_the_plan_and_compiles_once(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    text = save(file)
    tc.save(file, tc.define(TMM))
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(file), TMM], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1, text]


def test_autotune_to_define_by_a_file(tmp_path: Path) -> None:
    """The path of a user."""
    file = tmp_path / "model.tc.pb"
    a, b = inputs()
    config = tc.TunerConfig().generations(1).pop_size(6).threads(2)
    best = tc.autotune(TMM, "tmm", a, b, tuner_config=config, cache_filename=file)
    t = tc.define(TMM, cache=file)
    assert t.tmm.compile(a, b).options == best
    (stored,) = tc.MappingOptionsCache(file).load(TMM, "tmm", (a, b), 10)
    assert stored == best
    assert tc.MappingOptionsCache(file).load(TMM, "tmm", inputs(5), 10) == []
    assert tc.MappingOptionsCache(tmp_path / "none").load(TMM, "tmm", (a, b), 10) == []
    factory = tc.make_load_from_cache_options_factory(file)
    assert factory(TMM, "tmm", a, b) == best
    assert factory(TMM, "tmm", *inputs(5)) is None
    with pytest.raises(tc.TCError, match="options factory returned None"):
        tc.define(TMM, factory).tmm(*inputs(5))


def test_load_from_cache_without_an_entry(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    missing = r"has no options for tmm and inputs of sizes \(5, 20\)"
    with pytest.raises(tc.CacheError, match=missing):
        tc.autotune(TMM, "tmm", *inputs(5), cache_filename=file, load_from_cache=True)


# ---- what is kept


def tunings(file: Path) -> list[Any]:
    return _torch.Store.read(str(file), False).tunings()


def test_additions_are_merged(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    slow, fast = save(file, 3, 0.8), save(file, 4, 0.4)
    save(file, 3, 0.9, sizes=(50, 40, 20))
    first, second = tunings(file)
    assert [p.options for p in first.plans] == [fast, slow]  # the fastest first
    assert first.arguments == "(33, 20), (40, 20) -> (33, 40)"
    assert second.arguments == "(50, 20), (40, 20) -> (50, 40)"
    assert first.text.startswith("def tmm(")
    assert first.plans[0].times.minimum == pytest.approx(0.4e-3)
    assert first.plans[0].standard.median == pytest.approx(1.1e-3)
    assert first.plans[0].processor and first.plans[0].version == _torch.core_version()


def measured_as(text: str, ratio: float, of: Search) -> Search:
    """With a candidate that was measured and did not win."""
    times = Times(ratio * 1e-3, ratio * 1.1e-3, 1.1, 5)
    of.trials = [Trial(1, text, "measured", times=times, ratio=ratio)]
    return of


@pytest.mark.parametrize("ratio", [1.3, 0.99])
def test_what_was_measured_last_counts(ratio: float, tmp_path: Path) -> None:
    """Whatever an earlier search found: what did not win again is behind."""
    file = tmp_path / "model.tc.pb"
    own = runs()
    text = save(file, 3, 0.9)
    TuningFile(file, problem()).save(measured_as(text, ratio, found(own, 1.0)))
    (tuning,) = tunings(file)
    assert [p.options for p in tuning.plans] == [own, text]
    last = tuning.plans[1]
    assert last.times.minimum == pytest.approx(ratio * 1e-3)
    assert last.times.minimum / last.standard.minimum == pytest.approx(max(ratio, 1.0), rel=1e-4)
    assert str(tc.define(TMM, cache=file).tmm.compile(*inputs()).options) == own
    # What was not measured again keeps what it has.
    fast = save(file, 4, 0.4)
    TuningFile(file, problem()).save(measured_as(text, 0.8, found(own, 1.0)))
    assert [p.options for p in tunings(file)[0].plans] == [fast, own, text]


def test_other_processes_measure_plans_again(tmp_path: Path) -> None:
    """Of which only the ratio is known."""
    file = tmp_path / "model.tc.pb"
    text = save(file, 3, 0.9)
    own = runs()
    TuningFile(file, problem()).save(found(own, 1.0), [(text, 1.5)])
    (tuning,) = tunings(file)
    assert [p.options for p in tuning.plans] == [own, text]
    last = tuning.plans[1]
    assert last.times.minimum / last.standard.minimum == pytest.approx(1.5)


def test_a_search_that_goes_on_moves_nothing_behind(tmp_path: Path) -> None:
    """Nothing has won yet: the last comparison is still to come."""
    file = tmp_path / "model.tc.pb"
    text, own = save(file, 3, 0.9), runs()
    TuningFile(file, problem()).save(measured_as(text, 0.85, found(own, 1.0)), ended=False)
    (tuning,) = tunings(file)
    assert [p.options for p in tuning.plans] == [text, own]
    assert tuning.plans[0].times.minimum == pytest.approx(0.9e-3)


def test_merging_a_file_again_changes_nothing(tmp_path: Path) -> None:
    file, more = tmp_path / "model.tc.pb", tmp_path / "more.tc.pb"
    save(file, 3, 0.9)
    TuningFile(more, problem()).save(found(plan(4)), [(plan(4), 0.5), (plan(5), None)])
    store = _torch.Store.read(str(more), False)
    store.save(str(file))
    before = file.read_bytes()
    assert tunings(file)[0].measured == 2
    store.save(str(file))
    assert file.read_bytes() == before
    _torch.Store.read(str(file), False).save(str(file))
    assert file.read_bytes() == before


def test_texts_and_plans_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    t = tc.define(TMM)
    tc.save(file, t)
    save(file)
    tc.save(file, tc.define(OTHER))
    assert len(tunings(file)) == 1
    sources = [text.source for text in _torch.Store.read(str(file), False).texts()]
    assert TMM in sources and OTHER in sources


def test_a_file_of_before_has_none(tmp_path: Path) -> None:
    """What was saved without tunings is read, and kept when they are added."""
    file = tmp_path / "model.tc.pb"
    tc.save(file, tc.define(TMM))
    before = _torch.Store.read(str(file), False).texts()[0].source
    assert tunings(file) == []
    save(file)
    assert _torch.Store.read(str(file), False).texts()[0].source == before


def test_only_so_much_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    base = found(plan())
    base.trials = []
    own = problem()
    measured = [(f'tc.MappingOptions("default").unroll({k})', 1 + k / 1000) for k in range(1, 1500)]
    TuningFile(file, own).save(base, measured)
    (tuning,) = tunings(file)
    assert len(tuning.trials) == 1024 and tuning.measured == 1499
    assert tuning.trials[0][1] == pytest.approx(1.001)
    _torch.prune_store(str(file), 1, 10, False)
    (tuning,) = tunings(file)
    assert len(tuning.trials) == 10 and len(tuning.plans) == 1
    _torch.prune_store(str(file), 0, 0, False)
    assert tunings(file) == []


def test_pruning_for_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    monkeypatch.setenv("TC_MACHINE", "vector_bits=128,unit_bits=128,vector_registers=16")
    save(file)
    assert len(tunings(file)) == 2
    monkeypatch.delenv("TC_MACHINE")
    _torch.prune_store(str(file), 1, 0, True)
    (tuning,) = tunings(file)
    assert "vector_bits=128," not in tuning.machine


# ---- damage, limits, many writers


def test_damaged_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    save(file)
    good = file.read_bytes()
    r = random.Random(0)
    for _ in range(20):
        bad = bytearray(good)
        bad[r.randrange(len(bad))] ^= 1 << r.randrange(8)
        file.write_bytes(bytes(bad))
        with pytest.raises(tc.CacheError):
            tc.define(TMM, cache=file)
        with pytest.raises(tc.CacheError):
            save(file)
        assert file.read_bytes() == bytes(bad)
    for length in range(1, len(good), 97):
        file.write_bytes(good[:length])
        with pytest.raises(tc.CacheError):
            tc.load(file)
    file.write_bytes(b"PK\x03\x04 somebody else's")
    with pytest.raises(tc.CacheError, match="is no file that tensor_comprehensions"):
        tc.autotune(TMM, "tmm", *inputs(), cache_filename=file)
    assert file.read_bytes().endswith(b"somebody else's")


def test_a_search_whose_file_is_damaged_does_not_begin(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    file.write_bytes(b"no store")
    begin = time.monotonic()
    with pytest.raises(tc.CacheError):
        tc.autotune(TMM, "tmm", *inputs(), cache_filename=file)
    assert time.monotonic() - begin < 5


def test_a_search_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """Of several processes that tune, none may take another's away: it is not even made before
    there is something to keep."""
    take = "def take(float(N) x, int32(M) i) -> (y) { y(m) = x(i(m)) }"
    outside = (torch.randn(8), torch.tensor([1, 9], dtype=torch.int32))
    with pytest.raises(tc.TCError):
        tc.autotune(take, "take", *outside, cache_filename=tmp_path / "model.tc.pb")
    config = tc.TunerConfig().log(tmp_path / "none" / "log.csv")
    with pytest.raises(tc.TCError, match="cannot write the log of candidates"):
        tc.autotune(
            TMM, "tmm", *inputs(), tuner_config=config, cache_filename=tmp_path / "model.tc.pb"
        )
    assert not list(tmp_path.iterdir())


READ_ONLY = """
import os, sys, torch
import tensor_comprehensions as tc
from tensor_comprehensions._tuning.problem import Problem
t = tc.define(sys.argv[2])
Problem(sys.argv[2], "tmm", (torch.ones(3, 4), torch.ones(5, 4)))  # imports what it needs
if os.getuid() == 0:  # for whom nothing is read-only
    os.setgid(65534)
    os.setuid(65534)
t = tc.define(sys.argv[2], cache=sys.argv[1])  # which may be read
for save in (
    lambda: tc.save(sys.argv[1], t),
    lambda: tc.autotune(sys.argv[2], "tmm", torch.ones(3, 4), torch.ones(5, 4),
                        cache_filename=sys.argv[1]),
):
    try:
        save()
    except tc.CacheError as error:
        print(error)
"""


def test_read_only_files() -> None:
    """Nothing is changed, and a search does not even begin."""
    with tempfile.TemporaryDirectory() as folder:  # where everybody may read
        file = Path(folder) / "model.tc.pb"
        save(file)
        before = file.read_bytes()
        file.chmod(0o444)
        os.chmod(folder, 0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(file), TMM], capture_output=True, text=True
        )
        os.chmod(folder, 0o700)
        refused = done.stdout.splitlines()
        assert len(refused) == 2, done.stderr
        for line in refused:
            assert line.startswith(f"cannot write '{file}': Permission denied; saving makes files")
        assert file.read_bytes() == before
        assert [path.name for path in Path(folder).iterdir()] == ["model.tc.pb"]


def test_a_full_disk(tmp_path: Path) -> None:
    """The file stays as it was."""
    script = (
        "import resource, signal, sys, torch\n"
        "import tensor_comprehensions as tc\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"
        "try:\n"
        "    tc.save(sys.argv[1], tc.define(sys.argv[2]))\n"
        "except tc.CacheError as error:\n"
        "    print(error)\n"
    )
    file = tmp_path / "model.tc.pb"
    save(file)
    save(file, 4)
    save(file, 2, sizes=(50, 40, 20))
    before = file.read_bytes()
    assert len(before) > 1500
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), OTHER], capture_output=True, text=True
    )
    assert "what was there before is still there" in done.stdout, done.stderr
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.tc.pb"]


WRITER = """
import os, sys, threading, torch
import tensor_comprehensions as tc
sys.path[:0] = sys.argv[1].split(os.pathsep)
from test_tuned_files import TuningFile, found, problem, plan
number, file = int(sys.argv[2]), sys.argv[3]
text = plan()
def work(thread):
    for k in range(4):
        size = 100 + number * 64 + thread * 8 + k
        TuningFile(file, problem(size)).save(found(text))
threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
def test_four_processes_of_eight_threads_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, FOLDERS, str(number), str(file)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert len(tunings(file)) == 4 * 8 * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.tc.pb"]


KILLED = """
import os, random, signal, sys, time
sys.path[:0] = sys.argv[1].split(os.pathsep)
from test_tuned_files import TuningFile, found, inputs, plan, problem, tunings
from pathlib import Path
file, times = Path(sys.argv[2]), int(sys.argv[3])
r = random.Random(times)
text = plan()
killed = 0
for _ in range(times):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        k = 0
        while True:
            TuningFile(file, problem(1000 + k)).save(found(text))
            os.write(write, b"x")
            k += 1
    os.close(write)
    saved = sum(len(os.read(read, 1)) for _ in range(r.randrange(1, 4)))
    time.sleep(r.random() * 0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while os.read(read, 1):
        saved += 1
    os.close(read)
    arguments = {tuning.arguments for tuning in tunings(file)}
    for k in range(saved):
        assert f"({1000 + k}, 20), (40, 20) -> ({1000 + k}, 40)" in arguments
    killed += 1
    file.unlink()
print(killed)
"""


@pytest.mark.slow
def test_killed_while_saving(tmp_path: Path) -> None:
    """Whatever was said to be saved is there, and the file is whole."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", KILLED, FOLDERS),
            *(str(tmp_path / "model.tc.pb"), str(REPEATED)),
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{REPEATED}\n", done.stderr


def test_threads_of_one_process(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    text = plan()

    def work(k: int) -> None:
        TuningFile(file, problem(100 + k)).save(found(text))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tunings(file)) == 8


def test_an_executor_runs_what_it_tells_of(tmp_path: Path) -> None:
    """Also when Plans are known only afterwards."""
    file = tmp_path / "model.tc.pb"
    before = tc.compile(TMM, "tmm", None, *inputs())
    kernels = tc.cache_info().kernels
    before(*inputs())
    assert tc.cache_info().kernels == kernels
    options = str(before.options)
    save(file)
    tc.load(file)
    compiled = tc.cache_info().compiled
    tc.cache_dir(tmp_path / "code")  # which has whatever is compiled from here on
    try:
        before(*inputs())
        before.profile(*inputs())
        tc.clear_cache()
        before(*inputs())
    finally:
        tc.cache_dir(None)
    assert not list((tmp_path / "code").iterdir())
    assert tc.cache_info().compiled <= compiled + 1
    assert "tuned" not in before.explain() and str(before.options) == options
    assert "tuned" in tc.compile(TMM, "tmm", None, *inputs()).explain()


def test_a_plan_for_these_sizes_runs_beside_one_for_the_nearest(tmp_path: Path) -> None:
    """A kernel that somebody holds was made where the Plan was not expected to be fast."""
    file = tmp_path / "model.tc.pb"
    slow = tc.MappingOptions().cluster("S0").vector(False).registers().nest(None).parallel(False)
    text = str(tc.compile(TMM, "tmm", slow, *inputs()).options)
    TuningFile(file, problem()).save(found(text))
    tc.load(file)
    sizes = (34, 40, 20)
    held = tc.compile(TMM, "tmm", None, *inputs(*sizes))
    assert str(held.options) != text
    TuningFile(file, problem(*sizes)).save(found(text))
    tc.load(file)
    assert runs(sizes=sizes) == text
    assert str(held.options) != text


def test_loading_again_keeps_kernels(tmp_path: Path) -> None:
    """Only those go that would be others now."""
    file = tmp_path / "model.tc.pb"
    save(file)
    relu = "def relu(float(N) A) -> (B) { B(n) = fmax(A(n), 0) }"
    x = torch.randn(50)
    relus = Problem(relu, "relu", (x,))
    TuningFile(file, relus).save(found(str(tc.compile(relu, "relu", None, x).options)))
    t, r = tc.define(TMM, cache=file), tc.define(relu)
    a, b = inputs()

    def compiled() -> int:
        before = tc.cache_info().compiled
        t.tmm(a, b)
        r.relu(x)
        return tc.cache_info().compiled - before

    assert compiled() == 2
    tc.load(file)
    tc.define(TMM, cache=file)
    assert compiled() == 0
    # The same Plan, measured once more, and a slower one.
    save(file)
    save(file, 4, 0.9)
    tc.load(file)
    assert compiled() == 0
    save(file, 5, 0.1)
    tc.load(file)
    assert compiled() == 1


def test_definitions_with_options_read_their_file(tmp_path: Path) -> None:
    file = tmp_path / "model.tc.pb"
    file.write_bytes(b"no file of ours")
    with pytest.raises(tc.CacheError):
        tc.define(TMM, tc.MappingOptions("naive"), cache=file)
