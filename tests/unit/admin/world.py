"""What the tests of this room share: a node on stores in memory, requests that are easy to write, recordings."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from magnetar.admin.request import JSON, Request, Response, whole
from magnetar.admin.router import handle
from magnetar.base.names import topic_name
from magnetar.broker.node import Node
from magnetar.ledger.run import run_of
from magnetar.policy.settings import Settings
from magnetar.topic.producers.producer import Producer
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.topic import Topic
from magnetar.wire.message import batch, single
from magnetar.wire.proto import pb
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.ledgers import MemoryLedgers
from simulation.stores.metadata import MemoryStore

VECTORS = Path(__file__).parents[2] / "vectors" / "rest"


class NoFiles:
    """These tests touch no disk."""


class Sink:
    """A client's side of a connection: keeps what it is sent."""

    generation = 1
    peer = "127.0.0.1:50412"
    client_version = "Pulsar-Test-v1"
    protocol_version = 21
    congested = False
    closed = False

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def write_soon(self, data: bytes) -> None:
        self.written.append(data)

    def released(self, size: int) -> None:
        """Nothing is held back here."""

    async def alive(self) -> bool:
        return True

    async def round_trip(self) -> bool:
        return True


class LaterRuntime(InlineRuntime):
    """Its clock can be put forward."""

    later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def reason(self) -> str:
        return str(self.document["reason"])


@dataclass
class World:
    node: Node
    runtime: LaterRuntime

    async def ask(
        self, method: str, path: str, document: Any = None, *, raw: bytes | None = None, **headers: str
    ) -> Answer:
        """`document` goes as JSON; `raw` as it is, with the headers given."""
        body = raw if raw is not None else b"" if document is None else msgspec.json.encode(document)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if document is not None and raw is None:
            told.setdefault("content-type", JSON)
        plain, _, query = path.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        asked = Request(method, plain, dict(pairs), told, body, pairs=pairs)
        response: Response = await handle(self.node, asked)
        return Answer(response.status, await whole(response), dict(response.headers))

    async def get(self, path: str) -> Any:
        """What a successful read shows."""
        answer = await self.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.document

    async def do(self, method: str, path: str, document: Any = None) -> None:
        """A change that must succeed."""
        answer = await self.ask(method, path, document)
        assert answer.status in (200, 204), (method, path, answer)

    async def topic(self, name: str) -> Topic:
        loaded = await self.node.topics.get(topic_name(name), create=True)
        assert isinstance(loaded, Topic)
        return loaded

    async def consume(self, topic: str, subscription: str, kind: int = 1, permits: int = 100) -> tuple[Consumer, Sink]:
        """A consumer with permits, from the first message on; `kind` is the wire's SubType."""
        loaded = await self.node.topics.get(topic_name(topic), create=True)
        sink = Sink()
        asked = Subscribe(subscription, kind, 1, f"of-{subscription}", earliest=True, metadata={"app": "x"})
        consumer = await loaded.subscribe(asked, sink)
        consumer.flow(permits)
        loaded.activate(consumer)
        return consumer, sink

    async def produce(self, topic: str, name: str) -> Producer:
        loaded = await self.node.topics.get(topic_name(topic), create=True)
        producer = Producer(3, name, Sink(), loaded)
        await loaded.producers.join(producer, None, lambda: None)
        return producer

    async def publish(self, topic: str, *payloads: bytes, **fields: Any) -> None:
        """Stored as a producer's messages would be, without a connection."""
        for number, payload in enumerate(payloads):
            said = pb.MessageMetadata(
                producer_name="p1", sequence_id=number, publish_time=self.runtime.wall(), **fields
            )
            await self.store(topic, single(said, payload))

    async def publish_batch(self, topic: str, *payloads: bytes, compression: int = 0) -> None:
        said = pb.MessageMetadata(producer_name="p2", sequence_id=0, publish_time=self.runtime.wall())
        parts = [(pb.SingleMessageMetadata(payload_size=0), payload) for payload in payloads]
        await self.store(topic, batch(said, parts, compression), len(payloads))

    async def publish_batches(self, topic: str, sizes: list[int]) -> None:
        """One batch of each size; batch n is published at 1000 + n."""
        for number, size in enumerate(sizes):
            said = pb.MessageMetadata(producer_name="p3", sequence_id=number, publish_time=1000 + number)
            parts = [(pb.SingleMessageMetadata(payload_size=0), b"x") for _ in range(size)]
            await self.store(topic, batch(said, parts, 0), size)

    async def store(self, topic: str, entry: bytes, messages: int = 1) -> None:
        loaded = await self.topic(topic)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        made = run_of([entry], [messages])
        loaded.managed.append(made, lambda stored, error: done.set_result(None))
        await done
        loaded.appended(made, len(entry))


