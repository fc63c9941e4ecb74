"""The library of definitions: texts of common operators, loaded by name.

    convolution = tc.ops.load("group_convolution").group_convolution

``docs/ops.md`` lists them all. A file holds an operator and its relatives; each definition stands
below a comment with its meaning and the PyTorch function that it equals. Ranks are fixed by the
text; the element type is float, and a text for another is a replacement of words away.
"""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path

from tensor_comprehensions._define import TC, define
from tensor_comprehensions._errors import TCError

__all__ = ["definitions", "load", "names", "source"]

_DEFINITION = re.compile(r"^def\s+(\w+)", re.MULTILINE)


def __dir__() -> list[str]:
    return __all__


@functools.cache
def _texts() -> dict[str, str]:
    """The text of every file by its name without ``.tc``."""
    # A wheel has the files beside this one; in a checkout they are at the top.
    beside = Path(__file__).resolve().parent
    for folder in (beside, beside.parent.parent / "ops"):
        texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.tc"))}
        if texts:
            return texts
    raise TCError(f"the definitions of the library are not in {beside}: install the package again")


def names() -> list[str]:
    """The names of all files of the library."""
    return list(_texts())


@functools.cache
def _files() -> dict[str, str]:
    return {
        definition: name
        for name, text in _texts().items()
        for definition in _DEFINITION.findall(text)
    }


def definitions() -> dict[str, str]:
    """Every definition of the library, with the name of the file that holds it."""
    return dict(_files())


def _find(name: str) -> str:
    """The file of a name, which is its own or that of a definition in it."""
    if not isinstance(name, str):
        raise TypeError(f"the name of an operator was expected, not {type(name).__name__}")
    if name in _texts():
        return name
    files = _files()
    if name in files:
        return files[name]
    known = sorted({*_texts(), *files})
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}? It has: " if close else "; it has: "
    raise TCError(f"the library has no operator {name!r}{hint}{', '.join(known)}")


def source(name: str) -> str:
    """The text of a file, with its comments. ``name`` is as for ``load``; TCError likewise."""
    return _texts()[_find(name)]


def load(
    name: str, options: object = None, *, namespace: str = "tc_ops", cache: str | None = None
) -> TC:
    """The definitions of one file: ``load("matmul").matmul_transposed_b(A, B)``.

    ``name`` is a file's or a definition's; the whole file is loaded either way. ``options`` and
    ``cache`` are those of ``define``. The operators are ``torch.ops.tc_ops.<definition>``, and not
    in the namespace ``tc`` of ``define``: a text of your own that is called ``matmul`` has that
    name for itself, whichever comes first. TCError, with what is near, for a name that is unknown.
    """
    return define(source(name), options, namespace=namespace, cache=cache)
