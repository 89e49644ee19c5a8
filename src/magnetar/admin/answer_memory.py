"""The memory of responses in transmission: a bound on the bytes that a broker holds for slow readers.

A large body is sent piece by piece, as fast as its reader accepts it, and counts until the last piece is sent. The sum
is bounded, for messages and for all other responses separately. A message that exceeds the bound is refused before it
is decompressed. Streamed responses (lists, metrics) hold one page each, so their number is bounded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from magnetar.base.errors import Busy, Refused
from magnetar.base.limits import (
    HTTP_ANSWER_BYTES_MAX,
    HTTP_ANSWER_COUNTED_BYTES_MIN,
    HTTP_ANSWERS_BYTES_MAX,
    HTTP_BODIES_BYTES_MAX,
    HTTP_MESSAGES_BYTES_MAX,
    HTTP_PIECE_BYTES,
    HTTP_STREAMS_MAX,
)

if TYPE_CHECKING:
    from magnetar.broker.node import Node


class ByteBudget:
    """A bound on the bytes in transmission of one node."""

    def __init__(self, bytes_max: int = HTTP_MESSAGES_BYTES_MAX, what: str = "messages") -> None:
        self.bytes_max = bytes_max
        self._what = what
        self.bytes = 0

    def check(self, size: int) -> None:
        """Raises `Busy` if `size` more bytes exceed the bound. A message always fits when nothing else is held."""
        if self.bytes and self.bytes + size > self.bytes_max:
            raise Busy(
                f"{self.bytes} bytes of {self._what} are held for other requests; the limit is "
                f"{self.bytes_max}: try again later",
                bytes=size,
            )

    def body(self, payload: bytes, beside: int = 0) -> Pieces:
        """`beside`: bytes of the headers, which are charged with the payload."""
        return Pieces(self, payload, beside)

    @contextmanager
    def charging(self) -> Iterator[Callable[[int], None]]:
        """Releases the bytes charged inside the block at its end. Raises `Busy` if a charge would exceed the bound."""
        charged = 0

        def charge(size: int) -> None:
            nonlocal charged
            self.check(size)
            charged += size
            self.bytes += size

        try:
            yield charge
        finally:
            self.bytes -= charged


class Pieces:
    """A body that releases its bytes once, when it is sent or dropped."""

    def __init__(self, held: ByteBudget, payload: bytes, beside: int = 0) -> None:
        self._held = held
        self._payload = payload
        self._at = 0
        self._charged = len(payload) + beside
        held.bytes += self._charged

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        piece = self._payload[self._at : self._at + HTTP_PIECE_BYTES]
        if not piece:
            self.close()
            raise StopAsyncIteration
        self._at += len(piece)
        return piece

    def close(self) -> None:
        self._held.bytes -= self._charged
        self._charged = 0
        self._payload = b""

    def __del__(self) -> None:  # its reader left before the end
        self.close()


class Streams:
    """The streamed responses of one node."""

    def __init__(self, streams_max: int = HTTP_STREAMS_MAX) -> None:
        self.count = 0
        self._streams_max = streams_max

    def begin(self) -> None:
        """Counts one more stream. Raises `Busy` at the bound."""
        if self.count >= self._streams_max:
            raise Busy(f"{self.count} streamed responses are in progress, which is the limit: try again later")
        self.count += 1


class Stream:
    """A streamed body that releases its place once, when it is sent or dropped."""

    def __init__(self, streams: Streams, pieces: AsyncIterator[bytes]) -> None:
        self._streams: Streams | None = None
        streams.begin()
        self._streams = streams
        self._pieces = pieces

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            self._streams.count -= 1
            self._streams = None

    def __del__(self) -> None:  # its reader left before the end
        self.close()


class Answers:
    """All bounds of one node."""

    def __init__(self) -> None:
        self.messages = ByteBudget()
        self.others = ByteBudget(HTTP_ANSWERS_BYTES_MAX, "answers")
        self.bodies = ByteBudget(HTTP_BODIES_BYTES_MAX, "request bodies")
        self.streams = Streams()

    def charge(self, body: bytes | AsyncIterator[bytes], beside: int = 0) -> bytes | AsyncIterator[bytes]:
        """Returns the body to send instead of this one. Raises `Busy` if it exceeds the bound. `beside`: bytes of its
        headers."""
        if isinstance(body, Pieces):
            return body  # it is charged already
        if isinstance(body, bytes):
            size = len(body) + beside
            if size < HTTP_ANSWER_COUNTED_BYTES_MIN:
                return body
            if size > HTTP_ANSWER_BYTES_MAX:
                raise Refused(
                    f"the answer has {size} bytes; REST returns at most {HTTP_ANSWER_BYTES_MAX}: ask for a part of it",
                    http_status=413,
                )
            self.others.check(size)
            return self.others.body(body, beside)
        return Stream(self.streams, body)


_OF_NODE: WeakKeyDictionary[Node, Answers] = WeakKeyDictionary()


def answers(node: Node) -> Answers:
    memory = _OF_NODE.get(node)
    if memory is None:
        memory = _OF_NODE[node] = Answers()
    return memory


def held(node: Node) -> ByteBudget:
    """The bound for messages."""
    return answers(node).messages
