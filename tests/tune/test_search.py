"""Searches end to end: small products, helpers that end or hang, interruptions, budgets."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._define import find_definition
from tensor_comprehensions._tuning import tensors
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.session import Session
from tensor_comprehensions._tuning.trials import Times, Trial
from tensor_comprehensions._tuning.tuner import run_search

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
MLP = """def mlp(float(B,N) I, float(O,N) W, float(O) c, float(P,O) V) -> (H, R) {
  H(b,o) = c(o)
  H(b,o) += I(b,n) * W(o,n)
  H(b,o) = fmax(H(b,o), 0)
  R(b,p) +=! H(b,o) * V(p,o)
}"""


def product(m: int = 33, n: int = 40, k: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, k), torch.randn(n, k)


def small(candidates: int = 12, strategy: str = "model") -> tc.TunerConfig:
    return tc.TunerConfig().generations(1).pop_size(candidates).threads(2).strategy(strategy)


def problem(source: str = TMM, entry: str = "tmm", inputs: Any = None) -> Problem:
    return Problem(source, entry, inputs if inputs is not None else product())


def relu_inputs() -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(*s) for s in ((16, 20), (24, 20), (24,), (9, 24)))


@pytest.mark.parametrize("strategy", ["model", "genetic", "random"])
def test_what_is_found_computes_the_same(strategy: str) -> None:
    a, b = product()
    found = tc.autotune(TMM, "tmm", a, b, tuner_config=small(12, strategy))
    executor = tc.compile(TMM, "tmm", found, a, b)
    assert executor.options == found  # a whole Plan
    torch.testing.assert_close(executor(a, b), a @ b.t(), rtol=1e-5, atol=1e-5)


def test_several_statements_and_a_library_call() -> None:
    inputs = relu_inputs()
    search = run_search(problem(MLP, "mlp", inputs), small(30))
    assert search.counts()["measured"] > 10
    # How many take too long depends on what else the machine does.
    assert not {"wrong", "crashed", "failed"} & set(search.counts()), search.trials
    plans = [trial.plan for trial in search.trials]
    # Which statements share loops varies, and who computes them.
    assert len({plan.count(".cluster(") for plan in plans}) > 1
    assert any('libraryCalls("' in plan for plan in plans)
    hidden, result = tc.compile(MLP, "mlp", tc.MappingOptions.parse(search.best_plan), *inputs)(
        *inputs
    )
    wanted = torch.relu(torch.addmm(inputs[2], inputs[0], inputs[1].t()))
    torch.testing.assert_close(hidden, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(result, wanted @ inputs[3].t(), rtol=1e-4, atol=1e-4)


def test_the_default_is_measured_and_wins_ties() -> None:
    """Without candidates that are clearly faster, the compiler's own Plan is what is found."""
    session = Session(problem(), small(4))
    session._choose_before = session._choose  # type: ignore[attr-defined]

    def all_alike(plans: list[str], times: list[list[Any]]) -> None:
        alike = [[place[0]] * len(plans) for place in times]
        session._choose_before(plans, alike)  # type: ignore[attr-defined]

    session._choose = all_alike  # type: ignore[method-assign]
    search = session.run()
    assert search.best_plan == search.standard_plan
    assert search.ratio == 1.0
    assert str(tc.compile(TMM, "tmm", None, *product()).options) == search.standard_plan


def test_a_gain_in_one_place_of_memory_is_none() -> None:
    """The last comparison moves the tensors: what is faster by how they lay does not win."""
    session = Session(problem(), small(1))
    search = session.search
    search.standard_plan = search.best_plan = "own"
    own, faster, slower = Times(1.0, 1.1), Times(0.8, 0.9), Times(1.05, 1.2)
    session._choose(["own", "lucky", "better"], [[own, faster, faster], [own, slower, faster]])
    assert (search.best_plan, search.ratio) == ("better", 0.8)
    session._choose(["own", "lucky"], [[own, faster], [own, slower]])
    assert search.best is search.standard is own
    # Both have to be faster by the median, too.
    unsteady = Times(0.9, 1.3)
    session._choose(["own", "lucky"], [[own, faster], [own, unsteady]])
    assert search.best is own


def test_the_last_comparison_is_made_in_two_places() -> None:
    seen: list[Any] = []

    class Seeing(Session):
        def _compare_last(self) -> None:
            seen.append(self._time_in_turns([self.search.standard_plan] * 3))

    Seeing(problem(), small(1)).run()
    (places,) = seen
    assert [len(place) for place in places] == [3, 3]
    assert all(times.minimum > 0 for place in places for times in place)


