"""The watch of the scalable topics of a namespace (76, 78): first the whole list, then the added and removed topics, in
order.

A watch lives as long as its connection. It is a different object than an earlier watch of the same number, which
distinguishes them (H-F7). Changes within a short time are sent together. Nothing is sent while the peer does not read:
the next difference contains the changes. `scalable/membership` decides the content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import LimitExceeded, TopicNotFound
from magnetar.base.hashes import topics_hash
from magnetar.base.limits import CONNECTION_WATCHES_MAX, MEMBERS_GATHER_S, WATCH_OBJECT_BYTES
from magnetar.base.names import NamespaceName, namespace_name
from magnetar.broker.handlers.requests import start
from magnetar.broker.handlers.scalable import check_enabled
from magnetar.scalable.watch.namespace_diff import Member, NamespaceDiff
from magnetar.wire.proto import pb
from magnetar.wire.scalable import namespace_watch

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection


class NamespaceWatch:
    """Implements the `Listener` of `scalable/members`."""

    def __init__(self, connection: Connection, request: pb.CommandWatchScalableTopics) -> None:
        self.id = request.watch_id
        self._connection = connection
        self._known_hash = request.current_hash if request.HasField("current_hash") else None
        self._membership = NamespaceDiff([(one.key, one.value) for one in request.property_filters])
        self._stop: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def open(self, watch: Callable[[NamespaceWatch], Callable[[], None]]) -> None:
        stop = watch(self)
        if self._closed:
            stop()
        else:
            self._stop = stop

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._stop is not None:
            self._stop()
            self._stop = None

    def begun(self, members: Mapping[str, Member]) -> None:
        """A client that returns and knows the current list receives nothing, as in Pulsar."""
        topics = self._membership.begun(members)
        if self._known_hash is None or self._known_hash != topics_hash(topics):
            self._connection.write(namespace_watch.snapshot(self.id, topics))

    def noted(self, name: str, member: Member | None) -> None:
        self._membership.noted(name, member)
        self.resume()

    def resume(self) -> None:
        """Schedules the next message if there are changes."""
        if self._timer is None and not self._closed and self._membership.due:
            self._timer = asyncio.get_running_loop().call_later(MEMBERS_GATHER_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        if self._closed or self._connection.congested or not self._membership.due:
            return
        news = self._membership.difference()
        self._connection.write(namespace_watch.difference(self.id, news.added, news.removed))


def watch(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.watchScalableTopics
    old = connection.memberships.pop(request.watch_id, None)
    if old is not None:
        old.close()
    if len(connection.memberships) >= CONNECTION_WATCHES_MAX:
        text = f"a connection must not watch more than {CONNECTION_WATCHES_MAX} namespaces: open another connection"
        connection.write(namespace_watch.failed(request.watch_id, LimitExceeded.wire, text))
        return
    try:
        connection.node.kept.check_objects(WATCH_OBJECT_BYTES)
    except LimitExceeded as error:
        connection.write(namespace_watch.failed(request.watch_id, error.wire_code, error.what))
        return
    members_watch = connection.memberships[request.watch_id] = NamespaceWatch(connection, request)
    start(
        connection,
        _watch(connection, members_watch, request.namespace),
        partial(namespace_watch.failed, request.watch_id),
    )


async def _watch(connection: Connection, members_watch: NamespaceWatch, text: str) -> None:
    node = connection.node
    try:
        check_enabled(node)
        namespace = namespace_name(text)
        node.allow(connection.principal, "list", str(namespace))
        await _check(connection, namespace)
    except BaseException:
        members_watch.close()
        if connection.memberships.get(members_watch.id) is members_watch:
            del connection.memberships[members_watch.id]
        raise
    if not connection.closed and connection.memberships.get(members_watch.id) is members_watch:
        members_watch.open(lambda listener: node.scalable.members.watch(namespace, listener))


async def _check(connection: Connection, namespace: NamespaceName) -> None:
    if await connection.node.namespaces.policies(namespace) is None:
        raise TopicNotFound(f"Namespace {namespace} does not exist: create it, or check its name")


def unwatch(connection: Connection, command: pb.BaseCommand) -> None:
    """The command has no reply; an unknown watch is already closed."""
    members_watch = connection.memberships.pop(command.watchScalableTopicsClose.watch_id, None)
    if members_watch is not None:
        members_watch.close()
