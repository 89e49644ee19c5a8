"""The requests that this client sends to ZooKeeper, and the replies and events that it reads: bytes, without sockets.

A frame is a length and a body. A request begins with its number (xid) and operation; a reply with the same number, the
last change that the server knows (zxid) and an error. Replies come in the order of requests. Events have number -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from magnetar.base.errors import Corrupt
from magnetar.metadata.zookeeper import jute

EVENT_XID, PING_XID, AUTH_XID = -1, -2, -4
ANY_VERSION = -1
PASSWORD_BYTES = 16
CONTAINER_OWNER = -(1 << 63)  # the owner of a container node, which no session is
ALL_PERMISSIONS = 31


class Operation(IntEnum):
    CREATE = 15  # the form that answers with the Stat
    DELETE = 2
    GET = 4
    SET = 5
    SYNC = 9
    PING = 11
    CHILDREN = 8
    AUTH = 100
    ADD_WATCH = 106
    CLOSE = -11


class ErrorCode(IntEnum):
    OK = 0
    CONNECTION_LOSS = -4
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    THROTTLED = -127


class CreateMode(IntEnum):
    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3


class WatchMode(IntEnum):
    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class NodeEventType(IntEnum):
    NONE = -1  # of the session, not of a node
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    timeout_ms: int  # 0: the session has expired, or the password is wrong
    session: int
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplyHeader:
    xid: int
    zxid: int
    error: int


@dataclass(frozen=True, slots=True)
class NodeEvent:
    type: int
    state: int
    path: str


@dataclass(frozen=True, slots=True)
class NodeStat:
    created: int  # zxid
    modified: int  # zxid
    ctime_ms: int
    mtime_ms: int
    version: int  # counted from 0 in each life of the node
    owner: int  # session of an ephemeral
    children: int

    @property
    def is_ephemeral(self) -> bool:
        return self.owner not in (0, CONTAINER_OWNER)


@dataclass(frozen=True, slots=True)
class NodeData:
    value: bytes | None = field(repr=False)  # None: a parent that was never written
    stat: NodeStat


# Requests


def frame(body: bytes) -> bytes:
    return jute.integer(len(body)) + body


def connect(*, last_zxid: int, timeout_ms: int, session: int, password: bytes) -> bytes:
    """The first frame on a connection; session 0 asks for a new one."""
    protocol, read_only = 0, False
    return frame(
        jute.integer(protocol)
        + jute.long(last_zxid)
        + jute.integer(timeout_ms)
        + jute.long(session)
        + jute.buffer(password or bytes(PASSWORD_BYTES))
        + jute.boolean(read_only)
    )


def request(xid: int, operation: Operation, body: bytes = b"") -> bytes:
    return frame(jute.integer(xid) + jute.integer(operation) + body)


def create(path: str, value: bytes | None, mode: CreateMode, acl: bytes) -> bytes:
    return jute.text(path) + jute.buffer(value) + acl + jute.integer(mode)


def acl(scheme: str, id: str) -> bytes:
    """One entry that permits everything to `id`."""
    return jute.integer(1) + jute.integer(ALL_PERMISSIONS) + jute.text(scheme) + jute.text(id)


OPEN_ACL = acl("world", "anyone")
CREATOR_ACL = acl("auth", "")


def read(path: str) -> bytes:
    """Of GET and CHILDREN, without a watch."""
    return jute.text(path) + jute.boolean(False)


def write(path: str, value: bytes, version: int) -> bytes:
    return jute.text(path) + jute.buffer(value) + jute.integer(version)


def delete(path: str, version: int) -> bytes:
    return jute.text(path) + jute.integer(version)


def sync(path: str) -> bytes:
    return jute.text(path)


def add_watch(path: str) -> bytes:
    return jute.text(path) + jute.integer(WatchMode.PERSISTENT_RECURSIVE)


def authenticate(scheme: str, credentials: bytes) -> bytes:
    return jute.integer(0) + jute.text(scheme) + jute.buffer(credentials)


# Replies


def split(data: bytes | bytearray, frame_bytes_max: int) -> tuple[list[bytes], int]:
    """The complete frames at the start of `data`, and how many bytes they take. Corrupt: a length that is negative or
    beyond `frame_bytes_max`."""
    messages: list[bytes] = []
    at = 0
    while len(data) - at >= 4:
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if not 0 <= size <= frame_bytes_max:
            raise Corrupt("a frame of ZooKeeper has an invalid length", bytes=size, bytes_max=frame_bytes_max)
        if len(data) - at - 4 < size:
            break
        messages.append(bytes(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return messages, at


def connect_response(data: bytes) -> ConnectResponse:
    """Servers before 3.4 leave out the last field, and it says nothing to this client."""
    reader = jute.Reader(data)
    reader.integer()
    return ConnectResponse(reader.integer(), reader.long(), reader.buffer() or b"")


def reply(data: bytes) -> tuple[ReplyHeader, jute.Reader]:
    """The header, and the body that it leaves."""
    reader = jute.Reader(data)
    return ReplyHeader(reader.integer(), reader.long(), reader.integer()), reader


def node_event(reader: jute.Reader) -> NodeEvent:
    return NodeEvent(reader.integer(), reader.integer(), reader.text())


def node_stat(reader: jute.Reader) -> NodeStat:
    created, modified, ctime_ms, mtime_ms = reader.long(), reader.long(), reader.long(), reader.long()
    version = reader.integer()
    reader.integer()  # of the children
    reader.integer()  # of the access list
    owner = reader.long()
    reader.integer()  # bytes of the value, 0 also without one
    children = reader.integer()
    reader.long()  # last change of the children
    return NodeStat(created, modified, ctime_ms, mtime_ms, version, owner, children)


def node_data(reader: jute.Reader) -> NodeData:
    return NodeData(reader.buffer(), node_stat(reader))


def created(reader: jute.Reader) -> tuple[str, NodeStat]:
    return reader.text(), node_stat(reader)
