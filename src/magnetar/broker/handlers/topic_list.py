"""GET_TOPICS_OF_NAMESPACE and the topic-list watcher: the current topics and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import LimitExceeded, Misuse, Refused
from magnetar.base.hashes import topics_hash
from magnetar.base.limits import CONNECTION_TOPIC_LISTS_MAX, WATCH_OBJECT_BYTES
from magnetar.base.names import NamespaceName, namespace_name
from magnetar.broker.handlers.requests import error_reply, start, success
from magnetar.broker.handlers.topic_list_watch import TopicListWatcher, matching_in_turns
from magnetar.wire import commands
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection
    from magnetar.broker.handlers.topic_pattern import Pattern
    from magnetar.broker.node import Node

_MODES = {
    pb.CommandGetTopicsOfNamespace.PERSISTENT: ("persistent",),
    pb.CommandGetTopicsOfNamespace.NON_PERSISTENT: ("non-persistent",),
    pb.CommandGetTopicsOfNamespace.ALL: ("persistent", "non-persistent"),
}


def topics_of_namespace(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.getTopicsOfNamespace
    start(connection, _topics(connection, request), error_reply(request.request_id))


async def _topics(connection: Connection, request: pb.CommandGetTopicsOfNamespace) -> None:
    namespace = namespace_name(request.namespace)
    connection.node.allow(connection.principal, "list", str(namespace))
    async with connection.list_answers.turn():
        connection.write(await _listed(connection.node, namespace, request))


async def _listed(node: Node, namespace: NamespaceName, request: pb.CommandGetTopicsOfNamespace) -> bytes:
    topics = await node.topics.names(namespace, _MODES[request.mode])
    filtered = False
    pattern = _pattern(node, request.topics_pattern)
    if pattern is not None:
        topics = await matching_in_turns(pattern, topics)
        filtered = True
    hash = topics_hash(topics)
    changed = not request.topics_hash or request.topics_hash != hash
    return commands.topics_of_namespace(
        request.request_id, topics if changed else (), topics_hash=hash, filtered=filtered, changed=changed
    )


def _pattern(node: Node, text: str) -> Pattern | None:
    """None: the client gets all names and filters them itself, as in Pulsar also for a long pattern."""
    settings = node.settings
    if not text or not settings.flag("enableBrokerSideSubscriptionPatternEvaluation"):
        return None
    return None if len(text) > settings.number("subscriptionPatternMaxLength") else node.pattern(text)


def watch(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.watchTopicList
    start(connection, _watch(connection, request), error_reply(request.request_id))


async def _watch(connection: Connection, request: pb.CommandWatchTopicList) -> bytes | None:
    node = connection.node
    if not node.settings.flag("enableBrokerTopicListWatcher"):
        raise Refused("topic-list watches are disabled on this broker (enableBrokerTopicListWatcher)")
    namespace = namespace_name(request.namespace)
    node.allow(connection.principal, "list", str(namespace))
    pattern = node.pattern(request.topics_pattern)
    if pattern is None:
        raise Misuse("patterns with look-arounds or back references cannot be watched: poll the topic list")
    old = connection.watchers.pop(request.watcher_id, None)
    if old is not None:
        old.close()
    if len(connection.watchers) >= CONNECTION_TOPIC_LISTS_MAX:
        raise LimitExceeded(
            f"a connection must not watch more than {CONNECTION_TOPIC_LISTS_MAX} topic lists: open another connection"
        )
    node.kept.check_objects(WATCH_OBJECT_BYTES)
    watcher = connection.watchers[request.watcher_id] = TopicListWatcher(request.watcher_id, connection)
    try:
        topics = await node.topics.lists.open(namespace, request.topics_pattern, pattern)
    except BaseException:
        if connection.watchers.get(request.watcher_id) is watcher:
            del connection.watchers[request.watcher_id]
        raise
    if connection.closed or connection.watchers.get(request.watcher_id) is not watcher:
        topics.release()
        return None
    started = False
    try:
        async with connection.list_answers.turn():
            if connection.watchers.get(request.watcher_id) is not watcher:
                return None
            news = () if request.topics_hash == topics.hash else topics.topics
            connection.write(
                commands.watch_topic_list_success(request.request_id, request.watcher_id, news, topics.hash)
            )
            watcher.start(topics)
            started = True
    finally:
        if not started:
            topics.release()
    return None


def resume(connection: Connection) -> None:
    """Called when the peer reads again."""
    connection.list_answers.resume()
    for watcher in connection.watchers.values():
        watcher.tell()


def unwatch(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.watchTopicListClose
    watcher = connection.watchers.pop(request.watcher_id, None)
    if watcher is not None:
        watcher.close()
    connection.write(success(request.request_id))
