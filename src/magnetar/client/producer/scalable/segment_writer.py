"""The attachment of one segment queue to the segment's owner: opened, reopened after each loss, settled and closed.

This actor makes no decisions: broker messages become calls of its `SegmentListener`, whose `segment_queues` decide, and
it gets frames to write. The producer name at a segment is the topic producer's name with the segment's number, as
Pulsar's clients name it, so that owners recognise its messages across splits and merges.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

from magnetar.base.errors import Closed, Fenced, MagnetarError, Sealed, TimedOut, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import MESSAGE_BYTES_MAX
from magnetar.base.names import topic_name
from magnetar.client.connection.backoff import passing
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.reconnect import Reconnector, disown, leave
from magnetar.client.producer.batch import Stamp
from magnetar.client.producer.config import ProducerConfig, producer_command
from magnetar.layout.plain_layout import FOLLOWS
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.proto import pb

log = get("client.segment_writer")


class SegmentListener(Protocol):
    """Receives the events of a segment. Every call runs on the loop."""

    topic_epoch: int | None  # of the exclusive producer: the highest one from any owner

    def opened(self, segment: SegmentId, last_sequence: int) -> None: ...

    def closed(self, segment: SegmentId, *, certain: bool) -> None:
        """No more answers arrive. `certain`: every stored entry was answered."""
        ...

    def sealed(self, segment: SegmentId) -> None: ...

    def receipt(self, segment: SegmentId, sequence: int, ledger: int, entry: int) -> None: ...

    def send_refused(self, segment: SegmentId, sequence: int, error: MagnetarError) -> None: ...

    def writable(self, segment: SegmentId) -> None: ...

    def failed(self, error: MagnetarError) -> None:
        """No client may publish here under the producer's name any more."""
        ...


class SegmentWriter:
    """Satisfies the `ProducerListener` contract. `patient`: the producer is already running, so that the writer retries
    after every broker error except a sealed segment or a fenced producer.
    """

    def __init__(
        self,
        lookup: Lookup,
        segment: SegmentId,
        topic: str,
        opening: ProducerConfig,
        port: SegmentListener,
        *,
        name: str,
        patient: bool,
    ) -> None:
        self.segment = segment
        self.topic = topic
        self.id = lookup.pool.next_id()
        self.connection: Connection | None = None  # set while attached and allowed to write
        self.stamp = Stamp(self.id, b"", None, opening.compression, MESSAGE_BYTES_MAX)
        self.attaches = 0
        plain = not topic_name(topic).is_segment
        key, text = FOLLOWS
        self._opening = replace(opening, properties={**opening.properties, key: text}) if plain else opening
        self._port = port
        # A plain topic knows a producer by its own name; a migration carries over the state of that name.
        self._name = name if plain else f"{name}-seg-{segment}"
        self._patient = patient
        self._over = False
        self._runtime = lookup.pool.runtime
        self._owner = Owner(f"segment {topic}", self._crashed)
        self._attached = Reconnector(lookup, topic, self._open, ended=self._ended, fatal=self._fatal)

    def start(self, timeout_s: float) -> None:
        """Attach in the background; the listener gets the result."""
        self._runtime.spawn(self._owner, self._start(timeout_s))

    def settle(self) -> None:
        """Close the producer at this segment and process the last answers."""
        self._runtime.spawn(self._owner, self._settle())

    def abort(self, error: MagnetarError) -> None:
        """Reconnect on another connection."""
        if self.connection is not None:
            self.connection.abort(error)

    async def close(self) -> None:
        if self._over:
            return
        self._over = True
        connection, self.connection = self.connection, None
        await self._owner.close()
        await self._attached.close()
        if connection is not None and not connection.closed:
            connection.detach_producer(self.id)
            await self._leave(connection)

    # Callbacks of the connection

    def receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        self._port.receipt(self.segment, sequence, ledger, entry)

    def send_error(self, sequence: int, error: MagnetarError) -> None:
        if not isinstance(error, Sealed):  # a split refuses many sends this way
            log.warning("send_refused", topic=self.topic, sequence=sequence, why=error)
        self._port.send_refused(self.segment, sequence, error)

    def closed_by_broker(self, url: str) -> None:
        """Magnetar brokers answer every stored entry before they close a producer; others may not."""
        connection, self.connection = self.connection, None
        certain = connection is not None and connection.features.magnetar_extensions > 0
        self._attached.moved(url)
        self._port.closed(self.segment, certain=certain)

    def connection_lost(self, error: MagnetarError) -> None:
        self.connection = None
        self._attached.lost(error)
        self._port.closed(self.segment, certain=False)

    def writable_again(self) -> None:
        self._port.writable(self.segment)

    # Attaching

    async def _start(self, timeout_s: float) -> None:
        try:
            await self._attached.start(timeout_s)
        except MagnetarError as error:
            self._ended(error)

    def _fatal(self, error: MagnetarError, first: bool) -> bool:
        if isinstance(error, Sealed | TopicNotFound | Fenced | Closed):
            return True
        return first and not self._patient and not passing(error)

    def _ended(self, error: MagnetarError) -> None:
        if self._over:
            return
        if isinstance(error, Sealed | TopicNotFound):
            self._port.sealed(self.segment)
        else:
            self._port.failed(error)

    async def _open(self, connection: Connection, attempt: int) -> None:
        request_id = connection.next_request_id()
        exclusive = self._opening.access_mode != pb.Shared
        command = producer_command(
            self._opening,
            self.topic,
            self.id,
            request_id,
            name=self._name,
            epoch=attempt,
            topic_epoch=self._port.topic_epoch if exclusive else None,
        )
        connection.attach_producer(self.id, self)
        try:
            reply = await connection.request(command, request_id, timeout_s=self._opening.operation_timeout_s)
        except BaseException as error:
            connection.detach_producer(self.id)
            if isinstance(error, TimedOut | asyncio.CancelledError):
                disown(connection, self.id)
            raise
        if self._attached.connection is connection and not self._over:
            self._opened(connection, reply.producer_success)
        else:
            disown(connection, self.id)  # lost, moved or closed during the request

    def _opened(self, connection: Connection, success: pb.CommandProducerSuccess) -> None:
        self.stamp = Stamp(
            self.id,
            success.producer_name.encode(),
            success.schema_version or None,
            self._opening.compression,
            connection.max_message_size,
        )
        if success.HasField("topic_epoch"):
            self._port.topic_epoch = max(success.topic_epoch, self._port.topic_epoch or 0)
        self.attaches += 1
        self.connection = connection
        self._port.opened(self.segment, success.last_sequence_id)

    # Closing

    async def _settle(self) -> None:
        connection = self.connection
        if connection is None:
            return  # the code that detached it has already reported `closed`
        answered = await self._leave(connection)
        if self.connection is connection:  # not lost or closed by the broker during the request
            self.connection = None
            connection.detach_producer(self.id)
            self._port.closed(self.segment, certain=answered)

    async def _leave(self, connection: Connection) -> bool:
        return await leave(connection, self.id, timeout_s=self._opening.operation_timeout_s, topic=self.topic)

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("segment_writer_crashed", error, topic=self.topic)
        self._port.failed(
            MagnetarError(f"the segment writer failed with an unexpected error: {error!r}", topic=self.topic)
        )
