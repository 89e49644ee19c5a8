"""The contract of a metadata store on ZooKeeper.

A version is the change that created the node (its czxid) and the count of its writes. ZooKeeper compares the count
alone and begins each life of a node at 0, so a conditional write first reads the node and compares its life, then
writes in the same session (H-C6). Between these two steps another session may delete and create the node again; for a
record that a lock protects, the lock's end also ends that session, and ZooKeeper refuses its write.

A parent that was never written has no data, which is not the empty value. Parents stay when their last child is gone.
There is one recursive watch for each top folder that has a listener. After a connection was lost, RESYNC is sent for
all of them, because the server reports nothing of the gap. Records that the server could not take are refused here.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable

from magnetar.base.errors import (
    BadVersion,
    Conflict,
    ConnectionLost,
    InvalidName,
    LimitExceeded,
    MagnetarError,
    Misuse,
    NotAuthorized,
    NotEmpty,
    NotFound,
    NotReady,
    Refused,
)
from magnetar.base.limits import (
    ZOOKEEPER_DELETIONS_AT_ONCE_MAX,
    ZOOKEEPER_PUT_TRIES_MAX,
    ZOOKEEPER_RECORDS_AT_ONCE_MAX,
    ZOOKEEPER_REQUEST_BYTES_MAX,
    ZOOKEEPER_TREES_AT_ONCE_MAX,
)
from magnetar.metadata.listeners import Listeners
from magnetar.metadata.path_checks import ROOT, check_limit, check_path, check_prefix, check_size, shown, split
from magnetar.metadata.store import ABSENT, Change, Event, NamePage, Node, Session, Stat, Unsubscribe
from magnetar.metadata.zookeeper import messages
from magnetar.metadata.zookeeper.client import Client, Listener, Reply, ZooKeeperConfig
from magnetar.metadata.zookeeper.messages import (
    ANY_VERSION,
    CreateMode,
    ErrorCode,
    NodeData,
    NodeEvent,
    NodeEventType,
    NodeStat,
    Operation,
)
from magnetar.runtime.runtime import Runtime

RESERVED = "zookeeper"  # the server's own node at its root
_COUNT_BITS = 32
_COUNT_MASK = (1 << _COUNT_BITS) - 1


class ZooKeeperStore:
    def __init__(self, config: ZooKeeperConfig, runtime: Runtime, *, root: str = "") -> None:
        """Use `open`."""
        self._root = root
        self._listeners = Listeners()
        self._acl = messages.OPEN_ACL if config.digest is None else messages.CREATOR_ACL
        self.client = Client(config, runtime, Listener(self._node_changed, self._listeners.tell_session, self._resync))

    @classmethod
    async def open(cls, config: ZooKeeperConfig, runtime: Runtime, *, root: str = "") -> ZooKeeperStore:
        """`root`: the path at the server below which everything is; "" for all of it. NotReady: no server accepted a
        session in time."""
        store = cls(config, runtime, root=root)
        await store.client.open()
        return store

    @property
    def session_id(self) -> str:
        return f"{self.client.session_number & (2**64 - 1):#x}"

    @session_id.setter
    def session_id(self, session: str) -> None:
        raise AssertionError("ZooKeeper gives the session")

    @property
    def session_s(self) -> float:
        """The timeout of the session, as the server granted it."""
        return self.client.machine.timeout_s

    # Reads

    async def get(self, path: str) -> Node | None:
        check_path(path)
        return self._node(path, await self._ask(Operation.GET, messages.read(self._full(path))))

    async def sync(self, path: str) -> None:
        _check(await self._ask(Operation.SYNC, messages.sync(self._full(path))), path)

    async def fresh(self, path: str) -> Node | None:
        check_path(path)
        node = await self._fresh(path)
        return None if node is None or node.value is None else Node(node.value, self._stat(path, node.stat))

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        check_prefix(path)
        reply = await self._ask(Operation.CHILDREN, messages.read(self._full(path)))
        if reply.error == ErrorCode.NO_NODE:
            return []
        names = _check(reply, path).body.texts()
        if path == ROOT and not self._root:
            names = [name for name in names if name != RESERVED]
        names.sort()
        return names

    async def names(self, path: str, *, after: str | None = None, limit: int | None = None) -> NamePage:
        """ZooKeeper answers with all names in one frame: without a limit the page has all of them."""
        check_limit(limit)
        names = await self.children(path)
        start = 0 if after is None else bisect_right(names, after)
        end = len(names) if limit is None else start + limit
        return NamePage(names[start:end], end < len(names))

    async def scan(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[tuple[str, Node]]:
        if limit == 0:
            return
        names, left = (await self.names(path, after=after)).names, limit
        for start in range(0, len(names), ZOOKEEPER_RECORDS_AT_ONCE_MAX):
            page = names[start : start + ZOOKEEPER_RECORDS_AT_ONCE_MAX]
            paths = [_join(path, name) for name in page]
            replies = await self._ask_all(
                [(Operation.GET, messages.read(self._full(child))) for child in paths],
            )
            for name, child, reply in zip(page, paths, replies, strict=True):
                node = self._node(child, reply)
                if node is None:
                    continue
                yield name, node
                left = None if left is None else left - 1
                if left == 0:
                    return

    # Writes

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        check_path(path)
        check_size(path, value)
        self._check_request(path, value)
        if sequential:
            if expected not in (None, ABSENT):
                raise Misuse("a sequential put must not expect a version", path=path)
            return await self._put_sequential(path, value, ephemeral)
        if expected is None:
            return await self._put_any(path, value, ephemeral)
        if expected == ABSENT:
            return await self._put_absent(path, value, ephemeral)
        return await self._put_expected(path, value, expected)

    async def _put_sequential(self, path: str, value: bytes, ephemeral: bool) -> Stat:
        mode = CreateMode.EPHEMERAL_SEQUENTIAL if ephemeral else CreateMode.PERSISTENT_SEQUENTIAL
        reply = await self._create(path, value, mode)
        full, stat = messages.created(_check(reply, path).body)
        return self._stat(full[len(self._root) :], stat)

    async def _put_any(self, path: str, value: bytes, ephemeral: bool) -> Stat:
        for _ in range(ZOOKEEPER_PUT_TRIES_MAX):
            if not ephemeral:
                reply = await self._set(path, value, ANY_VERSION)
                if reply.error != ErrorCode.NO_NODE:
                    return self._written(path, reply)
            stat = await self._put_new(path, value, ephemeral)
            if stat is not None:
                return stat
            if ephemeral:  # the record exists and keeps its kind
                reply = await self._set(path, value, ANY_VERSION)
                if reply.error != ErrorCode.NO_NODE:
                    return self._written(path, reply)
        raise _busy(path)

    async def _put_absent(self, path: str, value: bytes, ephemeral: bool) -> Stat:
        stat = await self._put_new(path, value, ephemeral)
        if stat is None:
            raise BadVersion("the record exists", path=path, expected=ABSENT)
        return stat

    async def _put_expected(self, path: str, value: bytes, expected: int) -> Stat:
        await self._compare(path, expected, BadVersion("the record does not exist", path=path, expected=expected))
        reply = await self._set(path, value, expected & _COUNT_MASK)
        if reply.error in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
            raise _changed(path, expected)
        return self._written(path, reply)

    async def _put_new(self, path: str, value: bytes, ephemeral: bool) -> Stat | None:
        """Creates the record, or writes the first value of a parent. None: a record exists."""
        mode = CreateMode.EPHEMERAL if ephemeral else CreateMode.PERSISTENT
        for _ in range(ZOOKEEPER_PUT_TRIES_MAX):
            reply = await self._create(path, value, mode)
            if reply.error != ErrorCode.NODE_EXISTS:
                return self._stat(path, messages.created(_check(reply, path).body)[1])
            node = self._data(path, await self._ask(Operation.GET, messages.read(self._full(path))))
            if node is None:
                continue
            if node.value is not None:
                return None
            if not ephemeral:
                reply = await self._set(path, value, node.stat.version)
            elif node.stat.children:
                raise Misuse("a record with children cannot be ephemeral", path=path)
            else:  # a parent whose children are gone
                reply = await self._delete(path, node.stat.version)
            if reply.error in _MOVED:
                continue
            if not ephemeral:
                return self._written(path, reply)
            _check(reply, path)
        raise _busy(path)

    async def _create(self, path: str, value: bytes | None, mode: CreateMode) -> Reply:
        """With its parents."""
        body = messages.create(self._full(path), value, mode, self._acl)
        for _ in range(ZOOKEEPER_PUT_TRIES_MAX):
            reply = await self._ask(Operation.CREATE, body)
            if reply.error != ErrorCode.NO_NODE:
                return reply
            await self._create_parents(self._full(path))
        raise _busy(path)

    async def _create_parents(self, full: str) -> None:
        missing = []
        parent = split(full)[0]
        while parent:
            missing.append(parent)
            parent = split(parent)[0]
        missing.reverse()
        replies = await self._ask_all(
            [(Operation.CREATE, messages.create(one, None, CreateMode.PERSISTENT, self._acl)) for one in missing]
        )
        for missing_path, reply in zip(missing, replies, strict=True):
            # Another writer may delete a parent that is empty: the caller creates them again.
            if reply.error not in (ErrorCode.NODE_EXISTS, ErrorCode.NO_NODE):
                _check(reply, missing_path)

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        check_path(path)
        count = ANY_VERSION
        if expected is not None:
            await self._compare(path, expected, NotFound("the record does not exist", path=path))
            count = expected & _COUNT_MASK
        reply = await self._delete(path, count)
        if reply.error == ErrorCode.BAD_VERSION:
            assert expected is not None
            raise _changed(path, expected)
        _check(reply, path)

    async def delete_tree(self, path: str) -> None:
        check_prefix(path)
        await self._empty(path)
        if path != ROOT:
            await self._delete_all([path])

    async def _empty(self, path: str) -> None:
        names = await self.children(path)
        for start in range(0, len(names), ZOOKEEPER_DELETIONS_AT_ONCE_MAX):
            page = [_join(path, name) for name in names[start : start + ZOOKEEPER_DELETIONS_AT_ONCE_MAX]]
            await self._delete_all(page)

    async def _delete_all(self, paths: list[str]) -> None:
        """Leaves together; then those that have children, each with everything below it."""
        for _ in range(ZOOKEEPER_PUT_TRIES_MAX):
            replies = await self._ask_all(
                [(Operation.DELETE, messages.delete(self._full(path), ANY_VERSION)) for path in paths]
            )
            left = []
            for path, reply in zip(paths, replies, strict=True):
                if reply.error == ErrorCode.NOT_EMPTY:
                    left.append(path)
                elif reply.error != ErrorCode.NO_NODE:
                    _check(reply, path)
            if not left:
                return
            for start in range(0, len(left), ZOOKEEPER_TREES_AT_ONCE_MAX):
                await asyncio.gather(*(self._empty(path) for path in left[start : start + ZOOKEEPER_TREES_AT_ONCE_MAX]))
            paths = left
        raise Conflict("other writers create records below a tree that is being deleted: try again", path=paths[0])

    # Events

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        unsubscribe = self._listeners.subscribe(prefix, heard)
        self.client.watch(self._full(_top(prefix)))
        return unsubscribe

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        return self._listeners.on_session(heard)

    def _node_changed(self, event: NodeEvent) -> None:
        path = event.path[len(self._root) :]
        if not path:
            return  # the root itself holds no record
        parent = Event(Change.CHILDREN_CHANGED, shown(split(path)[0]))
        match event.type:
            case NodeEventType.CREATED:
                self._listeners.tell([Event(Change.CREATED, path), parent])
            case NodeEventType.DELETED:
                self._listeners.tell([Event(Change.DELETED, path), parent])
            case NodeEventType.DATA_CHANGED:
                self._listeners.tell([Event(Change.MODIFIED, path)])

    def _resync(self) -> None:
        self._listeners.tell([Event(Change.RESYNC, ROOT)])

    async def close(self) -> None:
        """Ends the session with its ephemerals. A second call does nothing."""
        self._listeners.clear()
        await self.client.close()

    def abandon(self) -> None:
        """For tests: ends as a killed process does. The session and its ephemerals stay until the timeout."""
        self._listeners.clear()
        self.client.abandon()

    # Inside

    async def _compare(self, path: str, expected: int, missing: MagnetarError) -> None:
        """Returns if the node is in the life that `expected` names, read in the session that writes next."""
        for _ in range(ZOOKEEPER_PUT_TRIES_MAX):
            session = self.client.session_number
            node = await self._fresh(path)
            if node is None or node.value is None:
                raise missing
            if _version(node.stat) != expected:
                raise BadVersion(
                    "the record does not have the expected version",
                    path=path,
                    expected=expected,
                    found=_version(node.stat),
                )
            if session == self.client.session_number:
                return
        raise NotReady("the session of ZooKeeper changed during every attempt: try again", path=path)

    async def _fresh(self, path: str) -> NodeData | None:
        full = self._full(path)
        synced, read = await self._ask_all(
            [(Operation.SYNC, messages.sync(full)), (Operation.GET, messages.read(full))]
        )
        _check(synced, path)
        return self._data(path, read)

    def _ask(self, operation: Operation, body: bytes) -> asyncio.Future[Reply]:
        return self.client.ask(operation, body)

    async def _ask_all(self, requests: list[tuple[Operation, bytes]]) -> list[Reply]:
        """In one write; the server carries them out in this order."""
        return [await reply for reply in [self.client.ask(operation, body) for operation, body in requests]]

    def _set(self, path: str, value: bytes, count: int) -> asyncio.Future[Reply]:
        return self._ask(Operation.SET, messages.write(self._full(path), value, count))

    def _delete(self, path: str, count: int) -> asyncio.Future[Reply]:
        return self._ask(Operation.DELETE, messages.delete(self._full(path), count))

    def _written(self, path: str, reply: Reply) -> Stat:
        return self._stat(path, messages.node_stat(_check(reply, path).body))

    def _data(self, path: str, reply: Reply) -> NodeData | None:
        return None if reply.error == ErrorCode.NO_NODE else messages.node_data(_check(reply, path).body)

    def _node(self, path: str, reply: Reply) -> Node | None:
        node = self._data(path, reply)
        return None if node is None or node.value is None else Node(node.value, self._stat(path, node.stat))

    def _stat(self, path: str, stat: NodeStat) -> Stat:
        return Stat(
            path=path,
            version=_version(stat),
            first_version=stat.version == 0,
            ctime_ms=stat.ctime_ms,
            mtime_ms=stat.mtime_ms,
            ephemeral=stat.is_ephemeral,
            mine=stat.is_ephemeral and stat.owner == self.client.session_number,
        )

    def _full(self, path: str) -> str:
        """The path at the server."""
        if path == ROOT:
            return self._root or ROOT
        return self._root + path

    def _check_request(self, path: str, value: bytes) -> None:
        full = self._full(path)
        if not self._root and full.split("/", 2)[1] == RESERVED:
            raise InvalidName("this path belongs to ZooKeeper itself: choose another one", path=path)
        size = len(full.encode()) + len(value)
        if size >= ZOOKEEPER_REQUEST_BYTES_MAX:
            raise LimitExceeded(
                "the record is too large for ZooKeeper: split it",
                path=path,
                bytes=size,
                bytes_max=ZOOKEEPER_REQUEST_BYTES_MAX,
            )


_MOVED = (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION, ErrorCode.NOT_EMPTY)
_ERRORS: dict[int, Callable[[str], MagnetarError]] = {
    ErrorCode.CONNECTION_LOSS: lambda path: ConnectionLost("a ZooKeeper server lost its leader", path=path),
    ErrorCode.OPERATION_TIMEOUT: lambda path: ConnectionLost("ZooKeeper did not finish the operation", path=path),
    ErrorCode.NO_NODE: lambda path: NotFound("the record does not exist", path=path),
    ErrorCode.NO_AUTH: lambda path: NotAuthorized("ZooKeeper denies access: check the digest setting", path=path),
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: lambda path: Misuse("an ephemeral record must not have children", path=path),
    ErrorCode.NOT_EMPTY: lambda path: NotEmpty("the record has children", path=path),
    ErrorCode.SESSION_EXPIRED: lambda path: NotReady("the session has expired", path=path),
    ErrorCode.SESSION_MOVED: lambda path: NotReady("the session moved to another connection", path=path),
    ErrorCode.THROTTLED: lambda path: NotReady("ZooKeeper is overloaded", path=path),
}


def _check(reply: Reply, path: str) -> Reply:
    if reply.error == ErrorCode.OK:
        return reply
    kind = _ERRORS.get(reply.error)
    if kind is not None:
        raise kind(path)
    raise Refused("ZooKeeper refused the operation", path=path, error=reply.error, http_status=500)


def _version(stat: NodeStat) -> int:
    return stat.created << _COUNT_BITS | (stat.version & _COUNT_MASK)


def _changed(path: str, expected: int) -> BadVersion:
    return BadVersion("the record does not have the expected version", path=path, expected=expected)


def _busy(path: str) -> Conflict:
    return Conflict("the record appeared and disappeared during every attempt: try again", path=path)


def _join(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def _top(prefix: str) -> str:
    """The top folder of a prefix, which has one watch for all its listeners."""
    return "/" + prefix.split("/", 2)[1]
