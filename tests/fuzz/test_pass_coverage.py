"""Every pass of the compiler does something for some random program of CI."""

from __future__ import annotations

import os
from collections.abc import Callable

from block import Block, Passes
from kinds import list_blocks
from pass_coverage import documented


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
    assert not [name for name in passes.names() if passes.fired[name] == 0]
    # The page has a count for each; what it is depends on the processor.
    assert documented().keys() == set(passes.names())
    assert min(documented().values()) > 0
