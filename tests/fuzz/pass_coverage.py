"""How often the random programs of CI make every pass of the compiler do something.

`python tests/fuzz/pass_coverage.py` prints the table of `docs/testing.md`; `--write` puts it there.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from block import Passes, run_block

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
_TABLE = re.compile(r"(<!-- passes -->\n)(.*?)(<!-- end -->\n)", re.S)
HEAD = "| list | passes, and how often each changed something |\n|---|---|\n"


def table(passes: Passes) -> str:
    rows = []
    for name, each in sorted(passes.lists.items()):
        cells = [f"`{one}` {passes.fired[f'{name}.{one}']}" for one in each]
        rows.append(f"| {name} | {', '.join(cells)} |\n")
    return HEAD + "".join(rows)


def documented() -> dict[str, int]:
    """What the page says of every pass."""
    counts = {}
    for row in _TABLE.search(PAGE.read_text())[2].splitlines()[2:]:
        _, name, cells, _ = (cell.strip() for cell in row.split("|"))
        for one, count in re.findall(r"`(\w+)` (\d+)", cells):
            counts[f"{name}.{one}"] = int(count)
    return counts


def write(passes: Passes) -> None:
    text = PAGE.read_text()
    assert _TABLE.search(text), f"{PAGE} has no place for the table"
    PAGE.write_text(_TABLE.sub(lambda m: m[1] + table(passes) + m[3], text))


def main() -> None:
    from kinds import list_blocks

    passes = Passes()
    spent: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        for block in pool.map(lambda b: run_block(*b, Path(folder)), list_blocks()):
            passes.add(block.passes)
            spent[block.kind] += block.seconds
            for message in block.failures.values():
                print(message)
    print(table(passes))
    print(", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in spent.items()))
    never = [name for name in passes.names() if not passes.fired[name]]
    if "--write" in sys.argv:
        write(passes)
    if never:
        raise SystemExit(f"never: {', '.join(never)}")


if __name__ == "__main__":
    main()
