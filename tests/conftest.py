"""What holds for all tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cuda_cases import cases  # noqa: F401
from sampling import of_part, sample

# Those run in the Python that has Caffe2 (make test-caffe2).
collect_ignore = ["caffe2"]

# Tests that look at our kernels must find them, whatever a measurement would say of the library on
# this machine today. Those of library calls say otherwise.
os.environ.setdefault("TC_MACHINE", "library_rate=1")


@pytest.fixture
def described_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions for the machine of explained.py, whatever this one is."""
    from explained import MACHINE

    monkeypatch.setenv("TC_MACHINE", MACHINE)


@pytest.fixture(autouse=True)
def threads_stay() -> Iterator[None]:
    """A number of threads that a test sets ends with it: what is tuned, for one, is kept by it."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


def point_of(case: pytest.Function) -> tuple:
    """A value for every parameter; names that are given values together are one."""
    values = {name: id(value) for name, value in case.callspec.params.items()}
    point = []
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0]
        names = names.split(",") if isinstance(names, str) else names
        point.append(tuple(values.pop(name.strip()) for name in names))
    return (*point, *values.values())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-part", metavar="K/N", help="of the slow cases, the Kth of N parts")


def pytest_report_header(config: pytest.Config) -> str:
    part = config.option.slow_part
    return f"slow cases: {f'part {part}, by --slow-part {part}' if part else 'all that -m leaves'}"


# Before -m selects.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps those slow cases, sampled ones among them, that are of --slow-part."""
    mark_slow_cases(items)
    if config.option.slow_part:
        try:
            kept = of_part([item.nodeid for item in items], config.option.slow_part)
        except ValueError as error:
            raise pytest.UsageError(f"--slow-part: {error}") from error
        slow = [bool(item.get_closest_marker("slow")) for item in items]
        config.hook.pytest_deselected(
            items=[item for item, left in zip(items, slow) if left and item.nodeid not in kept]
        )
        items[:] = [item for item, left in zip(items, slow) if not left or item.nodeid in kept]


def mark_slow_cases(items: list[pytest.Item]) -> None:
    """Those of tests that are marked `sampled`, but for the cases that make test runs."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, family in tests.items():
        every = family[0].get_closest_marker("sampled").kwargs.get("every")
        points = [point_of(case) for case in family]
        try:
            kept = set(sample(points, every))
        except ValueError as error:
            raise pytest.UsageError(f"{name}: {error}") from error
        for k, case in enumerate(family):
            if k not in kept:
                case.add_marker(pytest.mark.slow)


# ---- memory of the processes that ran tests

#: What a process may have at its end: kernels, definitions and graphs of one test are not to stay
#: for the next nine thousand.
MOST_MEGABYTES = 2048
USED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[USED] = []
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(Workers(config))


def megabytes(field: str) -> int:
    """VmRSS is what there is now, VmHWM the most that there was."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status).group(1)) // 1024


class Workers:
    """Takes what the processes of pytest -n say at their ends."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_testnodedown(self, node: object) -> None:
        said = getattr(node, "workeroutput", {}).get("memory")
        if said:
            self.config.stash[USED].append((node.gateway.id, *said))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if config.option.collectonly:
        return
    own = (megabytes("VmRSS"), megabytes("VmHWM"))
    if hasattr(config, "workeroutput"):  # of one of the processes
        config.workeroutput["memory"] = own
        return
    used = config.stash[USED]
    if not used:
        used.append(("this process", *own))
    if session.exitstatus == pytest.ExitCode.OK and any(now > MOST_MEGABYTES for _, now, _ in used):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for name, now, most in config.stash[USED]:
        above = f", above {MOST_MEGABYTES}" if now > MOST_MEGABYTES else ""
        terminalreporter.write_line(
            f"memory of {name}: {now} MB at its end{above}, {most} MB at most", red=bool(above)
        )
