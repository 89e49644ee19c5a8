"""The second wire protocol of bookies: frames of requests go out, frames of responses come in.

A frame is its length and one word of version, operation and flags; all numbers are big endian. The protocol has no
request numbers except for batches: a response is matched by operation, ledger and entry. Decoding trusts no length.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.ledger.bookkeeper.digest import HEAD
from magnetar.ledger.bookkeeper.generated import bookkeeper_pb2 as pb

VERSION = 2
KEY_BYTES = 20
FENCE = 1
RECOVERY_ADD = 2
NO_AUTHENTICATION = "AuthDisabledPlugin"  # the plugin that a bookie without authentication names


class Operation(IntEnum):
    ADD = 1
    READ = 2
    AUTH = 3
    BATCH_READ = 7


class Code(IntEnum):
    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_LEDGER_STATE = 107


ABSENT = (Code.NO_LEDGER, Code.NO_ENTRY)  # the bookie does not have the entry; every other code leaves that open


class Response(NamedTuple):
    operation: int
    code: int
    ledger: int
    entry: int
    request: int  # of a batch, else 0
    body: bytes

    def __repr__(self) -> str:
        return f"Response({self.operation}, code={self.code}, {self.ledger}:{self.entry}, {len(self.body)} bytes)"


_FRAME = struct.Struct(">IBBH")  # length, version, operation, flags
_WORD = struct.Struct(">BBH")
_LENGTH = struct.Struct(">I")
_READ = struct.Struct(">qq")
_BATCH = struct.Struct(">qqqiq")
_ANSWER = struct.Struct(">iqq")
_BATCH_ANSWER = struct.Struct(">iqqq")
ADD_OVERHEAD = _FRAME.size - _LENGTH.size + KEY_BYTES  # bytes of an add that count to its frame, before the body
BATCH_OVERHEAD = _WORD.size + _BATCH_ANSWER.size  # of the answer to a batch
BATCH_ENTRY_OVERHEAD = _LENGTH.size  # of each entry in it


# Requests


def add(key: bytes, head: bytes, payload: bytes, *, recovery: bool = False) -> bytes:
    """The frame of an add: the same for every bookie of the entry, and the same again when it is repeated."""
    size = ADD_OVERHEAD + len(head) + len(payload)
    word = _FRAME.pack(size, VERSION, Operation.ADD, RECOVERY_ADD if recovery else 0)
    return b"".join((word, key, head, payload))


def read(ledger: int, entry: int, fence_key: bytes | None = None) -> bytes:
    """`entry` -1: the last entry that the bookie has. With the master key the read fences the ledger."""
    body = _READ.pack(ledger, entry) + (fence_key or b"")
    return _framed(Operation.READ, 0 if fence_key is None else FENCE, body)


def batch_read(ledger: int, first: int, request: int, *, entries_max: int, bytes_max: int) -> bytes:
    """Consecutive entries in one answer of at most `bytes_max`, at least one entry."""
    return _framed(Operation.BATCH_READ, 0, _BATCH.pack(ledger, first, request, entries_max, bytes_max))


def authenticate(plugin: str = NO_AUTHENTICATION, payload: bytes = b"") -> bytes:
    message = pb.AuthMessage(authPluginName=plugin, payload=payload)
    return _framed(Operation.AUTH, 0, message.SerializeToString())


def _framed(operation: Operation, flags: int, body: bytes) -> bytes:
    return _FRAME.pack(_WORD.size + len(body), VERSION, operation, flags) + body


# Responses


def split(data: bytes | bytearray, bytes_max: int) -> tuple[list[bytes], int]:
    """The whole frames at the start of `data` without their lengths, and how many bytes they take."""
    frames: list[bytes] = []
    at, size = 0, len(data)
    while size - at >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, at)
        if length < _WORD.size or length > bytes_max:
            raise Corrupt("a frame of a bookie has an impossible length", length=length, length_max=bytes_max)
        end = at + _LENGTH.size + length
        if end > size:
            break
        frames.append(bytes(data[at + _LENGTH.size : end]))
        at = end
    return frames, at


def response(frame: bytes) -> Response:
    version, operation, _ = _WORD.unpack_from(frame)
    if version != VERSION:
        raise Corrupt("a bookie answered in another version of the protocol", version=version)
    at = _WORD.size
    if operation == Operation.AUTH:
        return Response(operation, Code.OK, -1, -1, 0, frame[at:])
    if operation == Operation.BATCH_READ:
        code, ledger, entry, request = _unpack(_BATCH_ANSWER, frame)
        return Response(operation, code, ledger, entry, request, frame[at + _BATCH_ANSWER.size :])
    if operation not in (Operation.ADD, Operation.READ):
        raise Corrupt("a bookie answered with an unknown operation", operation=operation)
    code, ledger, entry = _unpack(_ANSWER, frame)
    return Response(operation, code, ledger, entry, 0, frame[at + _ANSWER.size :])


def batch(body: bytes) -> list[bytes]:
    """The bodies of the entries in the answer to a batch."""
    bodies: list[bytes] = []
    at = 0
    while at < len(body):
        if len(body) - at < _LENGTH.size:
            raise Corrupt("the answer to a batch ends too early", bytes=len(body))
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length < HEAD.size or at + length > len(body):
            raise Corrupt("an entry in the answer to a batch has an impossible length", length=length)
        bodies.append(body[at : at + length])
        at += length
    return bodies


def authentication(body: bytes) -> tuple[str, bytes]:
    """The plugin that the bookie names, and its payload."""
    try:
        message = pb.AuthMessage.FromString(body)
    except DecodeError as error:
        raise Corrupt("the answer of a bookie to the authentication is damaged", why=str(error)) from None
    return message.authPluginName, message.payload


def _unpack(form: struct.Struct, frame: bytes) -> tuple[int, ...]:
    if len(frame) < _WORD.size + form.size:
        raise Corrupt("an answer of a bookie is too short", bytes=len(frame))
    return form.unpack_from(frame, _WORD.size)