def test_copies_of_tensors_are_elsewhere_and_alike() -> None:
    base = torch.randn(7, 5, 3)
    for tensor in (base, base.transpose(0, 2), base[:, :1].expand(7, 4, 3), base[2:, 1:, ::2]):
        for displaced in (0, 448, 4096):
            moved = tensors.copy(tensor, displaced)
            assert torch.equal(moved, tensor) and moved.stride() == tensor.stride()
            assert moved.data_ptr() % 64 == tensor.data_ptr() % 64
            begin = moved.untyped_storage().data_ptr()
            assert displaced <= moved.data_ptr() - begin < displaced + 64


def test_constraints_hold_in_every_candidate() -> None:
    given = tc.MappingOptions().cluster("S0").registers(m=4, n=16).parallel(False)
    inputs = product()
    search = run_search(Problem(TMM, "tmm", inputs, given), small(10))
    assert search.trials
    for trial in search.trials:
        assert ".registers(m=4, n=16)" in trial.plan
        assert ".parallel(False)" in trial.plan
    assert ".registers(m=4, n=16)" in search.standard_plan


def test_starting_options_are_tried_first() -> None:
    """They are a start, as in 2018, and constrain nothing."""
    tuner = tc.Tuner(TMM)
    # One helper: of several, others are done before a start that takes long to compile.
    tuner.tune("tmm", product(), tc.MappingOptions("naive"), small(8).threads(1))
    start = str(tc.compile(TMM, "tmm", "naive", *product()).options).partition(".cluster(")[2]
    plans = [trial.plan.partition(".cluster(")[2] for trial in tuner.history]
    assert start == plans[0]
    assert any('.tile("task", m=32, n=32)' not in plan for plan in plans)


def test_inputs_of_any_layout_scalars_and_indices() -> None:
    text = (
        "def f(float s, float(V, D) T, int32(B, L) I, float(B, D) X) -> (Y) {\n"
        "  Y(b, d) +=! s * T(I(b, l), d) * X(b, d)\n}\n"
    )
    table = torch.randn(50, 24)[:, ::2]
    index = torch.randint(0, 50, (7, 5), dtype=torch.int32)
    x = torch.randn(12, 7).t()
    found = tc.autotune(text, "f", 2.0, table, index, x, tuner_config=small(6))
    result = tc.compile(text, "f", found, 2.0, table, index, x)(2.0, table, index, x)
    torch.testing.assert_close(result, 2 * table[index.long()].sum(1) * x)


def test_numbers_of_numpy() -> None:
    """They are sent to other processes as Python's."""
    text = (
        "def f(float s, int32 k, bool on, float(N) x) -> (y) {\n"
        "  y(i) = (on ? s : 0.0) * x(i) + k\n}\n"
    )
    x = torch.randn(40)
    for s in (np.float32(2.5), np.float64(2.5), np.array(2.5), torch.tensor(2.5)):
        inputs = (s, np.int64(3), np.bool_(True), x)
        assert problem(text, "f", inputs).inputs[:3] == [2.5, 3, True]
        config = small(3).budget_seconds(np.float32(20)).timeout_seconds(np.int32(9))
        config.seed(np.int64(4)).pop_size(np.int16(3))
        found = tc.autotune(text, "f", *inputs, tuner_config=config)
        torch.testing.assert_close(tc.compile(text, "f", found, *inputs)(*inputs), 2.5 * x + 3)
    for bad, words in (
        ((2.5, np.float32(3), True, x), "argument k: expected an integer but got float32"),
        ((np.ones(2), 3, True, x), "argument s: expected a number or a 0-d tensor but got ndarray"),
        ((2.5, 3, True, np.ones(40)), "argument x: expected a tensor but got ndarray"),
    ):
        with pytest.raises(tc.ShapeError, match=words):
            problem(text, "f", bad)


def test_results_that_accumulate() -> None:
    """What they start from is the same for every candidate."""
    text = "def f(float(M,K) A, float(K) x) -> (y) { y(i) += A(i,k) * x(k) }"
    search = run_search(Problem(text, "f", (torch.randn(40, 30), torch.randn(30))), small(6))
    assert search.counts()["measured"] >= 4 and not search.counts()["wrong"]


def test_bad_arguments_are_errors_before_anything_runs() -> None:
    a, b = product()
    with pytest.raises(tc.ShapeError, match="tmm expected 2 inputs but found 1"):
        tc.autotune(TMM, "tmm", a)
    with pytest.raises(tc.ShapeError, match="argument B: expected a tensor but got int"):
        tc.autotune(TMM, "tmm", a, 3)
    with pytest.raises(tc.ShapeError, match="K"):
        tc.autotune(TMM, "tmm", a, torch.randn(4, 7))
    with pytest.raises(tc.ShapeError, match="argument A: expected dtype float32 but got float64"):
        tc.autotune(TMM, "tmm", a.double(), b)
    with pytest.raises(tc.ShapeError, match="argument B: expected a strided tensor"):
        tc.autotune(TMM, "tmm", a, b.to_sparse())
    with pytest.raises(tc.TCError, match="undefined function mm"):
        tc.autotune(TMM, "mm", a, b)
    with pytest.raises(tc.TCError, match="need cache_filename="):
        tc.autotune(TMM, "tmm", a, b, store_to_cache=True)
    with pytest.raises(tc.TCError, match="not both"):
        tc.autotune(
            *(TMM, "tmm", a, b),
            starting_options="naive",
            cache_filename="x.tc.pb",
            load_from_cache=True,
        )


