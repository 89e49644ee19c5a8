"""What a broker does for the stages of sinks: their topics through `cluster/peers.py`, their messages by a client of
its own, through ordinary lookups, routing and deduplication.

A stage is read from its beginning and published from where its record says on, in order, under the producer name and
the sequence ids that were fixed when it was chosen. Where that was tried before, messages that may be stored already go
one by one: a batch that is stored in part could neither be taken nor dropped. Trusts the topic to store a sequence id
once (`Topic.remember_sinks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import Closed, Misuse, Sealed
from magnetar.base.hashes import java_string_hash, masked
from magnetar.base.ids import Term
from magnetar.base.limits import STAGE_READ_MESSAGES, STAGE_READ_S, STAGE_SAVED_MESSAGES
from magnetar.base.names import TopicName, topic_name
from magnetar.client.batch import Batching
from magnetar.client.client import Client
from magnetar.client.copying import copied
from magnetar.client.message import Message
from magnetar.client.producer import Producer
from magnetar.client.reader import Reader
from magnetar.txn import sinkform
from magnetar.txn.leader import Saved
from magnetar.txn.sinks import Sinks
from magnetar.txn.staged import Chosen, Sink

if TYPE_CHECKING:
    from magnetar.broker.node import Node

CURSOR = "__sink"  # keeps what a stage holds from being trimmed
_TERM = Term(0)  # nobody competes for a stage: it is made, sealed and deleted once, by whoever is first


class Staging:
    """Keeps `txn.leader.Stages` on a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._client: Client | None = None

    async def create(self, topic: TopicName) -> None:
        await self._node.peers.owner(topic).create(topic.local_name, _TERM, cursors=(CURSOR,))

    async def seal(self, topic: TopicName) -> int:
        return (await self._node.peers.owner(topic).seal(topic.local_name, _TERM)).messages

    async def delete(self, topic: TopicName) -> None:
        await self._node.peers.owner(topic).delete(topic.local_name, _TERM, force=True)

    async def partitions(self, topic: TopicName) -> int:
        if topic.is_segment or topic.is_stage or not topic.is_persistent:
            raise Misuse("rows are published to a persistent or scalable topic", topic=str(topic))
        return 0 if topic.is_scalable else await self._node.topics.partitions(topic, create=True)

    async def publish(self, sink: Sink, chosen: Chosen, stage: TopicName, saved: Saved) -> None:
        client = self._open()
        reader = await client.create_reader(str(stage))
        try:
            await Pouring(client, sink, chosen, reader).run(saved)
        finally:
            await reader.close()

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.__aexit__(Closed, None, None)  # do not wait: whoever leads next publishes what is pending

    def _open(self) -> Client:
        if self._client is None:
            self._client = Client(self._node.addresses.url, runtime=self._node.runtime)
        return self._client


class Pouring:
    """One stage on its way into the topic."""

    def __init__(self, client: Client, sink: Sink, chosen: Chosen, reader: Reader[bytes]) -> None:
        self._client = client
        self._sink = sink
        self._chosen = chosen
        self._reader = reader
        self._at = 0  # the message that is published next

    async def run(self, saved: Saved) -> None:
        chosen = self._chosen
        await self._skip(chosen.published)
        producer = await self._producer(batching=Batching())
        try:
            known = producer.last_sequence_id - chosen.first + 1  # so many at most were stored before
            if known <= self._at:
                await self._pour(producer, chosen.messages, saved)
                return
        finally:
            await producer.close(flush=False)
        for batching, end in ((None, min(known, chosen.messages)), (Batching(), chosen.messages)):
            producer = await self._producer(batching=batching)
            try:
                await self._pour(producer, end, saved)
            finally:
                await producer.close(flush=False)  # all of it is flushed, unless it failed

    async def _producer(self, *, batching: Batching | None) -> Producer[bytes]:
        chosen, sink = self._chosen, self._sink
        name = sinkform.producer(sink, chosen.lane)
        topic = topic_name(sink.topic)
        if not topic.is_scalable:
            try:
                return await self._client.create_producer(
                    sink.topic, name=name, batching=batching, routing=self._partition
                )
            except Sealed:  # migrated since it was chosen: its segments know what it had stored
                topic = topic.scalable
        return await self._client.create_producer(str(topic), name=name, batching=batching)

    def _partition(self, key: str | None, partitions: int) -> int:
        """Of those that there were when the stage was chosen: a second try must come to the same."""
        count = self._chosen.partitions or partitions
        return self._at % count if key is None else masked(java_string_hash(key)) % count

    async def _pour(self, producer: Producer[bytes], end: int, saved: Saved) -> None:
        while self._at < end:
            until = min(end, self._at + STAGE_SAVED_MESSAGES)
            while self._at < until:
                for message in await self._read(until - self._at):
                    payload, fields = copied(message, self._chosen.first + self._at)
                    if not producer.admit(payload, fields, None):
                        await producer.admit_later(payload, fields, None)
                    self._at += 1
            await producer.flush()
            await saved(self._at)

    async def _skip(self, messages: int) -> None:
        while self._at < messages:
            self._at += len(await self._read(messages - self._at))

    async def _read(self, messages_max: int) -> list[Message[bytes]]:
        count = min(messages_max, STAGE_READ_MESSAGES)
        first = await self._reader.receive(STAGE_READ_S)
        return [first, *(await self._reader.receive_batch(count - 1, timeout_s=0.0) if count > 1 else [])]


def sinks_of(node: Node) -> tuple[Sinks, Staging]:
    staging = Staging(node)
    made = Sinks(node.metadata, node.runtime, staging, me=lambda: node.ownership.me.id, failed=node.task_failed)
    return made, staging
