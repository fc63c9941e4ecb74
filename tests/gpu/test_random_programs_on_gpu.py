"""Random programs on a GPU (tests/fuzz/kinds.py), from the first seed of CI on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

from block import run_block
from kinds import GPU_KINDS
from run import that_tested_little
from seeds import count, first_seed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
BLOCKS = [
    (name, start, min(kind.block, count(kind.count) - start))
    for name, kind in GPU_KINDS.items()
    for start in range(0, count(kind.count), kind.block)
]


@pytest.mark.parametrize(("name", "start", "programs"), BLOCKS)
def test_block(name: str, start: int, programs: int, tmp_path: Path) -> None:
    block = run_block(name, first_seed() + start, programs, tmp_path)
    assert not block.failures, "\n\n".join(block.failures.values())
    assert block.done == programs
    assert not that_tested_little({name: programs}, {name: block.counts})