@asynccontextmanager
async def a_world(**settings: str) -> AsyncIterator[World]:
    files: Any = NoFiles()
    runtime = LaterRuntime(files)
    node = Node(
        runtime=runtime, metadata=MemoryStore(runtime), ledgers=MemoryLedgers(), settings=Settings(None, settings)
    )
    await node.start("127.0.0.1", 0, host_shown="localhost")
    await node.serve(8080)
    try:
        yield World(node, runtime)
    finally:
        await node.stop()


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(body)


# Recorded exchanges


@dataclass
class Exchange:
    """One recorded call of a real Pulsar and its answer."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    status: int = 0
    kind: str = ""
    answer: str = ""
    backlog_after: int | None = None  # of subscription `fromstart`, where the recording looked

    @property
    def document(self) -> Any:
        """The recorded JSON; times of the run are 0 in it. None: there is none."""
        if not self.kind.startswith("application/json") or self.answer.startswith(("NOT JSON", "BINARY")):
            return None
        text = re.sub(r"(?<=[:\[ ])T(?=[,\n\]}]|$)", "0", self.answer)
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return None  # cut

    @property
    def text(self) -> str | None:
        """A plain text told as JSON."""
        return self.answer.removeprefix("NOT JSON: ") if self.answer.startswith("NOT JSON: ") else None


_CALL = re.compile(r"(GET|PUT|POST|DELETE|PATCH|HEAD|OPTIONS|TRACE) (/\S*)")
_HEADER = re.compile(r"  ([A-Z][A-Za-z-]*): (.*)")


def recorded(name: str) -> list[Exchange]:
    """All exchanges of one file, in order."""
    found: list[Exchange] = []
    answering = False
    for line in (VECTORS / f"{name}.txt").read_text().splitlines():
        if call := _CALL.fullmatch(line):
            found.append(Exchange(call[1], call[2]))
            answering = False
        elif not found:
            continue
        elif line.startswith("=> "):
            status, _, kind = line[3:].partition(" ")
            found[-1].status, found[-1].kind = int(status), kind
            answering = True
        elif looked := re.fullmatch(r"# msgBacklog afterwards: (\d+)", line):
            found[-1].backlog_after = int(looked[1])
        elif not line or line.startswith("#"):
            answering = answering and not line.startswith("#")
        elif not answering:
            header = _HEADER.fullmatch(line)
            if header:
                found[-1].headers[header[1].lower()] = header[2]
            else:
                found[-1].body = (found[-1].body or b"") + line[2:].encode()
        elif not _HEADER.fullmatch(line):
            found[-1].answer += line + "\n"
    for exchange in found:
        exchange.answer = exchange.answer.strip()
    return found


def like(recorded: Any, ours: Any, path: str = "") -> list[str]:
    """Where our document lacks something the recorded one has, or has it in another form."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        lacking = [f"{path}.{name} is missing" for name in recorded if name not in ours]
        both = [name for name in recorded if name in ours]
        return lacking + [said for name in both for said in like(recorded[name], ours[name], f"{path}.{name}")]
    if isinstance(recorded, list) and isinstance(ours, list):
        if recorded and ours and isinstance(recorded[0], dict):
            return like(recorded[0], ours[0], f"{path}[0]")
        return []
    number = (int, float)
    same = isinstance(ours, type(recorded)) or (isinstance(recorded, number) and isinstance(ours, number))
    return [] if same else [f"{path} is {ours!r}, recorded {recorded!r}"]
