"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from sampling import sample

# Tests that look at our kernels must find them, whatever a measurement would say of the library on
# this machine today. Those of library calls say otherwise.
os.environ.setdefault("TC_MACHINE", "library_rate=1")


@pytest.fixture
def described_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions for the machine of explained.py, whatever this one is."""
    from explained import MACHINE

    monkeypatch.setenv("TC_MACHINE", MACHINE)


def point_of(case: pytest.Function) -> tuple:
    """A value for every parameter; names that are given values together are one."""
    values = {name: id(value) for name, value in case.callspec.params.items()}
    point = []
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0]
        names = names.split(",") if isinstance(names, str) else names
        point.append(tuple(values.pop(name.strip()) for name in names))
    return (*point, *values.values())


# Before -m selects.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of tests that are marked `sampled`, marks those cases slow that make test leaves out."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tests.items():
        every = cases[0].get_closest_marker("sampled").kwargs.get("every")
        points = [point_of(case) for case in cases]
        try:
            kept = set(sample(points, every))
        except ValueError as error:
            raise pytest.UsageError(f"{name}: {error}") from error
        for k, case in enumerate(cases):
            if k not in kept:
                case.add_marker(pytest.mark.slow)
