"""Paths that users name, as the core takes them."""

from __future__ import annotations

import os

from tensor_comprehensions._errors import CacheError

Path = str | os.PathLike[str]


def file_name(path: Path) -> str:
    """The path as a string. CacheError for what the core, whose strings are UTF-8 and end with a
    NUL, would take for another one."""
    name = os.fsdecode(path)
    if "\0" in name:
        raise CacheError(f"a NUL character in the path {name!r}, which no file has in its name")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise CacheError(
            f"the path {name!r} is not UTF-8 at character {error.start}; rename the file, or reach "
            f"it by a link"
        ) from error
    return name
