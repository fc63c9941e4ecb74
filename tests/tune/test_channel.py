"""What passes between the tuning process and its helpers."""

from __future__ import annotations

import os
import socket
import struct

import pytest
import torch

from tensor_comprehensions._tuning import tensors
from tensor_comprehensions._tuning.channel import Channel, Closed
from tensor_comprehensions._tuning.worker import summary


def test_messages_and_descriptors() -> None:
    own, other = Channel.pair()
    read, write = os.pipe()
    own.send({"a": [1, 2.5, None, "x" * 100_000]}, (write,))
    message, (received,) = other.receive()
    assert message == {"a": [1, 2.5, None, "x" * 100_000]}
    os.write(received, b"through")
    assert os.read(read, 7) == b"through"
    for descriptor in (read, write, received):
        os.close(descriptor)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0" * 5,
        struct.pack("!QI", 1 << 40, 0),
        struct.pack("!QI", 4, 0) + b"nope",
        struct.pack("!QI", 2, 0) + b"[]",
        struct.pack("!QI", 2, 3) + b"{}",
    ],
)
def test_what_is_no_message(garbage: bytes) -> None:
    """A process whose memory a kernel has spoilt may send anything."""
    first, second = socket.socketpair()
    second.sendall(garbage)
    second.close()
    with pytest.raises(Closed):
        Channel(first).receive()


def test_sending_to_nobody() -> None:
    own, other = Channel.pair()
    other.close()
    with pytest.raises(Closed):
        own.send({"a": "x" * 1_000_000})


def tensors_of_all_layouts() -> list[torch.Tensor]:
    base = torch.arange(240, dtype=torch.float32).reshape(2, 3, 5, 8)
    return [
        base,
        base.transpose(1, 3),
        base.to(memory_format=torch.channels_last),
        base[:, ::2, 1:, ::3],
        base[0, 0, 0, 0],
        base[:0],
        torch.ones(3, 1, dtype=torch.int64).expand(3, 4),
        torch.randn(7).to(torch.bfloat16),
        torch.rand(4, 4) < 0.5,
        base.flatten()[3:90],  # not aligned to lines
        torch.arange(9, dtype=torch.uint8),
    ]


def test_tensors_keep_layout_values_and_alignment() -> None:
    sent = tensors_of_all_layouts()
    described, descriptor = tensors.write(sent)
    try:
        received = tensors.read(described, descriptor)
    finally:
        os.close(descriptor)
    assert len(received) == len(sent)
    for a, b in zip(sent, received, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert torch.equal(a, b)
        assert a.numel() == 0 or a.data_ptr() % 64 == b.data_ptr() % 64
        assert a.data_ptr() != b.data_ptr() or a.numel() == 0


def test_summary() -> None:
    found = summary([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (found["minimum"], found["median"], found["runs"]) == (1.0, 3.0, 5)
    assert found["spread"] == pytest.approx(3.0)
    assert summary([2.0])["spread"] == 1.0
