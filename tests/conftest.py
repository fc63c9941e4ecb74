"""What holds for all tests."""

from __future__ import annotations

import os

import pytest

# Tests that look at our kernels must find them, whatever a measurement would say of the library on
# this machine today. Those of library calls say otherwise.
os.environ.setdefault("TC_MACHINE", "library_rate=1")


@pytest.fixture
def described_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions for the machine of explained.py, whatever this one is."""
    from explained import MACHINE

    monkeypatch.setenv("TC_MACHINE", MACHINE)
