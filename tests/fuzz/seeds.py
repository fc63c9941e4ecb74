"""Where the random programs of the tests begin.

CI has to be reproducible, and should not test the same programs for years. So the number below is a
rule with two halves: all kinds of random programs begin at it, whatever machine they run on; and it
is raised, to a seed that nobody has run before, after a longer run from other seeds was green
(`make fuzz`, which draws its seeds from the clock). A seed that fails becomes a test of its own,
since the programs of a seed change with their generators.
"""

from __future__ import annotations

import os

#: 2026-11-27.
FIRST_SEED = 4_000_000


def first_seed() -> int:
    """TC_FUZZ_SEED instead, where it is set."""
    return int(os.environ.get("TC_FUZZ_SEED", FIRST_SEED))


def count(programs: int) -> int:
    """How many programs of a kind: TC_FUZZ_PERCENT of them, 100 by default."""
    return max(1, programs * int(os.environ.get("TC_FUZZ_PERCENT", 100)) // 100)