def test_a_definition_that_ends_the_process_is_an_error() -> None:
    """Reads far outside, unchecked, in the compiler's own kernel."""
    text = "def g(float(N) X, int32(M) I) -> (Y) { Y(i) = X(I(i)) }"
    index = torch.full((4096,), 2**30, dtype=torch.int32)
    unchecked = tc.MappingOptions().checkIndices(False)
    with pytest.raises(tc.TCError, match=r"g cannot be tuned: a process .* was ended by SIGSEGV"):
        run_search(Problem(text, "g", (torch.randn(8), index), unchecked), small(4))


def test_what_a_call_would_raise_is_raised() -> None:
    text = "def g(float(N) X, int32(M) I) -> (Y) { Y(i) = X(I(i)) }"
    index = torch.tensor([1, 9], dtype=torch.int32)
    with pytest.raises(tc.TCError) as called:
        tc.compile(text, "g", None, torch.randn(8), index)(torch.randn(8), index)
    with pytest.raises(type(called.value)) as tuned:
        tc.autotune(text, "g", torch.randn(8), index, tuner_config=small(4))
    assert str(tuned.value) == str(called.value)


# ---- budgets and interruptions


def test_no_bound_for_a_candidate() -> None:
    search = run_search(problem(), small(3).timeout_seconds(float("inf")))
    assert search.ended == "all candidates are tried"


def test_ctrl_c_in_the_last_comparison_ends_all_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Session._compare_last

    def interrupted(self: Session) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        compare(self)

    monkeypatch.setattr(Session, "_compare_last", interrupted)
    search = run_search(problem(), small(4))
    assert search.ended == "interrupted"
    assert search.best_plan


def test_budgets() -> None:
    begin = time.monotonic()
    search = run_search(problem(), tc.TunerConfig().budget_seconds(2.0).threads(2))
    assert search.ended == "the budget is spent"
    assert search.seconds < 3
    assert time.monotonic() - begin < 30
    search = run_search(problem(), small(6).patience(3))
    assert search.ended in ("there was no gain any more", "all candidates are tried")
    assert len(search.trials) <= 6


def test_a_space_with_one_plan_ends_by_itself() -> None:
    """All that there is to decide is decided."""
    inputs = (torch.randn(5),)
    text = "def f(float(N) x) -> (y) { y(i) = x(i) }"
    whole = tc.compile(text, "f", None, *inputs).options
    search = run_search(Problem(text, "f", inputs, whole), tc.TunerConfig().budget_seconds(30))
    assert search.ended == "there is nothing left to try"
    assert search.best_plan == search.standard_plan


INTERRUPTED = """
import sys, torch
import tensor_comprehensions as tc
torch.manual_seed(0)
a, b = torch.randn(65, 40), torch.randn(70, 40)
config = tc.TunerConfig().budget_seconds(100).threads(2).log(sys.argv[3])
best = tc.autotune(sys.argv[1], "tmm", a, b, tuner_config=config, cache_filename=sys.argv[2])
print("end", flush=True)
result = tc.compile(sys.argv[1], "tmm", best, a, b)(a, b)
torch.testing.assert_close(result, a @ b.t(), rtol=1e-4, atol=1e-4)
print("right", flush=True)
"""


