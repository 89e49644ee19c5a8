"""Several brokers with scalable topics on one metadata store and one ledger store in memory, calls between them carried
straight to the other's handlers, and a writer that follows the layout. A broker can be killed at any mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from magnetar.base.errors import ConnectionLost, MagnetarError
from magnetar.base.ids import Position, SegmentId
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.node import Node
from magnetar.broker.peers.destination import destination
from magnetar.cluster.calls.topic_calls import Answer, Request
from magnetar.cluster.ownership import Candidate
from magnetar.layout.routing import DEFAULT
from magnetar.policy.settings import Settings
from magnetar.scalable.record.record import Record
from magnetar.scalable.service import Assignment
from magnetar.topic.topic import Topic
from magnetar.wire import entry
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from tests.support.async_tests import provides, within
from tests.support.virtual_clock import pass_s, run_on_clock, settle
from tests.unit.broker.world import Client
from tests.unit.topic.world import HeldStore, NoFiles, an_entry, send_frame

__all__ = ["pass_s", "settle"]

NAME = topic_name("topic://public/default/orders")
SECRET = {"brokerClientAuthenticationParameters": "token:shared by these brokers"}
KEPT = {"defaultRetentionTimeInMinutes": "-1", "defaultRetentionSizeInMB": "-1"}  # nothing is trimmed under a checker
KEYS = [f"key-{number}" for number in range(12)]


class Marks(InlineRuntime):
    """Tells a test of every mark, in the same turn."""

    told: Callable[[str, dict[str, object]], None] = staticmethod(lambda name, facts: None)

    def mark(self, name: str, **facts: object) -> None:
        super().mark(name, **facts)
        self.told(name, facts)


@dataclass(eq=False)
class Member:
    node: Node
    metadata: HeldStore
    ledgers: MemoryLedgers
    runtime: Marks
    cluster: Cluster
    carrier: Direct
    dead: bool = False

    @property
    def service(self) -> Any:
        return self.node.scalable

    def kill(self) -> None:
        """Now, whatever it was about to do: nothing of it reaches a store any more."""
        if not self.dead:
            self.dead = True
            session = self.metadata.session_id
            self.metadata.crash()
            self.ledgers.crash()
            self.metadata.content.end_session(session)

    def kill_at(self, mark: str, times: int = 1) -> None:
        seen = 0

        def told(name: str, facts: dict[str, object]) -> None:
            nonlocal seen
            seen += name == mark
            if name == mark and seen == times:
                self.kill()

        self.runtime.told = told

    def marked(self, name: str) -> int:
        return sum(said == name for said, _ in self.runtime.marked)

    async def segment(self, name: TopicName) -> Topic:
        found = await self.node.topics.get(name, create=False)
        assert isinstance(found, Topic)
        return found


class Direct:
    """Calls between brokers: to the owner's handlers at once. `losing`: how many more calls go well before one is lost,
    on its way (`happened` False) or on its way back; it is lost twice over, so that a repetition is lost too."""

    losing: int | None = None
    happened = True
    lost = 0

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.node: Node | None = None

    async def carry(self, name: TopicName, request: Request) -> Answer:
        assert self.node is not None
        broker = await destination(self.node, name)
        there = next((one for one in self._cluster.living if one.node.ownership.me.id == broker.id), None)
        if there is None:
            raise ConnectionLost("nobody answers there", broker=broker.id)
        if name.domain is not Domain.TOPIC:
            await there.node.served.claim(name)
        strikes = self._strikes()
        if strikes and not self.happened:
            raise ConnectionLost("it never arrived")
        answer = await there.node.handlers.handle(name, request)
        if strikes:
            raise ConnectionLost("its answer never arrived")
        if there.dead:
            raise ConnectionLost("it died before it answered")
        return answer

    def _strikes(self) -> bool:
        if self.losing is None:
            return False
        self.losing -= 1
        self.lost += self.losing in (-1, -2)
        return self.losing in (-1, -2)


@dataclass
class Cluster:
    settings: dict[str, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)

    @property
    def living(self) -> list[Member]:
        return [one for one in self.members if not one.dead]

    async def join(self) -> Member:
        files: Any = NoFiles()
        number = len(self.members) + 1
        runtime = Marks(files, seed=number)
        if self.members:
            first = self.members[0]
            metadata, ledgers = HeldStore(runtime, content=first.metadata.content), first.ledgers.peer()
        else:
            metadata, ledgers = HeldStore(runtime), MemoryLedgers()
        carrier = Direct(self)
        node = Node(
            runtime=runtime,
            metadata=metadata,
            ledgers=ledgers,
            settings=Settings(None, {**SECRET, "scalableTopicAutoScaleEnabled": "false", **self.settings}),
            cluster=True,
            carrier=carrier,
        )
        carrier.node = node
        member = Member(node, metadata, ledgers, runtime, self, carrier)
        self.members.append(member)
        await node.start("127.0.0.1", 6650, host_shown=f"broker-{number}")
        await node.serve(8080)
        return member

    async def record(self) -> Record:
        found = await self.living[0].node.scalable.read(NAME)
        assert found is not None
        return found

    async def owner(self, name: TopicName) -> Member:
        for _ in range(50):
            asked = self.living[0]
            place = await asked.node.served.place(name)
            try:
                found = await asked.node.ownership.owner(*place)
                broker = found.broker if isinstance(found, Candidate) else found
                there = next((one for one in self.living if one.node.ownership.me.id == broker.id), None)
                if there is not None and isinstance(found, Candidate):
                    await there.node.ownership.owner(*place, authoritative=True)
                    continue
                if there is not None:
                    return there
            except MagnetarError:
                pass
            await pass_s(1)
        raise AssertionError(f"nobody serves {name}")

    async def until(self, happened: Callable[[Record], bool], wait_s: float = 120) -> Record:
        """The record, once this is so."""
        for _ in range(int(wait_s)):
            found, _ = await self.living[0].node.scalable.records.fresh(NAME)
            if found is not None and happened(found):
                return found
            await pass_s(1)
        raise AssertionError(f"it never happened: {found}")

    async def contents(self) -> dict[str, list[int]]:
        """What every key has, segment by segment, parents before children."""
        found: dict[str, list[int]] = {}
        for one in (await self.record()).layout.segments:
            name = one.topic(NAME)
            topic = await (await self.owner(name)).segment(name)
            position = topic.managed.next_valid(topic.managed.first)
            while topic.managed.entries and position <= topic.managed.last:
                run = await topic.managed.read(position, 1 << 20, 1000)
                assert run is not None
                for index in range(len(run)):
                    body = run.entry(index)
                    key = entry.sticky_key(body)
                    assert key is not None
                    found.setdefault(key.decode(), []).append(int(body.rpartition(b"=")[2]))
                position = topic.managed.next_valid(Position(run.ledger, run.last + 1))
        return found


@dataclass
class Writer:
    """A producer that sends one message at a time and follows the layout, however often it must."""

    cluster: Cluster
    name: str = "w"
    sequence: int = 0
    padding_bytes: int = 0  # in front of what a message says
    sent: dict[str, list[int]] = field(default_factory=dict)
    _clients: dict[Member, Client] = field(default_factory=dict)
    _ids: dict[tuple[Member, SegmentId], int] = field(default_factory=dict)

    async def send(self, key: str) -> None:
        number = len(self.sent.setdefault(key, []))
        sequence, self.sequence = self.sequence, self.sequence + 1
        for _ in range(200):
            try:
                if await self._try(key, number, sequence):
                    self.sent[key].append(number)
                    return
            except MagnetarError:
                pass
            await pass_s(0.1)
        raise AssertionError(f"{key} was never stored")

    async def _try(self, key: str, number: int, sequence: int) -> bool:
        record = await self.cluster.record()
        segment = record.layout.route_key(key, record.routing or DEFAULT)
        name = segment.topic(NAME)
        member = await self.cluster.owner(name)
        client = self._clients.get(member)
        if client is None or client.connection.closed:
            client = self._clients[member] = Client(member.node).connect()
        id = self._ids.get((member, segment.id))
        known = None if id is None else client.connection.producers.get(id)
        if id is None or known is None or known.closed:
            id = self._ids[member, segment.id] = len(self._ids) + sequence + 1
            said = await client.ask(
                "PRODUCER", topic=str(name), producer_id=id, producer_name=f"{self.name}-seg-{segment.id}"
            )
            if not said.HasField("producer_success"):
                return False
        return await self._publish(client, id, segment.id, key, number, sequence)

    async def send_attached(self, key: str) -> None:
        """One more message to the only segment that the writer is attached to, without reading the record."""
        [((member, segment), id)] = self._ids.items()
        number = len(self.sent.setdefault(key, []))
        sequence, self.sequence = self.sequence, self.sequence + 1
        assert await self._publish(self._clients[member], id, segment, key, number, sequence)
        self.sent[key].append(number)

    async def _publish(self, client: Client, id: int, segment: SegmentId, key: str, number: int, sequence: int) -> bool:
        body = an_entry(
            f"{'.' * self.padding_bytes}={number}",
            sequence,
            producer=f"{self.name}-seg-{segment}",
            partition_key=key,
        )
        before = len(client.heard.heard)
        client.say(send_frame(id, sequence, body))
        await settle()
        said_since = [said for said, _ in client.heard.heard[before:]]
        return any(said.HasField("send_receipt") and said.send_receipt.producer_id == id for said in said_since)

    def close(self) -> None:
        for member, client in self._clients.items():
            if not member.dead and not client.connection.closed:
                client.lose()


@dataclass
class Ear:
    """A stream consumer's way back: what it was told, in order."""

    connection: str
    connected: bool = True
    shares: bool = False
    heard: list[Assignment] = field(default_factory=list)
    gone: MagnetarError | None = None

    def assigned(self, assignment: Assignment) -> None:
        self.heard.append(assignment)

    def ended(self, error: MagnetarError) -> None:
        self.gone = error


def ids(assignment: Assignment) -> list[int]:
    return [one.id for one in assignment.segments]


def spawn(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)


@provides(Cluster)
async def started_cluster(brokers: int = 1, *, kept: bool = True, **settings: str) -> AsyncIterator[Cluster]:
    """So many brokers. A failure inside a living one fails the test. `kept`: the brokers trim nothing; otherwise the
    default retention applies."""
    cluster = Cluster({**(KEPT if kept else {}), **settings})
    for _ in range(brokers):
        await cluster.join()
    yield cluster
    for member in cluster.members:
        member.runtime.told = lambda name, facts: None
        member.metadata.release()
        member.ledgers.release()
        if not member.dead:  # the dead are not asked to stop: their tasks end with the loop
            await member.node.stop()
    await settle()
    metrics = [one.node.metrics for one in cluster.living]
    assert sum(one.task_failures.value + one.request_failures.value for one in metrics) == 0


def run(body: Callable[[Cluster], Coroutine[Any, Any, None]], brokers: int = 1, **options: Any) -> None:
    run_on_clock(lambda: within(started_cluster(brokers, **options), body))
