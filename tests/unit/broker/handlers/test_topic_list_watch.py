"""One watch of a list of topics: what is heard before the list, twice, or of others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from magnetar.base.hashes import topics_hash
from magnetar.base.limits import CONNECTION_TOPIC_LISTS_MAX
from magnetar.base.names import NamespaceName, namespace_name, topic_name
from magnetar.broker.handlers.topic_list_watch import TopicLists, TopicListWatcher, matching
from magnetar.metadata import paths
from magnetar.wire.proto import pb
from tests.support.virtual_clock import no_turn_longer
from tests.unit.broker.world import World, decode, settle

A, B, P = (f"persistent://public/default/{name}" for name in ("a", "b", "p-partition-1"))


class Names:
    """The topics of the broker: what there is, and who listens."""

    def __init__(self, *names: str) -> None:
        self.there = list(names)
        self.listeners: list[Callable[[bool, str], None]] = []
        self.meanwhile: list[tuple[bool, str]] = []  # happens while the list is read

    async def names(self, namespace: NamespaceName, domains: tuple[str, ...]) -> list[str]:
        found = list(self.there)
        changes, self.meanwhile = self.meanwhile, []
        for added, topic in changes:
            self.change(added, topic)
        return found

    def watch(
        self, namespace: NamespaceName, heard: Callable[[bool, str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        self.listeners.append(heard)
        return lambda: self.listeners.remove(heard)

    def change(self, added: bool, topic: str) -> None:
        (self.there.append if added else self.there.remove)(topic)
        for heard in list(self.listeners):
            heard(added, topic)


class Reader:
    """A peer of a watch."""

    def __init__(self) -> None:
        self.congested = False
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


def lists_of(names: Names) -> TopicLists:
    return TopicLists(names, asyncio.ensure_future)


async def a_watcher(
    lists: TopicLists, reader: Reader, pattern: str = "public/default/.*", id: int = 1
) -> TopicListWatcher:
    watcher = TopicListWatcher(id, reader)
    watcher.start(await lists.open(namespace_name("public/default"), pattern, re.compile(pattern)))
    return watcher


def told(written: list[bytes]) -> list[tuple[list[str], list[str], str]]:
    said = [command.watchTopicUpdate for data in written for command in decode(data)]
    return [(list(one.new_topics), list(one.deleted_topics), one.topics_hash) for one in said]


def test_partitions_match_by_name_of_their_topic() -> None:
    assert matching(re.compile("public/default/p"), [A, P]) == [P]
    assert matching(re.compile("public/default/"), [A, P]) == []


async def test_change_while_list_is_read_is_told() -> None:
    names, reader = Names(A), Reader()
    names.meanwhile = [(True, B), (False, A)]
    watcher = await a_watcher(lists_of(names), reader)
    await settle()
    assert watcher.list is not None
    assert list(watcher.list.topics) == [B]
    assert told(reader.written) == [([B], [A], topics_hash([B]))]


async def test_news_that_are_none_are_not_told() -> None:
    names, reader = Names(A), Reader()
    await a_watcher(lists_of(names), reader, "public/default/a")
    for heard in names.listeners:
        for added, topic in ((True, A), (False, B), (True, B)):
            heard(added, topic)
    await settle()
    assert reader.written == []
    names.change(False, A)
    names.listeners[0](False, A)
    await settle()
    assert told(reader.written) == [([], [A], topics_hash([]))]


async def test_topic_created_and_deleted_in_one_turn_is_not_notified() -> None:
    names, reader = Names(A), Reader()
    await a_watcher(lists_of(names), reader)
    for added in (True, False, True, False):
        names.change(added, B)
    await settle()
    assert reader.written == []


async def test_last_watcher_closed_twice_ends_list_once() -> None:
    names = Names(A)
    lists = lists_of(names)
    first, second = await a_watcher(lists, Reader()), await a_watcher(lists, Reader())
    assert (len(lists), len(names.listeners)) == (1, 1)
    first.close()
    first.close()
    assert (len(lists), len(names.listeners)) == (1, 1)
    second.close()
    assert (len(lists), len(names.listeners)) == (0, 0)


async def test_peer_that_does_not_read_hears_one_difference_later() -> None:
    names, reader = Names(A), Reader()
    watcher = await a_watcher(lists_of(names), reader)
    reader.congested = True
    for topic in (B, P):
        names.change(True, topic)
        await settle()
    assert reader.written == []
    reader.congested = False
    watcher.tell()
    watcher.tell()
    assert told(reader.written) == [([B, P], [], topics_hash([A, B, P]))]


async def test_change_among_many_watches_costs_no_long_turn() -> None:
    """D4: each watch kept a list of its own, and a change cost all of them."""
    names = Names(*(f"persistent://public/default/topic-{number}" for number in range(2_000)))
    lists, reader = lists_of(names), Reader()
    async with no_turn_longer(0.1):  # the aim is 0.02: a slow machine is no defect
        for number in range(300):
            await a_watcher(lists, reader, id=number)
        for number in range(40):
            await a_watcher(lists, reader, f"public/default/.*[{number}x]?", id=1_000 + number)
        for number in range(20):
            names.change(True, f"persistent://public/default/new-{number}")
            await settle(1)
        await settle()
    assert (len(lists), len(names.listeners)) == (41, 41)
    heard = [one.watcher_id for data in reader.written for one in (decode(data)[0].watchTopicUpdate,)]
    assert set(heard) == {*range(300), *range(1_000, 1_040)}


async def test_connection_with_too_many_watches_is_refused_one_more(world: World) -> None:
    client = world.client()
    fields = {"namespace": "public/default", "topics_pattern": "public/default/.*"}
    for number in range(CONNECTION_TOPIC_LISTS_MAX):
        client.request("WATCH_TOPIC_LIST", watcher_id=number, **fields)
    await settle(2 * CONNECTION_TOPIC_LISTS_MAX)
    client.heard.heard.clear()
    answer = await client.ask("WATCH_TOPIC_LIST", watcher_id=CONNECTION_TOPIC_LISTS_MAX, **fields)
    assert answer.error.error == pb.NotAllowedError
    assert len(world.node.topics.lists) == 1
    client.lose()
    await settle()
    assert len(world.node.topics.lists) == 0


async def test_changes_during_event_gap_are_notified_after_resync(world: World) -> None:
    for name in (A, B):
        await world.node.catalogue.create(topic_name(name))
    client = world.client()
    await client.ask("WATCH_TOPIC_LIST", namespace="public/default", watcher_id=1, topics_pattern="public/default/.*")
    other = world.metadata.peer()
    listeners = world.metadata._listeners
    kept, listeners._by_prefix = listeners._by_prefix, {}  # deaf for a while
    await other.delete(paths.topic(topic_name(A), 1))
    await other.put(paths.topic(topic_name(P), 1), b"")
    await settle()
    listeners._by_prefix = kept
    assert client.heard.of(pb.BaseCommand.WATCH_TOPIC_UPDATE) == []
    world.metadata.resync()
    await settle()
    said = [one.watchTopicUpdate for one in client.heard.of(pb.BaseCommand.WATCH_TOPIC_UPDATE)]
    assert [(list(one.new_topics), list(one.deleted_topics)) for one in said] == [([P], [A])]
    assert said[-1].topics_hash == topics_hash([B, P])
