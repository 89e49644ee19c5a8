"""The topics of a namespace that are open: all that are there, whatever fails, and none that is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import NotReady, TopicNotFound
from magnetar.base.limits import CLIENT_BACKOFF_S_MIN, FOLLOW_BACKOFF_S_MAX
from magnetar.client.consumer.scalable.namespace.topics import (
    CloseTopic,
    Effect,
    OpenTopic,
    State,
    TimePassed,
    TopicClosed,
    TopicFailed,
    TopicOpened,
    TopicsChanged,
    TopicSet,
)

NO = NotReady("not now")


def come(*topics: str) -> TopicsChanged:
    return TopicsChanged((), topics)


def gone(*topics: str) -> TopicsChanged:
    return TopicsChanged(topics, ())


def test_consumer_has_begun_when_first_topics_are_open_or_refused() -> None:
    roster = TopicSet()
    assert roster.handle(come("a", "b"), 0.0) == [OpenTopic("a", False), OpenTopic("b", False)]
    roster.handle(TopicOpened("a"), 0.0)
    assert not roster.begun
    assert roster.handle(TopicFailed("b", NO), 0.0) == [CloseTopic("b")]
    assert roster.begun
    assert roster.failing == {"b": NO}
    assert roster.handle(come("c"), 0.0) == [OpenTopic("c", True)], "what comes now is newer"


def test_empty_namespace_has_begun() -> None:
    roster = TopicSet()
    assert not roster.begun
    roster.handle(TopicsChanged((), ()), 0.0)
    assert roster.begun


def test_failing_topic_is_closed_and_retried_with_growing_waits() -> None:
    roster = TopicSet()
    roster.handle(come("a"), 0.0)
    now, waits = 0.0, []
    for _ in range(12):
        roster.handle(TopicFailed("a", NO), now)
        assert roster.due is None
        assert roster.handle(TopicClosed("a"), now) == []
        assert roster.due is not None
        waits.append(roster.due - now)
        assert roster.handle(TimePassed(), roster.due - 0.01) == []
        now = roster.due
        assert roster.handle(TimePassed(), now) == [OpenTopic("a", False)]
    assert round(waits[0], 6) == CLIENT_BACKOFF_S_MIN
    assert round(waits[-1], 6) == FOLLOW_BACKOFF_S_MAX
    roster.handle(TopicOpened("a"), now)
    assert roster.failing == {}


def test_topic_read_before_deletion_is_closed_and_not_reopened() -> None:
    roster = TopicSet()
    roster.handle(come("a"), 0.0)
    roster.handle(TopicOpened("a"), 0.0)
    assert roster.handle(TopicFailed("a", TopicNotFound("gone")), 0.0) == [CloseTopic("a")]
    assert roster.handle(gone("a"), 0.0) == []
    assert roster.handle(TopicClosed("a"), 0.0) == []
    assert roster.handle(TimePassed(), 1e9) == []
    assert roster.topics == {}


def test_recreated_topic_opens_when_predecessor_is_closed() -> None:
    roster = TopicSet()
    roster.handle(come("a"), 0.0)
    roster.handle(TopicOpened("a"), 0.0)
    assert roster.handle(TopicsChanged(("a",), ("a",)), 0.0) == [CloseTopic("a")]
    assert roster.handle(TopicClosed("a"), 0.0) == [OpenTopic("a", True)]


def test_reopened_topic_may_be_new_and_skips_nothing() -> None:
    roster = TopicSet()
    assert roster.handle(come("a"), 0.0) == [OpenTopic("a", False)]
    roster.handle(TopicOpened("a"), 0.0)
    roster.handle(TopicFailed("a", TopicNotFound("gone")), 0.0)
    roster.handle(TopicClosed("a"), 0.0)
    assert roster.handle(TimePassed(), 1e9) == [OpenTopic("a", True)]


def test_topic_that_is_gone_while_it_is_opened_is_closed() -> None:
    roster = TopicSet()
    roster.handle(come("a"), 0.0)
    assert roster.handle(gone("a"), 0.0) == [CloseTopic("a")]
    assert roster.handle(TopicOpened("a"), 0.0) == []
    roster.handle(TopicClosed("a"), 0.0)
    assert roster.topics == {}
    assert roster.begun


def test_few_are_opened_at_time() -> None:
    roster = TopicSet(opening_max=2)
    assert len(roster.handle(come("a", "b", "c"), 0.0)) == 2
    assert roster.handle(TopicOpened("b"), 0.0) == [OpenTopic("c", False)]


_steps = st.lists(st.tuples(st.sampled_from(["come", "gone", "anew", "answer", "fail", "time"]), st.integers(0, 2)))


@given(_steps)
def test_whatever_happens_exactly_what_is_there_is_open_in_end(steps: list[tuple[str, int]]) -> None:
    roster = TopicSet(opening_max=2)
    there: set[str] = set()
    opened: set[str] = set()  # as the actor has it: asked to open, and not closed since
    asked: list[Effect] = []
    now = 0.0

    def handle(event) -> None:
        for effect in roster.handle(event, now):
            if isinstance(effect, OpenTopic):
                assert effect.topic not in opened, "two of one topic"
                opened.add(effect.topic)
            asked.append(effect)

    def answer(number: int, fails: bool = False) -> None:
        effect = asked.pop(number % len(asked))
        if isinstance(effect, CloseTopic):
            opened.discard(effect.topic)
            handle(TopicClosed(effect.topic))
        elif effect.topic in opened:
            handle(TopicFailed(effect.topic, NO) if fails else TopicOpened(effect.topic))

    for kind, number in steps:
        topic = "abc"[number]
        if kind == "come" and topic not in there:
            there.add(topic)
            handle(come(topic))
        elif kind == "gone" and topic in there:
            there.discard(topic)
            handle(gone(topic))
        elif kind == "anew" and topic in there:
            handle(TopicsChanged((topic,), (topic,)))
        elif kind in ("answer", "fail") and asked:
            answer(number, kind == "fail")
        elif kind == "time":
            now += 60.0
            handle(TimePassed())
    for _ in range(50):
        while asked:
            answer(0)
        now += 60.0
        handle(TimePassed())
    assert opened == there
    assert {topic for topic, held in roster.topics.items() if held.state is State.OPEN} == there
