"""Messages between processes: JSON over a Unix socket, with descriptors of files.

JSON, since a helper process may have run a kernel that wrote anywhere: what it sends then is no
message, and nothing that it could send is run.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from typing import Any

_HEADER = struct.Struct("!QI")  # bytes of the message, number of descriptors
_MOST_DESCRIPTORS = 64
_MOST_BYTES = 1 << 28


class Closed(EOFError):
    """The other end is gone, or sends what is no message."""


class Channel:
    """One end of a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(first), cls(second)

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        data = json.dumps(message).encode()
        header = _HEADER.pack(len(data), len(descriptors))
        ancillary = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            if descriptors
            else []
        )
        try:
            # At once: a process that is stopped between two writes leaves half a message, for
            # which the other end would wait.
            sent = self._socket.sendmsg([header, data], ancillary)
            self._socket.sendall((header + data)[sent:])
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Waits for a message; Closed where there will be none."""
        descriptors: list[int] = []
        header = self._read(_HEADER.size, descriptors)
        size, count = _HEADER.unpack(header)
        if size > _MOST_BYTES or count != len(descriptors):
            raise Closed("no message")
        try:
            message = json.loads(self._read(size, descriptors))
        except ValueError as error:
            raise Closed("no message") from error
        if not isinstance(message, dict):
            raise Closed("no message")
        return message, descriptors

    def _read(self, size: int, descriptors: list[int]) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part, found, _, _ = socket.recv_fds(
                    self._socket, min(size - len(data), 1 << 20), _MOST_DESCRIPTORS
                )
            except OSError as error:
                raise Closed(str(error)) from error
            descriptors += found
            if not part:
                raise Closed("the other process has ended")
            data += part
        return data
