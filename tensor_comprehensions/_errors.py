"""The exceptions of the package."""

from __future__ import annotations

from typing import Any

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
