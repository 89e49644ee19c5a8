"""What is remembered of topics out of memory: bounded, and without those of bundles that another broker has."""

from __future__ import annotations

from magnetar.base.limits import UNLOADED_SAMPLES_MAX, UNLOADED_TOTALS_MAX
from magnetar.base.names import topic_name
from magnetar.broker.metrics.topic_samples import SubscriptionSample, TopicSample
from magnetar.broker.metrics.unloaded_topics import Unloaded
from magnetar.layout.lag import Lag

BEHIND = TopicSample(
    topic_name("a"),
    producers=2,
    messages_in=5,
    subscriptions=(SubscriptionSample("s", consumers=1, unacked=3, backlog=2, lag=Lag(4)),),
)
DONE = TopicSample(topic_name("b"), messages_in=5)


def test_sample_of_unloaded_topic_has_no_clients() -> None:
    unloaded = Unloaded()
    unloaded.keep("a", BEHIND)
    unloaded.keep("b", DONE)
    [found] = unloaded
    assert (found.producers, found.subscriptions[0].consumers, found.subscriptions[0].unacked) == (0, 0, 0)
    assert (found.subscriptions[0].lag, found.messages_in) == (Lag(4), 5)
    assert ("a" in unloaded, "b" in unloaded, len(unloaded)) == (True, False, 1)


def test_oldest_samples_are_dropped_beyond_bound() -> None:
    unloaded = Unloaded()
    for number in range(UNLOADED_SAMPLES_MAX + 3):
        unloaded.keep(str(number), BEHIND)
    assert (len(unloaded), unloaded.dropped, "2" in unloaded, "3" in unloaded) == (UNLOADED_SAMPLES_MAX, 3, False, True)
    for number in range(UNLOADED_TOTALS_MAX + 3):
        unloaded.keep(f"t{number}", DONE)
    assert (unloaded.forget("t2"), unloaded.forget("t3")) == (None, DONE)


def test_samples_go_with_their_bundle() -> None:
    unloaded = Unloaded()
    unloaded.keep("a", BEHIND, "here")
    unloaded.keep("b", BEHIND, "there")
    unloaded.forget_place("here")
    assert ("a" in unloaded, "b" in unloaded) == (False, True)


def test_topic_without_backlog_replaces_its_sample() -> None:
    unloaded = Unloaded()
    unloaded.keep("a", BEHIND)
    unloaded.keep("a", DONE)
    assert len(unloaded) == 0
    assert unloaded.forget("a") == DONE
