"""One watch of a list of topics: what is heard before the list, twice, or of others."""

from __future__ import annotations

import re

from magnetar.base.hashes import topics_hash
from magnetar.base.names import namespace_name, topic_name
from magnetar.broker.watcher import Watcher, matching
from magnetar.metadata import paths
from magnetar.wire.proto import pb
from tests.unit.broker.world import World, decode, run, settle

A, B, P = (f"persistent://public/default/{name}" for name in ("a", "b", "p-partition-1"))


def a_watcher(written: list[bytes], pattern: str = "public/default/.*") -> Watcher:
    return Watcher(1, namespace_name("public/default"), re.compile(pattern), written.append, lambda work: work.close())


def told(written: list[bytes]) -> list[tuple[list[str], list[str], str]]:
    said = [command.watchTopicUpdate for data in written for command in decode(data)]
    return [(list(one.new_topics), list(one.deleted_topics), one.topics_hash) for one in said]


def test_partitions_match_by_the_name_of_their_topic() -> None:
    assert matching(re.compile("public/default/p"), [A, P]) == [P]
    assert matching(re.compile("public/default/"), [A, P]) == []


def test_what_is_heard_before_the_answer_is_told_after_it() -> None:
    written: list[bytes] = []
    watcher = a_watcher(written)
    watcher._heard(True, B)
    watcher._heard(False, A)
    watcher.topics = [A]
    assert written == []
    watcher.start()
    assert told(written) == [([B], [], topics_hash([A, B])), ([], [A], topics_hash([B]))]


def test_news_that_are_none_are_not_told() -> None:
    written: list[bytes] = []
    watcher = a_watcher(written, "public/default/a")
    watcher.topics = [A]
    watcher.start()
    for added, topic in ((True, A), (False, B), (True, B)):
        watcher._heard(added, topic)
    assert written == []
    watcher._heard(False, A)
    watcher._heard(False, A)
    assert told(written) == [([], [A], topics_hash([]))]


def test_closing_twice_unsubscribes_once() -> None:
    stopped: list[int] = []
    watcher = a_watcher([])
    watcher._unsubscribe = lambda: stopped.append(1)
    watcher.close()
    watcher.close()
    assert stopped == [1]


def test_what_came_and_went_during_a_gap_of_events_is_told_when_they_flow_again() -> None:
    async def body(world: World) -> None:
        for name in (A, B):
            await world.node.catalogue.create(topic_name(name))
        client = world.client()
        await client.ask(
            "WATCH_TOPIC_LIST", namespace="public/default", watcher_id=1, topics_pattern="public/default/.*"
        )
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
        assert [(list(one.new_topics), list(one.deleted_topics)) for one in said] == [([], [A]), ([P], [])]
        assert said[-1].topics_hash == topics_hash([B, P])

    run(body)
