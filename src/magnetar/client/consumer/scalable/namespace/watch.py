"""The watch of a namespace's scalable topics: opened at any broker, followed, and reopened after every loss.

It reports which topics appeared and disappeared since its last report: a reopened watch begins with the whole list, and
only the differences are reported. Errors before the first list go to the caller; later ones cause a retry with
back-off. It opens no topics; each topic's own watch reports its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from magnetar.base.errors import Closed, MagnetarError, Refused, TimedOut
from magnetar.client.connection.backoff import passing
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.error_codes import error_of
from magnetar.client.connection.lookup import Lookup, Route
from magnetar.client.connection.pool import Pool
from magnetar.client.connection.reconnect import Reconnector
from magnetar.client.connection.server_stream import First, ServerStream
from magnetar.observe.log import get
from magnetar.wire.proto import pb

log = get("client.namespace")

_UPDATE = pb.BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE

Changed = Callable[[Sequence[str], Sequence[str]], None]  # (deleted, created): a name in both is another topic


def members_fatal(error: MagnetarError, first: bool) -> bool:
    """After the first list the watch continues until it is closed."""
    return not passing(error) if first else isinstance(error, Closed)


class NamespaceWatch:
    """Satisfies the `BrokerFinder` contract: every broker knows the topics of a namespace."""

    pool: Pool

    def __init__(self, lookup: Lookup, namespace: str, properties: Mapping[str, str], *, changed: Changed) -> None:
        self.pool = lookup.pool
        self.known: set[str] = set()
        self._lookup = lookup
        self._namespace = namespace
        self._properties = dict(properties)
        self._changed = changed
        self._over = False
        self._attached = Reconnector(self, namespace, self._open, ended=self._ended, fatal=members_fatal)
        self._session = ServerStream(lookup.pool, _UPDATE, close=_closing, lost=self._attached.lost)

    async def broker(self, topic: str) -> Route:
        return Route((await self._lookup.service()).url)

    async def start(self, timeout_s: float) -> None:
        """Wait for the first list."""
        await self._attached.start(timeout_s)

    async def close(self) -> None:
        self._over = True
        connection = self._attached.connection
        if connection is not None:
            self._session.leave(connection)
        await self._attached.close()

    async def _open(self, connection: Connection, attempt: int) -> None:
        if not connection.features.supports_scalable_topics:
            raise Refused(
                "the broker does not support scalable topics: a watch of their namespace requires Magnetar or Pulsar 5",
                url=connection.url,
            )
        late = TimedOut("the broker did not list the topics in time", namespace=self._namespace)
        first = self._session.ask(connection, self._question, partial(self._told, connection))
        with self._lookup.moving_on(connection):
            await self._session.answered(connection, first, self._lookup.timeout_s, late)

    def _question(self, id: int) -> pb.BaseCommand:
        """Without the hash of the known list, so that the answer shows that the watch is open."""
        command = pb.BaseCommand(type=pb.BaseCommand.WATCH_SCALABLE_TOPICS)
        command.watchScalableTopics.watch_id = id
        command.watchScalableTopics.namespace = self._namespace
        for key, value in sorted(self._properties.items()):
            command.watchScalableTopics.property_filters.add(key=key, value=value)
        return command

    # Updates from the broker

    def _told(self, connection: Connection, first: First, update: pb.CommandWatchScalableTopicsUpdate) -> None:
        if self._over:
            return
        if update.HasField("error"):
            self._session.over(connection)
            self._session.failed(first, error_of(update.error, update.message, namespace=self._namespace))
            return
        if update.HasField("snapshot"):
            now = set(update.snapshot.topics)
            self._change(self.known - now, now - self.known)
        else:
            gone = self.known.intersection(update.diff.removed)
            self._change(gone, set(update.diff.added) - (self.known - gone))
        if not first.done():
            first.set_result(None)

    def _change(self, gone: set[str], come: set[str]) -> None:
        self.known = (self.known - gone) | come
        if gone or come:
            log.info("topics_changed", namespace=self._namespace, gone=len(gone), come=len(come))
            self._changed(sorted(gone), sorted(come))

    def _ended(self, error: MagnetarError) -> None:
        log.warning("namespace_watch_ended", namespace=self._namespace, why=error)


def _closing(id: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.WATCH_SCALABLE_TOPICS_CLOSE)
    command.watchScalableTopicsClose.watch_id = id
    return command
