"""The contract of a metadata store. Read it as a specification; `tests/contract` runs it against every engine.

A store maps slash-separated paths to small values, each with a version. There are no transactions over several keys:
every invariant of Magnetar is a compare-and-set on one record.

1. Value plus path stay below METADATA_VALUE_BYTES_MAX; ephemeral nodes have no children.
2. Events of one path keep their order and arrive at least once; consecutive events may be merged into the last. A
   listener reads the record again. A read may be outdated, but never older than this handle's own writes or than what
   it has read or been notified of before.
3. An operation that fails with an `Unknown` error may have happened; `put_checked` re-reads and compares.
4. After SessionLost no ephemeral of the old session may be assumed; after SessionReestablished the session id differs.
5. Caches live above the store and are dropped on events, on Resync and on session changes.
6. Paths start with "/", have no empty part and no trailing slash. No part is "." or "..", and no character is a control
   character or one of the others that ZooKeeper refuses.
7. A compare-and-set or a conditional delete never succeeds with the version of an earlier incarnation of the record.
8. A parent without a value appears with its first child. It may stay when its last child is gone.
9. A record keeps its kind: an ephemeral stays one and belongs to the session that created it, although another session
   writes its value. A record that is not ephemeral does not become one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

ABSENT = -1  # `expected=ABSENT`: create, and fail if the record exists


@dataclass(frozen=True, slots=True)
class Stat:
    path: str
    version: int  # opaque: compare for equality only
    first_version: bool  # never changed since its creation; an engine may report False if it was a parent before
    ctime_ms: int
    mtime_ms: int
    ephemeral: bool
    mine: bool  # created by this session


@dataclass(frozen=True, slots=True)
class Node:
    value: bytes = field(repr=False)
    stat: Stat


class Change(Enum):
    CREATED = auto()
    MODIFIED = auto()
    DELETED = auto()
    CHILDREN_CHANGED = auto()  # path is the parent
    RESYNC = auto()  # events may have been lost: drop cached records under this prefix


@dataclass(frozen=True, slots=True)
class Event:
    change: Change
    path: str


class Session(Enum):
    CONNECTION_LOST = auto()
    RECONNECTED = auto()
    LOST = auto()
    REESTABLISHED = auto()


@dataclass(frozen=True, slots=True)
class NamePage:
    names: list[str]
    more: bool  # whether names may follow


Unsubscribe = Callable[[], None]


class MetadataStore(Protocol):
    session_id: str

    async def get(self, path: str) -> Node | None: ...

    async def sync(self, path: str) -> None:
        """The next read sees every write completed before this call."""
        ...

    async def fresh(self, path: str) -> Node | None:
        """`sync` and `get` in one round trip: the read of every decision."""
        ...

    async def exists(self, path: str) -> bool: ...

    async def children(self, path: str) -> list[str]:
        """Names of direct children, sorted; [] when there are none. A value-less parent may or may not exist."""
        ...

    async def names(self, path: str, *, after: str | None = None, limit: int | None = None) -> NamePage:
        """One page of the names of direct children behind `after`, in name order, without a read of their values.
        Children without a value are included. `limit`: None for a page of the engine's size, at least 1 otherwise. One
        call is one request."""
        ...

    def scan(self, path: str, *, after: str | None = None, limit: int | None = None) -> AsyncIterator[tuple[str, Node]]:
        """Direct children with a value, in name order, read in pages: the way to list many records."""
        ...

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        """Write, creating parents. `expected` a version or ABSENT: BadVersion on mismatch. `sequential` appends a
        unique suffix to the path (see `Stat.path`), which increases while the parent exists."""
        ...

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        """NotFound, BadVersion, NotEmpty. An engine may look for children and delete in two steps: a child that appears
        between them loses its parent, and the caller lists again."""
        ...

    async def delete_tree(self, path: str) -> None:
        """Deletes the node and everything below it, not atomically. A missing node is not an error."""
        ...

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        """Events of this path and everything below it, called on the loop after the change can be read. After a lost
        session, ephemerals that ended with it are reported by DELETED or by RESYNC."""
        ...

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe: ...

    async def close(self) -> None: ...
