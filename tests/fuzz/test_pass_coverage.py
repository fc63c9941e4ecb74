"""Every pass of the compiler does something for some random program of CI."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from block import Block, Passes
from kinds import list_blocks
from pass_coverage import documented


# Where no other test has run them yet, all blocks are run here.
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_pass_fires(block_of: Callable[[str, int, int], Block]) -> None:
    """Each is counted where it changed something, or was chosen; what none of the programs reaches
    is tested by none of them. TC_UPDATE_GOLDEN=1 writes the table of docs/testing.md."""
    passes = Passes()
    for block in list_blocks():
        passes.add(block_of(*block).passes)
    if os.environ.get("TC_UPDATE_GOLDEN"):
        from pass_coverage import write

        write(passes)
    assert len(passes.names()) > 100
    # Some passes are for one program in a thousand, and look at vectors and caches: from other
    # seeds, or on other processors than the table's, a few of them may have to wait.
    idle = [name for name in passes.names() if passes.fired[name] == 0]
    assert len(idle) <= 4, idle
    # The page has a count for each, of the processor that it was drawn on.
    assert documented().keys() == set(passes.names())
    assert list(documented().values()).count(0) <= 4
