"""Blocks of random programs, each run once in a session, whichever test asks for it first."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from block import Block, run_block


@pytest.fixture(scope="session")
def block_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, int], Block]:
    """Runs a block, or takes what another test, perhaps in another process, has made of it."""
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    folder = folder / "fuzz"
    folder.mkdir(exist_ok=True)

    def block_of(kind: str, first: int, programs: int) -> Block:
        made = folder / f"{kind.replace(' ', '_')}-{first}.pickle"
        with open(made.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                made.write_bytes(pickle.dumps(run_block(kind, first, programs, folder)))
            return pickle.loads(made.read_bytes())

    return block_of
