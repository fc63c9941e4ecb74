"""Random programs on a GPU (tests/fuzz/kinds.py), from the first seed of CI on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

from block import run_block
from kinds import GPU_KINDS, list_blocks
from run import that_tested_little

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.mark.parametrize(("name", "first", "programs"), list_blocks(GPU_KINDS))
def test_block(name: str, first: int, programs: int, tmp_path: Path) -> None:
    block = run_block(name, first, programs, tmp_path)
    assert not block.failures, "\n\n".join(block.failures.values())
    assert block.done == programs
    assert not that_tested_little({name: programs}, {name: block.counts})
