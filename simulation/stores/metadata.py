"""A second metadata engine: records in memory that are durable once `put` returns, with crashes, peers, lost answers
and every other fault that the contract allows, on demand or at random.

`reopen()` gives the store after a crash: the same records, another session, the old session's ephemerals gone, the old
handle dead. `peer()` is another process on the same records. The next operations meet the faults in `faults`, in order:
`lost_answer(happened=True)` does the work and loses the answer. It is written apart from the sqlite engine on purpose,
so that each checks the other. `Versions.PER_NODE` counts as ZooKeeper does, with the cure of its engine (H-C6).

`fault_rates` sets random faults, drawn from the given `rng`. `disconnect`, `reconnect`, `expire`, `learn`, `crash` and
`outage` take effect immediately. `content.counts` has how often each fault happened. Without any of these no operation
takes time, and listeners get events before the writer's call returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeVar

from magnetar.base.errors import BadVersion, Closed, ConnectionLost, MagnetarError, Misuse, NotEmpty, NotFound
from magnetar.metadata.listeners import Listeners
from magnetar.metadata.path_checks import ROOT, ancestors, check_limit, check_path, check_prefix, check_size
from magnetar.metadata.store import ABSENT, Change, Event, NamePage, Node, Session, Stat, Unsubscribe
from magnetar.runtime.runtime import Runtime
from simulation.stores.metadata_connection import StoreConnection
from simulation.stores.metadata_faults import ChangeFeed, FaultRates, StoreChange
from simulation.stores.metadata_tree import Record, RecordTree

T = TypeVar("T")
PAGE_NODES = 100  # small, so that a test of a few hundred records crosses pages


@dataclass(frozen=True, slots=True)
class InjectedFault:
    error: MagnetarError | None  # None: nothing goes wrong this time
    happened: bool


def lost_answer(*, happened: bool) -> InjectedFault:
    """The answer does not arrive; `happened`: the operation took effect."""
    return InjectedFault(ConnectionLost("the connection to the metadata store broke"), happened)


class Versions(Enum):
    """How the server counts the versions of a record."""

    UNIQUE = auto()  # over all records and all time
    PER_NODE = auto()  # from 0 in each life; the engine adds the life, and compares it before it writes (H-C6)
    PER_NODE_ALONE = auto()  # without that cure: no engine may do so


CREATION_BITS = 32  # below them is the count of the node, above them the change that created it


@dataclass(slots=True)
class StoreContent:
    """The server side: its content survives every handle."""

    versions: Versions = Versions.UNIQUE

    tree: RecordTree = field(default_factory=RecordTree)
    sequences: dict[str, int] = field(default_factory=dict)
    version: int = 0
    sessions: int = 0
    live: dict[str, None] = field(default_factory=dict)  # sessions that the server takes for alive
    handles: list[MemoryStore] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    counts: Counter[str] = field(default_factory=Counter)  # faults met, by kind
    down_until_s: float = 0.0
    down: bool = False
    steps: int = 0
    watchers: list[Callable[[str, Record | None], None]] = field(
        default_factory=list
    )  # of checkers: called with each change
    context: contextvars.Context = field(default_factory=contextvars.copy_context)  # no host's: it never pauses

    @property
    def records(self) -> dict[str, Record]:
        return self.tree.records

    def change(self, changes: list[tuple[str, Record | None]]) -> None:
        steps = []
        for path, record in changes:
            self.steps += 1
            steps.append(StoreChange(self.steps, path, record, self.tree.set(path, record)))
            for watcher in self.watchers:
                watcher(path, record)
        for handle in list(self.handles):
            handle.feed.changed(steps)

    def first_version(self) -> int:
        """Of a record that is created now."""
        self.version += 1
        match self.versions:
            case Versions.UNIQUE:
                return self.version
            case Versions.PER_NODE:
                return self.version << CREATION_BITS
            case Versions.PER_NODE_ALONE:
                return 0

    def next_version(self, version: int) -> int:
        """Of a record that has this version and is written now."""
        self.version += 1
        return self.version if self.versions is Versions.UNIQUE else version + 1

    def is_expected(self, expected: int, version: int) -> bool:
        """Whether the server takes a write. One that counts per node compares the count alone."""
        if self.versions is not Versions.PER_NODE or ABSENT in (expected, version):
            return expected == version
        return (expected ^ version) & ((1 << CREATION_BITS) - 1) == 0

    def count(self, fault: str) -> None:
        self.counts[fault] += 1

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, context=self.context)

    def new_session(self) -> str:
        self.sessions += 1
        session = str(self.sessions)
        self.live[session] = None
        return session

    def lives(self, session: str) -> bool:
        return session in self.live

    def end_session(self, session: str) -> None:
        self.live.pop(session, None)
        self.change([(path, None) for path in sorted(self.records) if self.records[path].session == session])

    def outage(self, seconds: float) -> None:
        """The server is away for all handles, and sessions do not age. Connections come back one by one."""
        self.count("outages")
        self.down = True
        self.down_until_s = max(self.down_until_s, asyncio.get_running_loop().time() + seconds)
        for handle in list(self.handles):
            unnoticed = handle.fault_rates.unnoticed
            handle.link.disconnect(noticed=not unnoticed or self.rng.random() >= unnoticed)
        self.later(seconds, self._return)

    def _return(self) -> None:
        if asyncio.get_running_loop().time() < self.down_until_s:
            return  # another outage has begun
        self.down = False
        for handle in list(self.handles):
            self.later(self.rng.uniform(0, handle.fault_rates.away_s), handle.link.connect)


class MemoryStore:
    def __init__(
        self,
        runtime: Runtime | None = None,
        *,
        content: StoreContent | None = None,
        fault_rates: FaultRates | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`rng` belongs to the server and serves all handles: pass it with the first."""
        self.content = content if content is not None else StoreContent()
        if rng is not None:
            self.content.rng = rng
        self.faults: deque[InjectedFault] = deque()
        self.puts = 0  # for tests that count what a caller costs
        self.fault_rates = fault_rates if fault_rates is not None else FaultRates()
        self._runtime = runtime
        self._listeners = Listeners()
        self._closed = False
        self.feed = ChangeFeed(
            self.content.tree, self.fault_rates, self.content.rng, self.content.counts, self._listeners
        )
        self.link = StoreConnection(self.content, self.fault_rates, self.feed, self._listeners)
        self.content.handles.append(self)

    @property
    def session_id(self) -> str:
        return self.link.session

    @session_id.setter
    def session_id(self, session: str) -> None:
        raise AssertionError("a session is the store's to give")

    def reopen(self) -> MemoryStore:
        """This process crashed; here is the next one."""
        self._die()
        self.forget_sessions()
        return MemoryStore(self._runtime, content=self.content, fault_rates=self.fault_rates)

    def peer(self, runtime: Runtime | None = None, *, fault_rates: FaultRates | None = None) -> MemoryStore:
        """Another process that is connected to the same records, with the same fault rates by default."""
        fault_rates = self.fault_rates if fault_rates is None else fault_rates
        return MemoryStore(self._runtime if runtime is None else runtime, content=self.content, fault_rates=fault_rates)

    # What befalls it

    def disconnect(self, *, noticed: bool = True, seconds: float | None = None) -> None:
        """Cuts the connection. Not `noticed`: operations hang until the handle notices. Back after `seconds` or
        `reconnect`."""
        self.link.disconnect(noticed=noticed, seconds=seconds)

    def reconnect(self) -> None:
        """Back after `disconnect`; if it never was away, a short outage: the same session afterwards."""
        if not self.link.up:
            self.link.connect()
            return
        self._listeners.tell_session(Session.CONNECTION_LOST)
        self._listeners.tell_session(Session.RECONNECTED)

    def expire(self, *, noticed: bool = True) -> None:
        """The server ends this handle's session; not `noticed`: the handle keeps its belief until `learn` or
        `learn_s`."""
        self.link.expire(noticed=noticed)

    def learn(self) -> None:
        """The handle notices an expiry."""
        self.link.learn()

    def outage(self, seconds: float) -> None:
        """No handle reaches the store for this time."""
        self.content.outage(seconds)

    def crash(self) -> None:
        """This process ends: it gets no answers or events, and its session ends by its time. `peer` is the next
        process."""
        self._closed = True
        self._listeners.clear()
        self.link.die()
        self._leave()

    # The contract

    async def get(self, path: str) -> Node | None:
        check_path(path)

        return await self._look(lambda: self._node(path, self.feed.read()))

    async def sync(self, path: str) -> None:
        await self._look(self.feed.catch_up)

    async def fresh(self, path: str) -> Node | None:
        check_path(path)

        def look() -> Node | None:
            self.feed.catch_up()
            return self._node(path, self.feed.read())

        return await self._look(look)

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        check_prefix(path)
        return await self._look(lambda: list(self.feed.read().below.get(path, ())))

    async def names(self, path: str, *, after: str | None = None, limit: int | None = None) -> NamePage:
        check_prefix(path)
        check_limit(limit)
        count = PAGE_NODES if limit is None else limit
        page = await self._page(path, after or "", count)
        return NamePage([name for name, _, _ in page], len(page) == count)

    async def scan(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> AsyncIterator[tuple[str, Node]]:
        check_prefix(path)
        last, count = after or "", 0
        while limit is None or count < limit:
            page = await self._page(path, last, PAGE_NODES)
            if not page:
                return
            for name, child, record in page:
                if record is not None and (limit is None or count < limit):
                    count += 1
                    yield name, Node(record.value, self._stat(child, record))
            last = page[-1][0]

    async def put(
        self, path: str, value: bytes, *, expected: int | None = None, ephemeral: bool = False, sequential: bool = False
    ) -> Stat:
        check_path(path)
        check_size(path, value)
        if sequential and expected not in (None, ABSENT):
            raise Misuse("a sequential put must not expect a version", path=path)
        session = await self._compare(path, expected, _bad_version(path, expected, ABSENT))

        def write() -> Stat:
            self._check_session(session)
            self.puts += 1
            owner = self.session_id if ephemeral else None
            if not sequential:
                return self._put(path, bytes(value), expected, owner)
            number = self._next_in_sequence(path)
            stat = self._put(f"{path}{number:010d}", bytes(value), ABSENT, owner)
            self.content.sequences[path] = number + 1
            return stat

        return await self._write(write)

    async def delete(self, path: str, *, expected: int | None = None) -> None:
        check_path(path)
        session = await self._compare(path, expected, NotFound("the record does not exist", path=path))

        def remove() -> None:
            self._check_session(session)
            tree = self.content.tree
            record = tree.records.get(path)
            if record is None and path not in tree.below:
                raise NotFound("the record does not exist", path=path)
            if record is not None and expected is not None and not self.content.is_expected(expected, record.version):
                raise _bad_version(path, expected, record.version)
            if path in tree.below:
                raise NotEmpty("the record has children", path=path)
            self.content.change([(path, None)])

        await self._write(remove)

    async def delete_tree(self, path: str) -> None:
        check_prefix(path)
        content = self.content
        await self._write(lambda: content.change([(node, None) for node in content.tree.everything(path)]))

    def subscribe(self, prefix: str, heard: Callable[[Event], None]) -> Unsubscribe:
        return self._listeners.subscribe(prefix, heard)

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        return self._listeners.on_session(heard)

    async def close(self) -> None:
        if self._closed:
            return
        self._die()
        self.forget_sessions()

    # Hooks of the suites

    def resync(self, prefix: str = ROOT) -> None:
        """Notifies this handle's listeners that events may have been lost."""
        self._listeners.tell([Event(Change.RESYNC, prefix)])

    async def expire_session(self, server_side: bool) -> None:
        """Lose the session and get another; not `server_side`: the old ephemerals stay until `forget_sessions`."""
        self.lose_session(server_side=server_side)
        await self._write(lambda: None)
        self.regain_session()

    def lose_session(self, *, server_side: bool) -> None:
        self._listeners.tell_session(Session.CONNECTION_LOST)
        self._listeners.tell_session(Session.LOST)
        if server_side:
            self.content.end_session(self.session_id)
            self.forget_sessions()

    def regain_session(self) -> None:
        self.link.renew()

    def forget_sessions(self) -> None:
        """The server ends the sessions that no handle has any more; their ephemerals are gone."""
        held = {handle.session_id for handle in self.content.handles}
        for session in [session for session in self.content.live if session not in held]:
            self.content.end_session(session)

    # Inside

    def _die(self) -> None:
        self._closed = True
        self._listeners.clear()
        self.link.close()
        self._leave()

    def _leave(self) -> None:
        if self in self.content.handles:
            self.content.handles.remove(self)

    async def _write(self, work: Callable[[], T]) -> T:
        def done() -> T:
            fault = self._fault(reads=False)
            try:
                result = work()
            finally:
                self.feed.catch_up()  # its own writes, and what refused them, a handle has seen
            if fault is not None and fault.error is not None:
                raise fault.error
            return result

        self._check_open()
        return await self.link.ask(done, writes=True)

    async def _compare(self, path: str, expected: int | None, missing: MagnetarError) -> str | None:
        """Where the server counts per node: BadVersion if the record is of another life than `expected`, `missing` if
        it does not exist. Returns the session of that read, in which the write must happen too; None: no comparison is
        needed."""
        if self.content.versions is not Versions.PER_NODE or expected in (None, ABSENT):
            return None
        while True:
            session = self.session_id
            record = await self.fresh(path)
            if record is None:
                raise missing
            if expected != record.stat.version:
                raise _bad_version(path, expected, record.stat.version)
            if session == self.session_id:
                return session

    def _check_session(self, session: str | None) -> None:
        """The server takes no request of a session that has ended, not even a late one."""
        if session is not None and not self.content.lives(session):
            raise self.link.refused()

    async def _look(self, work: Callable[[], T]) -> T:
        """An operation that only reads: any lost answer is a plain error."""

        def looked() -> T:
            self._fault(reads=True)
            return work()

        self._check_open()
        return await self.link.ask(looked, writes=False)

    async def _page(self, path: str, after: str, nodes: int) -> list[tuple[str, str, Record | None]]:
        return await self._look(lambda: self.feed.read().page(path, after, nodes))

    def _fault(self, *, reads: bool) -> InjectedFault | None:
        """Meet the next fault."""
        fault = self.faults.popleft() if self.faults else None
        if fault is not None and fault.error is not None and (reads or not fault.happened):
            raise fault.error
        return fault

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the metadata store is closed")

    def _next_in_sequence(self, prefix: str) -> int:
        number = self.content.sequences.get(prefix, 0)
        tree = self.content.tree
        while f"{prefix}{number:010d}" in tree.records or f"{prefix}{number:010d}" in tree.below:
            number += 1
        return number

    def _put(self, path: str, value: bytes, expected: int | None, session: str | None) -> Stat:
        content = self.content
        record = content.records.get(path)
        current = ABSENT if record is None else record.version
        if session is not None and not content.lives(session):
            raise self.link.refused()
        if expected is not None and not content.is_expected(expected, current):
            raise _bad_version(path, expected, current)
        if record is None and session is not None and path in content.tree.below:
            raise Misuse("a record with children cannot be ephemeral", path=path)
        for above in ancestors(path)[1:]:
            if above in content.records and content.records[above].session is not None:
                raise Misuse("an ephemeral record must not have children", path=path)
        now = 0 if self._runtime is None else self._runtime.wall()
        if record is not None:
            record = replace(record, value=value, version=content.next_version(record.version), mtime_ms=now)
        else:
            version = content.first_version()
            record = Record(value, version, version, now, now, session)
        content.change([(path, record)])
        return self._stat(path, record)

    def _node(self, path: str, tree: RecordTree) -> Node | None:
        record = tree.records.get(path)
        return None if record is None else Node(record.value, self._stat(path, record))

    def _stat(self, path: str, record: Record) -> Stat:
        return Stat(
            path=path,
            version=record.version,
            first_version=record.version == record.created,
            ctime_ms=record.ctime_ms,
            mtime_ms=record.mtime_ms,
            ephemeral=record.session is not None,
            mine=record.session is not None and record.session == self.session_id,
        )


def _bad_version(path: str, expected: int | None, version: int) -> BadVersion:
    return BadVersion("the record does not have the expected version", path=path, expected=expected, found=version)
