"""How a notebook shows definitions, options and kernels: short, and escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

_MOST_LINES = 40
_MOST_LETTERS = 120


def heading(text: str) -> str:
    """The signature of a definition, from its text, on one line of some length."""
    words = " ".join(text.partition("{")[0].split()).removeprefix("def ")
    return words if len(words) <= _MOST_LETTERS else f"{words[: _MOST_LETTERS - 3]}..."


def names(known: Iterable[str], most: int = 8) -> str:
    """``a, b, c``, and how many more where there are many."""
    every = list(known)
    shown = ", ".join(every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown


def _shortened(text: str, most: int) -> str:
    lines = text.strip("\n").splitlines()
    if len(lines) > most + 1:
        lines = [*lines[:most], f"... {len(lines) - most} more lines"]
    return "\n".join(lines)


def code(text: str) -> str:
    return f"<code>{html.escape(text)}</code>"


def text_block(text: str, most: int = _MOST_LINES) -> str:
    """A text of several lines, as it is."""
    return f"<pre>{html.escape(_shortened(text, most))}</pre>"


def details(summary: str, text: str) -> str:
    """A text that unfolds below a line."""
    return f"<details><summary>{html.escape(summary)}</summary>{text_block(text, 200)}</details>"
