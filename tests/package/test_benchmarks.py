"""That figures are what the benchmarks measured: files of results, the README's table, verdicts."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

import ab
import command
import definitions
import harness
import pytest
import table

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def close(a: float, b: float) -> bool:
    """Files have four digits."""
    return abs(a - b) <= 2e-3 * abs(b)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_ratio_follows_from_the_samples(path: Path) -> None:
    report = json.loads(path.read_text())
    assert len(report["commit"]) == 40, "of a commit, without changes"
    assert {"cpu", "caches", "huge_pages", "memory", "torch"} <= report["machine"].keys()
    assert report["command"][0].startswith("benchmarks/")
    for c in map(command.comparison, report["comparisons"]):
        for name, timing in c.timings.items():
            again = harness.timing(timing.samples)
            assert close(again.minimum, timing.minimum), (c.workload, name)
            assert close(again.median, timing.median), (c.workload, name)
        if "verdict" in c.notes:
            continue  # of two versions, from pairs
        ours = c.timings["ours"]
        assert close(c.timings[c.best].minimum / ours.minimum, c.ratio), c.workload
        assert close(c.timings[c.best_median].median / ours.median, c.ratio_of_medians), c.workload
    if not report["comparisons"]:
        assert report.keys() & {"seconds", "fresh"}, "figures of another kind"


def test_the_readme_has_the_table_of_its_file() -> None:
    found = table.MARKED.search((ROOT / "README.md").read_text())
    assert found
    source = ROOT / found[1]
    picture = source.with_suffix(".png")
    assert picture.exists()
    report = json.loads(source.read_text())
    assert found[2] == table.markdown(report, str(picture.relative_to(ROOT)))


def test_no_file_is_written_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    first = command.save("some", [], rows=1)
    second = command.save("some", [], rows=2)
    assert first != second
    assert json.loads(first.read_text())["rows"] == 1
    assert json.loads(second.read_text())["rows"] == 2


def test_a_run_of_some_rows_is_not_kept() -> None:
    options = ["--rounds", "2", "--round-seconds", "0.01", "--no-compiled"]
    done = subprocess.run(
        [sys.executable, "benchmarks/functions.py", "square root, float", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "square root, float" in done.stdout
    assert "saved" not in done.stdout
    assert sorted((ROOT / "benchmarks" / "results").glob("*.json")) == RESULTS


def draw(ratio: float, noise: float, seed: int) -> list[list[float]]:
    """Ratios of pairs: each set of inputs lies otherwise in memory, each pair has noise, some are
    disturbed."""
    draws = random.Random(seed)
    sets = []
    for _ in range(3):
        place = draws.gauss(0, noise / 4)
        sets.append(
            [
                ratio * (1 + place + draws.gauss(0, noise)) * draws.choice([1] * 8 + [0.7, 1.4])
                for _ in range(9)
            ]
        )
    return sets


def test_every_definition_has_sizes_to_be_measured_at() -> None:
    for family, cases in definitions.FAMILIES.items():
        for case in cases:
            numbers = definitions.sizes(family, case)
            assert len(numbers) == len(case.sizes[0]), case.definition


def test_verdicts() -> None:
    """With a noise of one percent a pair, 3 % are found and equal kernels are called equal."""
    seeds = range(100)
    slower = [ab.judge(draw(0.97, 0.01, seed)).word for seed in seeds]
    faster = [ab.judge(draw(1.03, 0.01, seed)).word for seed in seeds]
    same = [ab.judge(draw(1.0, 0.01, seed)).word for seed in seeds]
    assert slower.count("slower") >= 97
    assert "faster" not in slower
    assert faster.count("faster") >= 97
    assert same.count("same") >= 95
    assert ab.judge(draw(1.0, 0.2, 0)).word == "unclear"


@pytest.mark.slow
def test_two_versions_take_turns() -> None:
    options = argparse.Namespace(names=["square root, float"], environment={}, threads=1)
    options.sets, options.rounds, options.seconds = 2, 3, 0.001
    options.benchmarks = ["functions"]
    measured, failed = ab.measure({"A": ROOT, "B": ROOT}, options)
    assert not failed
    (one,) = measured.values()
    assert "functions: square root, float" in measured
    assert [len(ratios) for ratios in one.sets] == [3, 3]
    assert [len(seconds) for seconds in one.samples.values()] == [6, 6]


def test_a_version_that_fails_says_why() -> None:
    options = argparse.Namespace(names=[], environment={}, threads=1)
    version = ab.Version("A", ROOT, options)
    with pytest.raises(ab.Failed, match="No module named 'nothing'"):
        version("benchmark", "nothing")
    version.end()
    assert version.process.returncode == 0