def _interrupt(file: Path, number: signal.Signals) -> subprocess.CompletedProcess:
    """A search of 100 seconds that gets a signal when some candidates are done."""
    log = file.with_name("log.jsonl")
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, TMM, str(file), str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
        time.sleep(0.05)
    process.send_signal(number)
    begin = time.monotonic()
    out, err = process.communicate(timeout=120)
    assert time.monotonic() - begin < 60
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_ctrl_c_keeps_the_best_and_a_later_search_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "tuned.tc.pb"
    done = _interrupt(file, signal.SIGINT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "end\nright\n"
    torch.manual_seed(0)
    inputs = product(65, 70, 40)
    tuner = tc.Tuner(TMM, file)
    tuner.tune("tmm", inputs, None, small(3))
    (search,) = tuner.searches
    tunings = _torch.Store.read(str(file), False).tunings()
    assert search.known > 3, [(t.arguments, t.options, t.machine, t.threads) for t in tunings]
    (tuning,) = tunings
    before = {plan for plan, _ in tuning.trials}
    assert {trial.plan for trial in search.trials} <= before
    assert tuning.measured == search.known + len(search.trials)


def test_sigterm_keeps_what_was_measured_and_ends_the_process(tmp_path: Path) -> None:
    file = tmp_path / "tuned.tc.pb"
    done = _interrupt(file, signal.SIGTERM)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert done.stdout == ""
    (tuning,) = _torch.Store.read(str(file), False).tunings()
    assert len(tuning.trials) > 3 and tuning.plans


def test_a_file_that_goes_costs_nothing_but_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder is removed while a search goes on: what was found is returned, and told of."""
    folder = tmp_path / "models"
    folder.mkdir()
    file = folder / "tuned.tc.pb"

    class Unlucky(Session):
        def _compare_last(self) -> None:
            shutil.rmtree(folder)
            super()._compare_last()

    a, b = product()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensor_comprehensions._tuning.tuner.Session", Unlucky)
        with caplog.at_level(logging.WARNING, "tensor_comprehensions"):
            best = tc.autotune(TMM, "tmm", a, b, tuner_config=small(4), cache_filename=file)
    torch.testing.assert_close(tc.compile(TMM, "tmm", best, a, b)(a, b), a @ b.t())
    (line,) = [r.getMessage() for r in caplog.records if "is not kept" in r.getMessage()]
    assert f"cannot write '{file}'" in line and str(best) in line


def test_a_file_that_cannot_be_written_is_an_error_before_the_search(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(tc.CacheError, match=r"cannot write '.*/none/tuned.tc.pb': No such file"):
        tc.autotune(TMM, "tmm", *product(), cache_filename=tmp_path / "none" / "tuned.tc.pb")
    assert time.monotonic() - begin < 5


def test_measurements_are_counted_once(tmp_path: Path) -> None:
    """Also where a long search has saved some of them before its end."""
    file = tmp_path / "tuned.tc.pb"

    class Careful(Session):
        def _take(self, *arguments: Any) -> None:
            super()._take(*arguments)
            assert self._checkpoint is not None
            self._checkpoint(self.search)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensor_comprehensions._tuning.tuner.Session", Careful)
        search = run_search(problem(), small(5), (), file)
    (tuning,) = _torch.Store.read(str(file), False).tunings()
    assert tuning.measured == len(tuning.trials) == len(search.trials) == 5


def test_searches_from_several_threads() -> None:
    results: list[Any] = []

    def work() -> None:
        results.append(run_search(problem(), small(4)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(search.trials) for search in results] == [4, 4, 4]


def test_equal_loops_are_compiled_once() -> None:
    """Whatever their Plans say; each of the kernels computes with its own arguments."""
    text = "def once(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"

    def compile_trial(tile: int, m: int) -> _torch.Trial:
        a, b = product(m)
        c = torch.empty(m, 40)
        options = _torch.Options.parse(f'tc.MappingOptions("default").tile({tile}, 40)')
        trial = _torch.Trial(find_definition(text, "once"), options, "cpu", [a, b], [c], False)
        trial.run()
        torch.testing.assert_close(c, a @ b.t(), rtol=1e-5, atol=1e-5)
        return trial

    assert "llvm" in compile_trial(33, 33).text("stages")
    assert "llvm" not in compile_trial(33, 33).text("stages")
    # A task of more than all rows is one of all rows.
    assert "llvm" not in compile_trial(64, 33).text("stages")
    assert "llvm" in compile_trial(11, 33).text("stages")
    assert "llvm" in compile_trial(34, 34).text("stages")


def test_a_later_search_measures_the_best_of_an_earlier_one_again() -> None:
    """Only what it measures itself may win."""
    found = run_search(problem(), small(6))
    # On a busy machine all may be far behind the compiler's own.
    plan = next(trial.plan for trial in found.trials if trial.status in ("measured", "slow"))
    search = Session(problem(), small(3), known=[(plan, 0.5)]).run()
    # Two processes compile: which is first is no matter.
    assert plan in [trial.plan for trial in search.trials]


def test_each_finalist_is_tried_alone_where_one_of_them_ends_the_process() -> None:
    asked: list[list[str]] = []

    class Broken(Session):
        def _time_in_turns(self, plans: list[str]) -> list[list[Times]] | None:
            asked.append(plans)
            if "bad" in plans:
                return None
            return [[Times(1.0, 1.0)] + [Times(0.5, 0.5)] * (len(plans) - 1)] * 2

    session = Broken(problem(), small(1))
    search = session.search
    search.standard_plan = search.best_plan = "own"
    search.standard = search.best = Times(1.0, 1.0)
    for number, plan in enumerate(["bad", "good", "fair"], 1):
        search.trials.append(
            Trial(number, plan, "measured", times=Times(0.5, 0.5), ratio=0.4 + number / 10)
        )
    session._compare_last()
    assert search.best_plan == "good"
    assert asked[-1] == ["own", "good", "fair"]
