"""The folders of the core: includes point one way, and a folder has one subject."""

from __future__ import annotations

import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "csrc"
#: From the bottom up; those of one line may include each other.
LAYERS = (
    ("base",),
    ("machine",),
    ("ir",),
    ("lang", "einsum", "isa", "poly", "rewrite"),
    ("plan",),
    ("tune",),
    ("nest",),
    ("runtime",),
    ("codegen",),
    ("store",),
)
INCLUDE = re.compile(r'^#include "(?:(\w+)/)?((?:\w+/)*\w+\.h)"', re.M)


def test_includes_point_down() -> None:
    heights = {name: k for k, layer in enumerate(LAYERS) for name in layer}
    wrong, seen = [], 0
    for folder in heights:
        for path in sorted((CORE / folder).rglob("*.[hc]*")):
            for included, header in INCLUDE.findall(path.read_text()):
                seen += 1
                # What is above all folders lies in none.
                if included != "tc" and heights.get(included, len(LAYERS)) > heights[folder]:
                    wrong.append(f"{path.relative_to(CORE)} includes {included or '.'}/{header}")
    assert not wrong, "\n".join(wrong)
    assert seen > 1000


def test_every_folder_is_in_a_layer() -> None:
    known = {name for layer in LAYERS for name in layer} | {"api", "include", "torch", "caffe2"}
    assert {path.name for path in CORE.iterdir() if path.is_dir()} == known


def test_folders_have_few_files() -> None:
    """At most some 25: what is more has a second subject."""
    for folder in (*CORE.rglob("*"), *(CORE.parent / "tests").rglob("*")):
        if folder.is_dir() and folder.name not in ("planted_bugs", "__pycache__"):
            files = [path.name for path in folder.iterdir() if path.suffix in (".cpp", ".h", ".py")]
            assert len(files) <= 28, f"{folder} has {len(files)} files"


def test_libraries_are_included_in_one_place() -> None:
    """Their pitfalls and version guards are written there."""
    places = {"Halide": "ir/halide.h", "isl/": "poly/isl.h"}
    for path in sorted(CORE.rglob("*.[hc]*")):
        for library, place in places.items():
            if re.search(rf"^#include <{library}", path.read_text(), re.M):
                assert path == CORE / place, f"{path} includes {library}"
