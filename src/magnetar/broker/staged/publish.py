"""The publishing of one stage by a client: reads the stage from its beginning and publishes from the recorded position
on, in order, under the producer name and the sequence ids that were fixed when the stage was committed.

Batches, which most entries are, are published as whole entries (`rebatch`); other entries message by message. After an
earlier attempt, messages that may already be stored are entries of their own, because a partly stored batch could
neither be accepted nor dropped. This module trusts the topic to store a sequence id once (`Topic.remember_sinks`). It
refuses entries that cannot be opened. It is imported when the first stage is published: a broker without sinks starts
without a client in it.
"""

from __future__ import annotations

import asyncio
from binascii import Error as Base64Error
from collections import deque

from magnetar.base.errors import Corrupt, NotBuilt, Sealed
from magnetar.base.hashes import java_string_hash, masked
from magnetar.base.limits import (
    STAGE_CUT_BYTES,
    STAGE_CUT_MESSAGES,
    STAGE_READ_MESSAGES,
    STAGE_READ_S,
    STAGE_SAVED_MESSAGES,
)
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.staged.rebatch import StageRebatcher, opened
from magnetar.client.batch_read.range_reader import EntryReader
from magnetar.client.client import Client
from magnetar.client.consumer.ack.message_copy import copied
from magnetar.client.consumer.receive.decode import inflate, open_metadata
from magnetar.client.message import Delivery, Message
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.producer import Producer
from magnetar.client.producer.router import routing_key
from magnetar.client.schema import BYTES
from magnetar.runtime.runtime import Runtime
from magnetar.staged import codec
from magnetar.staged.machine import CommittedStage, Sink
from magnetar.staged.publisher import Saved
from magnetar.wire import entry as entries
from magnetar.wire.claims import no_room
from magnetar.wire.proto import pb


def a_client(url: str, runtime: Runtime) -> Client:
    return Client(url, runtime=runtime)


async def pour(client: Client, sink: Sink, chosen: CommittedStage, stage: TopicName, saved: Saved) -> None:
    reader = EntryReader(client.lookup, str(stage))
    try:
        await reader.open()
        await StagePublisher(client, sink, chosen, reader).run(saved)
    finally:
        await reader.close()


class StageEntry:
    """An entry that was read from the stage but not completely published: `done` of its messages are."""

    __slots__ = ("count", "done", "is_batch", "metadata", "payload")

    def __init__(self, data: bytes, done: int = 0) -> None:
        """`Corrupt`, `NotBuilt`: the entry cannot be opened."""
        metadata, begin = open_metadata(data)
        if metadata.encryption_keys or metadata.num_chunks_from_msg > 1:
            raise NotBuilt("a stage with encrypted or chunked messages cannot be published; its rows stay in the stage")
        if metadata.HasField("num_messages_in_batch") and (why := no_room(metadata, len(data) - begin)):
            raise Corrupt(why)
        self.metadata: pb.MessageMetadata = metadata
        self.payload = inflate(metadata, data[begin:])
        self.is_batch = metadata.HasField("num_messages_in_batch")
        self.count = metadata.num_messages_in_batch if self.is_batch else 1
        self.done = done
        if self.count <= done:
            raise Corrupt("a batch without messages")

    @property
    def left(self) -> int:
        return self.count - self.done

    def messages(self) -> list[Message[bytes]]:
        if self.is_batch:
            return opened(self.metadata, self.payload, self.count)[self.done :]
        return [Message(self.payload, Delivery(self.metadata, "", BYTES, ledger=-1, entry=-1))]


