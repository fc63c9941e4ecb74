"""docs/ops.md, made from the comments of ops/."""

from __future__ import annotations

import re
from dataclasses import dataclass

import tensor_comprehensions as tc
from operators.published import MEANT, PUBLISHED

HEADER = """\
# The library of definitions

`tc.ops.load(name)` gives the definitions of a file of `ops/`; `name` is the file's or that of any
definition in it. `tc.ops.names()` lists the files, `tc.ops.source(name)` is a text to read or to
change.

```python
import torch
import tensor_comprehensions as tc

T = tc.ops.load("group_convolution")
images, filters, bias = torch.randn(8, 4, 3, 16, 16), torch.randn(4, 5, 3, 3, 3), torch.randn(4, 5)
output = T.group_convolution(images, filters, bias)  # (8, 4, 5, 14, 14)
output = torch.ops.tc_ops.group_convolution(images, filters, bias)  # the same operator
```

Ranks are fixed in a text: functions of single elements are of matrices, and any contiguous tensor
is a view of one. Losses are means over all elements. Elements are `float`; for `double` replace the
word: `tc.define(re.sub(r"\\bfloat\\b", "double", tc.ops.source("softmax")))`.

With `half` or `bfloat16` for the word, sums and other temporaries are stored in that type too. In
`half` those beyond 65,504 are infinite, as those of `mean_rows`, `mse_loss` and
`layer_normalization` soon are, and numbers such as an epsilon of 1e-12 are 0; in `bfloat16` they
have three digits. With an integer type they wrap around, and quotients are rounded. So do not
replace the word where a definition has a sum, an exponential or such a number: write the type at
the parameters, compute in `float` by a cast of what is read, and cast what is returned.

```python
T = tc.define(\"\"\"
def mean_rows(half(N, K) input) -> (output) {
    sum(n) +=! float(input(n, k))
    output(n) = half(sum(n) / K)
}
\"\"\")
means = T.mean_rows(torch.full((3, 4096), 100.0, dtype=torch.half))  # 100, and not infinity
```

Definitions that only move elements, as those of `transpose`, or choose among them, as `max_rows`,
are right with any word.

The tables below repeat the first sentence of each definition's comment and what it equals in
PyTorch. `tests/library/test_ops.py` holds each definition to that.
"""

FOOTER = """\
## The texts of the papers

Every text that the papers show, and the definition that computes the same.

| text | definition |
|---|---|
"""


@dataclass(frozen=True)
class Entry:
    """One definition of a file: its head on one line, and the parts of its comment."""

    name: str
    head: str
    meaning: str
    pytorch: str
    papers: str

    def row(self) -> str:
        sentence = re.match(r".*?\.(?=\s|$)", self.meaning, re.DOTALL)
        cells = [f"`{self.head}`", sentence[0] if sentence else self.meaning, self.pytorch]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def entries(name: str) -> list[Entry]:
    """The definitions of a file in order. Each comment stands directly above its definition."""
    found = []
    pattern = re.compile(r"((?:^#[^\n]*\n)*)^def ([^{]*)\{", re.MULTILINE)
    for comment, head in pattern.findall(tc.ops.source(name)):
        parts = {"": [], "PyTorch:": [], "Also": []}
        part = ""
        for line in comment.splitlines():
            words = line.removeprefix("#").strip()
            for start, key in (("PyTorch:", "PyTorch:"), ("Also ", "Also"), ("From ", "Also")):
                if words.startswith(start):
                    part = key
            parts[part].append(words.removeprefix("PyTorch:").strip())
        meaning, pytorch, papers = (" ".join(lines) for lines in parts.values())
        head = " ".join(head.split())
        found.append(Entry(head.partition("(")[0], head, meaning, pytorch, papers))
    return found


def document() -> str:
    parts = [HEADER]
    for name in tc.ops.names():
        rows = "\n".join(entry.row() for entry in entries(name))
        parts.append(
            f"## {name}.tc\n\n| definition | meaning | in PyTorch |\n|---|---|---|\n{rows}\n"
        )
    pairs = {**{text: definition for text, (definition, _) in PUBLISHED.items()}, **MEANT}
    rows = "\n".join(f"| {text} | `{definition}` |" for text, definition in pairs.items())
    parts.append(FOOTER + rows + "\n")
    return "\n".join(parts)
