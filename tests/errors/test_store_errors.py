"""Files of operators that cannot be read or written, or hold what this version does not take."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from stores import LAYERS, SQUARE, cache_error, edited, named, with_checksum

import tensor_comprehensions as tc
from tensor_comprehensions import _torch


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users can reach, as they cannot those that pytest makes."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """What the administrator may do says nothing of others."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    none = tmp_path / "none.tc.pb"
    said = cache_error(lambda: tc.load(none))
    assert said == (
        f"cannot read '{none}': No such file or directory; tensor_comprehensions.save writes it"
    )
    said = cache_error(lambda: tc.load(tmp_path))
    assert said == f"cannot read '{tmp_path}': Is a directory; a file was expected"
    none.touch()
    said = cache_error(lambda: tc.load(none))
    assert said == f"'{none}' is empty; tensor_comprehensions.save writes it"
    assert "it is a device or a pipe" in cache_error(lambda: tc.load("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    assert "it is a device or a pipe" in cache_error(lambda: tc.load(tmp_path / "pipe"))
    large = tmp_path / "large.tc.pb"
    with large.open("wb") as file:
        file.truncate(1 << 40)  # without taking the room
    assert "it has 1099511627776 bytes" in cache_error(lambda: tc.load(large))


@pytest.mark.parametrize(
    ("path", "said"),
    [("a\0b", r"a NUL character in the path 'a\x00b'"), (b"a\xff", "is not UTF-8 at character 1")],
)
def test_paths_that_name_no_file(
    path: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends at the NUL is another file."""
    monkeypatch.chdir(tmp_path)
    tc.save("a", tc.define(SQUARE))
    before = Path("a").read_bytes()
    x = torch.ones(3)
    for action in (
        lambda: tc.load(path),
        lambda: tc.save(path, tc.define(LAYERS)),
        lambda: tc.define(SQUARE, cache=path),
        lambda: tc.autotune(SQUARE, "store_square", x, cache_filename=path),
        lambda: tc.MappingOptionsCache(path).load(SQUARE, "store_square", [x], 1),
        lambda: tc.TunerConfig().log(path),
        lambda: tc.cache_dir(path),
    ):
        assert said in cache_error(action)
    with pytest.raises(tc.TCError, match="NUL"):
        _torch.Store.read("a\0b", False)
    assert os.listdir() == ["a"] and Path("a").read_bytes() == before


def test_permissions(open_folder: Path) -> None:
    secret, t = open_folder / "a.tc.pb", tc.define(SQUARE)
    tc.save(secret, t)
    secret.chmod(0)
    with without_privileges():
        assert cache_error(lambda: tc.load(secret)) == f"cannot read '{secret}': Permission denied"
    secret.chmod(0o444)
    open_folder.chmod(0o555)
    before = secret.read_bytes()
    with without_privileges():
        for file in (secret, open_folder / "b.tc.pb"):
            said = cache_error(lambda file=file: tc.save(file, tc.define(LAYERS)))
            assert said == (
                f"cannot write '{file}': Permission denied; saving makes files beside it, as "
                f"'{file}.lock'"
            )
    open_folder.chmod(0o755)
    assert secret.read_bytes() == before
    assert os.listdir(open_folder) == ["a.tc.pb"]


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    t = tc.define(SQUARE)
    there = tmp_path / "no" / "a.tc.pb"
    said = cache_error(lambda: tc.save(there, t))
    assert said == (
        f"cannot write '{there}': No such file or directory; saving makes files beside it, as "
        f"'{there}.lock'"
    )
    assert "Is a directory" in cache_error(lambda: tc.save(tmp_path, t))
    assert not (tmp_path / "no").exists()
    file = tmp_path / "a.tc.pb"
    file.write_text("notes of somebody")
    assert "is no file that" in cache_error(lambda: tc.save(file, t))
    assert file.read_text() == "notes of somebody"
    assert os.listdir(tmp_path) == ["a.tc.pb"]


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    t = tc.define(SQUARE)
    made = tc.define(SQUARE, tc.make_naive_options_factory(), namespace="store_factory")
    said = cache_error(lambda: tc.save(file, t, made))
    assert said.startswith("store_square takes its options from a function, which a file cannot")
    pair = tc.make_autograd(t.store_square, lambda a, d_b: 2 * a * d_b)
    said = cache_error(lambda: tc.save(file, pair))
    assert said.startswith("the backward of store_square is a Python function")
    said = cache_error(lambda: tc.save(file, t, torch.nn.Linear(2, 2)))
    assert said.startswith("no definition was found in Linear")
    with pytest.raises(TypeError, match="not int"):
        tc.save(file, t, 3)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_a_newer_version(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    tc.save(file, tc.define(SQUARE))
    edited(file, "version: 1\n", "version: 12\n")
    before = file.read_bytes()
    for action in (lambda: tc.load(file), lambda: tc.save(file, tc.define(LAYERS))):
        said = cache_error(action)
        assert f"'{file}' has version 12 of the form of stores" in said
        assert "reads up to 1: install the one that saved it, or a newer one" in said
    assert file.read_bytes() == before


def test_a_text_that_this_version_refuses(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    good = tc.define(named("store_good"), namespace="store_refused")
    bad = tc.define(named("store_bad"), namespace="store_refused")
    tc.save(file, good, bad)
    edited(
        file, "def store_bad(float(N) a) -> (b) { b(i)", "def store_bad(float(N) a) -> (b) { c(i)"
    )
    edited(file, 'namespace: "store_refused"', 'namespace: "store_not_yet"')
    said = cache_error(lambda: tc.load(file))
    place = f"text 2 of 2 in '{file}', which defines store_bad, is refused by this version: 1:31"
    assert said.startswith(place), said
    assert "c(i) = 1 * a(i)" in said and "^" in said
    assert not _torch.is_registered("store_not_yet", "store_good"), "nothing was registered"
    edited(file, "store_bad(", "store_worse(")
    edited(file, "{ c(i)", "{ b(i)")
    assert "it defines store_worse" in cache_error(lambda: tc.load(file))


def test_options_that_this_version_does_not_have(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    for old, new, said in (
        ('preset: "naive"', 'preset: "none"', "unknown preset 'none'"),
        ("unroll: 1\n", "unroll: 0\n", "MappingOptions.unroll(0)"),
        ("outer_fusion: FUSION_PRESERVE_3_COINCIDENT", "", "a fusion strategy that this version"),
        ("identity: false", "identity: true", "options that no setters give"),
        ("origin: ORIGIN_USER", "", "an origin that this version does not have"),
    ):
        file.unlink(missing_ok=True)
        tc.save(file, tc.define(SQUARE, "naive"))
        edited(file, old, new)
        found = cache_error(lambda: tc.load(file))
        assert said in found and f"text 1 of 1 in '{file}'" in found, found


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    tc.save(file, tc.define(named("store_taken", 5), namespace="store_taken_0"))
    edited(file, '"store_taken_0"', '"store_taken_1"')
    held = tc.define(named("store_taken", 6), namespace="store_taken_1")
    with pytest.warns(UserWarning, match=r"store_taken_1.store_taken stays with an ear") as caught:
        (loaded,) = tc.load(file)
    assert caught[0].filename == __file__
    x = torch.ones(2)
    assert torch.equal(loaded.store_taken(x), 5 * x)
    assert torch.equal(torch.ops.store_taken_1.store_taken(x), 6 * x)
    del held
    assert torch.equal(torch.ops.store_taken_1.store_taken(x), 5 * x)
    edited(file, '"store_taken_1"', '"store_taken_2"')
    with torch.library._scoped_library("store_taken_2", "FRAGMENT") as library:
        library.define("store_taken(Tensor a) -> Tensor")
        said = cache_error(lambda: tc.load(file))
    assert said.startswith(
        f"store_taken of '{file}' cannot be registered: torch.ops.store_taken_2."
    )
    assert "exists already and was not defined here" in said


def test_damaged_files(tmp_path: Path) -> None:
    """Every cut and thousands of changes are noticed. With the checksum made right they are looked
    at field by field, in tests/cpp/store_test.cpp too, under the sanitizers there."""
    file = tmp_path / "a.tc.pb"
    t = tc.define(SQUARE)
    tc.save(file, t, tc.make_autograd(t.store_square))
    valid = file.read_bytes()

    def write(data: bytes) -> None:
        file.unlink()  # a file that is cut to nothing and written again waits for the disk
        file.write_bytes(data)

    for size in range(1, len(valid)):
        write(valid[:size])
        said = cache_error(lambda: _torch.Store.read(str(file), False))
        assert "cut short" in said, said
    generator = random.Random(0)
    outcomes = {"refused": 0, "read": 0}
    for k in range(3000):
        data = bytearray(valid)
        for _ in range(generator.randint(1, 3)):
            data[generator.randrange(len(data) - 5)] ^= 1 << generator.randrange(8)
        if bytes(data) != valid and k % 10 == 0:
            write(bytes(data))
            said = cache_error(lambda: _torch.Store.read(str(file), False))
            assert "damaged" in said or "is no file" in said, said
        write(with_checksum(bytes(data)))
        try:
            store = _torch.Store.read(str(file), False)
            for index, text in enumerate(store.texts()):
                assert text.definitions and text.namespace.isidentifier()
                store.check_text(index)
            outcomes["read"] += 1
        except tc.CacheError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100, outcomes
