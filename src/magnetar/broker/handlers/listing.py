"""GET_TOPICS_OF_NAMESPACE and the topic-list watcher: which topics are there, now and from now on."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import Misuse, Refused
from magnetar.base.hashes import topics_hash
from magnetar.base.names import namespace_name
from magnetar.broker.handlers.request import error_reply, start, success
from magnetar.broker.watcher import Watcher, matching
from magnetar.wire import commands
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection

_MODES = {
    pb.CommandGetTopicsOfNamespace.PERSISTENT: ("persistent",),
    pb.CommandGetTopicsOfNamespace.NON_PERSISTENT: ("non-persistent",),
    pb.CommandGetTopicsOfNamespace.ALL: ("persistent", "non-persistent"),
}


def topics_of_namespace(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.getTopicsOfNamespace
    start(connection, _topics(connection, asked), error_reply(asked.request_id))


async def _topics(connection: Connection, asked: pb.CommandGetTopicsOfNamespace) -> bytes:
    node = connection.node
    namespace = namespace_name(asked.namespace)
    node.allow(connection.principal, "list", str(namespace))
    topics = await node.topics.names(namespace, _MODES[asked.mode])
    filtered = False
    if asked.topics_pattern and node.settings.flag("enableBrokerSideSubscriptionPatternEvaluation"):
        pattern = node.pattern(asked.topics_pattern)
        if pattern is not None:
            topics = matching(pattern, topics)
            filtered = True
    known = topics_hash(topics)
    changed = not asked.topics_hash or asked.topics_hash != known
    return commands.topics_of_namespace(
        asked.request_id, topics if changed else (), topics_hash=known, filtered=filtered, changed=changed
    )


def watch(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.watchTopicList
    start(connection, _watch(connection, asked), error_reply(asked.request_id))


async def _watch(connection: Connection, asked: pb.CommandWatchTopicList) -> bytes | None:
    node = connection.node
    if not node.settings.flag("enableBrokerTopicListWatcher"):
        raise Refused("topic-list watches are switched off here (enableBrokerTopicListWatcher)")
    namespace = namespace_name(asked.namespace)
    node.allow(connection.principal, "list", str(namespace))
    pattern = node.pattern(asked.topics_pattern)
    if pattern is None:
        raise Misuse("look-arounds and back references are not watched by the broker: ask for the list now and then")
    old = connection.watchers.pop(asked.watcher_id, None)
    if old is not None:
        old.close()
    watcher = Watcher(
        asked.watcher_id,
        namespace,
        pattern,
        connection.write,
        partial(_spawn, connection),
    )
    connection.watchers[asked.watcher_id] = watcher
    try:
        await watcher.open(node.topics)
    except BaseException:
        watcher.close()
        if connection.watchers.get(asked.watcher_id) is watcher:
            del connection.watchers[asked.watcher_id]
        raise
    if connection.closed or connection.watchers.get(asked.watcher_id) is not watcher:
        watcher.close()
        return None
    news = () if asked.topics_hash == watcher.hash else watcher.topics
    connection.write(commands.watch_topic_list_success(asked.request_id, asked.watcher_id, news, watcher.hash))
    watcher.start()
    return None


def _spawn(connection: Connection, work: Coroutine[Any, Any, None]) -> None:
    """For as long as the connection lives."""
    if connection.owner.closed:
        work.close()
    else:
        connection.node.runtime.spawn(connection.owner, work)


def unwatch(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.watchTopicListClose
    watcher = connection.watchers.pop(asked.watcher_id, None)
    if watcher is not None:
        watcher.close()
    connection.write(success(asked.request_id))
