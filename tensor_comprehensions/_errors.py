"""The exceptions of the package."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from tensor_comprehensions import _torch


class TCError(RuntimeError):
    """Base of everything that this package raises about a text, a call or a file."""


class LanguageError(TCError):
    """The text is wrong: syntax, names, types or ranges.

    The message ends with the source line and a caret. ``line`` and ``column`` are 1-based, 0 when
    unknown.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.line, self.column)


class ShapeError(TCError, ValueError):
    """An argument does not fit the definition: count, rank, size, dtype, device, overlap."""


class CompilationError(TCError):
    """A correct text that cannot be compiled as asked."""


class CacheError(TCError):
    """A file of options or kernels that cannot be read or written."""


def error_class(name: str) -> type[TCError]:
    """That another process has named."""
    classes = (LanguageError, ShapeError, CompilationError, CacheError)
    return next((each for each in classes if each.__name__ == name), TCError)


def forget_locals(error: BaseException) -> None:
    """Empties this package's frames in a traceback, but for those that still run.

    Notebooks keep the last one, and with it the definition that was called and its arguments.
    """
    if torch.compiler.is_dynamo_compiling():
        return  # which does not look into tracebacks
    seen: set[int] = set()
    found: list[BaseException | None] = [error]
    while found:
        each = found.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        found += [each.__cause__, each.__context__]
        part = each.__traceback__
        while part is not None:
            if part.tb_frame.f_globals.get("__name__", "").startswith("tensor_comprehensions."):
                with contextlib.suppress(RuntimeError):
                    part.tb_frame.clear()
            part = part.tb_next


# The codes are those of tc_status in tc/tc.h.
_torch.set_exception_classes(
    {
        1: LanguageError,
        2: ShapeError,
        3: CompilationError,
        4: CacheError,
        5: TCError,
        6: TCError,
    }
)