class StagePublisher:
    """Publishes one stage to its topic."""

    def __init__(self, client: Client, sink: Sink, chosen: CommittedStage, reader: EntryReader) -> None:
        self._client = client
        self._sink = sink
        self._chosen = chosen
        self._reader = reader
        self._name = codec.producer(sink, chosen.producer)
        self._read: deque[bytes] = deque()  # entries that have come
        self._held: deque[StageEntry] = deque()  # those that are next, opened
        self._at = 0  # the message that is published next
        self._hashed = False  # keys are hashed as they were before they were put into base64
        self._decanter: StageRebatcher | None = None

    async def run(self, saved: Saved) -> None:
        chosen = self._chosen
        await self._skip(chosen.published)
        producer = await self._producer(batching=Batching())
        try:
            # the maximum number of messages that were stored before
            published = producer.last_sequence_id - chosen.first + 1
            if published <= self._at:
                await self._pour(producer, chosen.messages, saved)
                return
        finally:
            await producer.close(flush=False)
        for batching, end in ((None, min(published, chosen.messages)), (Batching(), chosen.messages)):
            producer = await self._producer(batching=batching)
            try:
                await self._pour(producer, end, saved)
            finally:
                await producer.close(flush=False)  # all of it is flushed, unless it failed

    async def _producer(self, *, batching: Batching | None) -> Producer[bytes]:
        sink = self._sink
        topic = topic_name(sink.topic)
        if not topic.is_scalable:
            try:
                return await self._client.create_producer(
                    sink.topic, name=self._name, batching=batching, routing=self._partition
                )
            except Sealed:  # migrated since it was chosen: its segments know what it had stored
                topic = topic.scalable
        self._hashed = True
        return await self._client.create_producer(str(topic), name=self._name, batching=batching)

    def _partition(self, key: str | None, partitions: int) -> int:
        """The partition among those at the time of the commit: a second attempt must choose the same one."""
        count = self._chosen.partitions or partitions
        return self._at % count if key is None else masked(java_string_hash(key)) % count

    async def _pour(self, producer: Producer[bytes], end: int, saved: Saved) -> None:
        while self._at < end:
            until = min(end, self._at + STAGE_SAVED_MESSAGES)
            while self._at < until:
                await self._fill()
                if not await self._pour_whole(producer, end):
                    await self._pour_each(producer, until)
                await asyncio.sleep(0)  # the others' turn: neither reading nor handing over waits while there is room
            await producer.flush()
            await saved(self._at)

    async def _pour_whole(self, producer: Producer[bytes], end: int) -> bool:
        """Publishes the held batches together. False: the first one must be published message by message."""
        decanter = self._cut(producer)
        if decanter is None:
            return False
        at = self._at
        while self._held and self._held[0].is_batch:
            held = self._held[0]
            if at + held.left > end:
                break  # more than the stage is said to hold
            if not decanter.take(held.payload, held.count, self._chosen.first + at, skip=held.done):
                break
            at += held.left
            self._held.popleft()
        if at == self._at:
            return False
        await producer._admit_sheaves(decanter.sheaves())
        self._at = at
        return True

    def _cut(self, producer: Producer[bytes]) -> StageRebatcher | None:
        cutting = producer._cutting(numbered=True)
        if cutting is None:
            return None
        if self._decanter is None:
            count = (self._chosen.partitions or producer.partitions) if producer.partitions else 0
            self._decanter = StageRebatcher(cutting, self._name, first=self._chosen.first, partitions=count)
        self._decanter.renew(cutting)
        return self._decanter

    async def _pour_each(self, producer: Producer[bytes], until: int) -> None:
        room = min(until - self._at, STAGE_READ_MESSAGES)
        while room and self._held:
            held = self._held[0]
            for message in held.messages()[:room]:
                payload, fields = copied(message, self._chosen.first + self._at)
                if self._hashed:
                    _check(fields)
                if not producer._admit(payload, fields, None):
                    await producer._admit_later(payload, fields, None)
                self._at += 1
                room -= 1
                held.done += 1
            if not held.left:
                self._held.popleft()

    # Reading

    async def _fill(self) -> None:
        """Reads entries until a whole batch of output is held, or the stage ends."""
        messages, size = sum(held.left for held in self._held), sum(len(held.payload) for held in self._held)
        while messages < STAGE_CUT_MESSAGES and size < STAGE_CUT_BYTES and self._at + messages < self._chosen.messages:
            held = StageEntry(await self._next())
            self._held.append(held)
            messages += held.left
            size += len(held.payload)

    async def _skip(self, messages: int) -> None:
        while self._at < messages:
            data = await self._next()
            count = entries.counts(data)
            if self._at + count > messages:
                self._held.append(StageEntry(data, messages - self._at))
            self._at = min(self._at + count, messages)

    async def _next(self) -> bytes:
        if not self._read:
            self._read.extend(data for _, _, data in await self._reader.take(STAGE_READ_S))
        return self._read.popleft()


def _check(fields: MessageFields) -> None:
    """`Corrupt`: the key of the message is invalid, so its segment is unknown."""
    try:
        routing_key(fields)
    except Base64Error:
        raise Corrupt("the key of a message is marked as base64 but is not valid base64", key=fields.key) from None
