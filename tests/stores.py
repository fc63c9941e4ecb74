"""What the tests of stores save, and files changed as another program would."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import tensor_comprehensions as tc

PROTO = Path(__file__).resolve().parent.parent / "csrc" / "store" / "store.proto"

LAYERS = """
# What the comments say is kept.
def store_hidden(float(B, I) x, float(O, I) w) -> (y) {
    y(b, o) +=! x(b, i) * w(o, i)
    y(b, o) = tanh(y(b, o))
}
def store_double(float(N) a) -> (b) { b(i) = 2 * a(i) }
"""
SQUARE = "def store_square(float(N) a) -> (b) { b(i) = a(i) * a(i) }"
# Wrong by a factor, so that nothing else can be taken for it.
SQUARE_GRAD = (
    "def store_square_grad(float(N) a, float(N) d_b) -> (d_a) { d_a(i) = 20 * a(i) * d_b(i) }"
)


def protoc(mode: str, data: bytes) -> bytes:
    command = ["protoc", f"--{mode}=tensor_comprehensions.store.File"]
    command += [f"--proto_path={PROTO.parent}", PROTO.name]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def with_checksum(data: bytes) -> bytes:
    return data[:-4] + zlib.crc32(data[:-5]).to_bytes(4, "little")


def edited(file: Path, old: str, new: str) -> None:
    """Changes a file as another program would that knows its form."""
    text = protoc("decode", file.read_bytes()).decode()
    assert old in text, text
    file.write_bytes(with_checksum(protoc("encode", text.replace(old, new).encode())))


def named(name: str, factor: int = 1) -> str:
    return f"def {name}(float(N) a) -> (b) {{ b(i) = {factor} * a(i) }}"


def cache_error(action: Callable[[], object]) -> str:
    with pytest.raises(tc.CacheError) as caught:
        action()
    return str(caught.value)
