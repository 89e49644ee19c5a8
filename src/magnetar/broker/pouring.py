"""One stage on its way into its topic, by a client: read from its beginning, published from where its record says on,
in order, under the producer name and the sequence ids that were fixed when it was chosen.

Where that was tried before, messages that may be stored already go one by one: a batch that is stored in part could
neither be taken nor dropped. Trusts the topic to store a sequence id once (`Topic.remember_sinks`). Imported when the
first stage is published: a broker without sinks starts without a client in it.
"""

from __future__ import annotations

from magnetar.base.errors import Sealed
from magnetar.base.hashes import java_string_hash, masked
from magnetar.base.limits import STAGE_READ_MESSAGES, STAGE_READ_S, STAGE_SAVED_MESSAGES
from magnetar.base.names import topic_name
from magnetar.client.batch import Batching
from magnetar.client.client import Client
from magnetar.client.copying import copied
from magnetar.client.message import Message
from magnetar.client.producer import Producer
from magnetar.client.reader import Reader
from magnetar.runtime.runtime import Runtime
from magnetar.txn import sinkform
from magnetar.txn.leader import Saved
from magnetar.txn.staged import Chosen, Sink


def a_client(url: str, runtime: Runtime) -> Client:
    return Client(url, runtime=runtime)


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
