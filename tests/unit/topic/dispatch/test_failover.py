"""Which Failover consumer is active: Pulsar's own answers, and what a leaving consumer may move."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from magnetar.base.hashes import masked, murmur3, utf8
from magnetar.topic.dispatch.failover import Candidate, Candidates, choose, ordered

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "failover-ring.json").read_text())
NAMES = st.text(min_size=1, max_size=6)
MANY_NAMES = st.lists(NAMES, min_size=2, max_size=5, unique=True)
MANY_TOPICS = st.lists(NAMES, max_size=8)
LEAVERS = st.integers(0, 4)
Choose = Callable[[Sequence[Candidate], str, int, bool], int | None]


def label(case: dict[str, Any]) -> str:
    kind = "partitioned" if case["topics"][0]["partition_index"] >= 0 else "plain"
    return f"{case['set']}-{kind}-{case['activeConsumerFailoverConsistentHashing']}"


@pytest.mark.parametrize("case", VECTORS["cases"], ids=label)
def test_active_consumer_is_pulsars_after_every_join_and_leave(case: dict[str, Any]) -> None:
    consistent = case["activeConsumerFailoverConsistentHashing"]
    joined = [Candidate(c["name"], c["priority"], i) for i, c in enumerate(case["consumers_in_join_order"])]
    for topic in case["topics"]:
        name, partition = topic["topic"], topic["partition_index"]
        for count, expected in enumerate(topic["active_after_each_join"], 1):
            assert choose(joined[:count], name, partition, consistent) == expected
        assert ordered(joined) == topic["sorted_order"]
        present = list(joined)
        for step in topic.get("leave_active_until_one", []):
            present.remove(joined[step["left"]])
            active = choose(present, name, partition, consistent)
            assert active is not None
            assert present[active].joined == step["active"]


def test_subscription_without_consumers_has_no_active_one() -> None:
    assert choose([], "persistent://public/default/t", -1, False) is None


def test_leaving_consumer_moves_only_its_one_partition_topics() -> None:
    topics = [f"persistent://public/default/topic-{i}-partition-0" for i in range(100)]
    consumers = [Candidate(f"consumer-{i}", 0, i) for i in range(10)]
    before = {topic: consumers[choose(consumers, topic, 0, True) or 0].name for topic in topics}
    assert set(before.values()) == {c.name for c in consumers}
    for leaver in consumers:
        rest = [c for c in consumers if c is not leaver]
        after = {topic: rest[choose(rest, topic, 0, True) or 0].name for topic in topics}
        moved = {topic for topic in topics if before[topic] != after[topic]}
        assert moved == {topic for topic in topics if before[topic] == leaver.name}


def test_setting_off_assigns_one_partition_topics_to_first_name() -> None:
    consumers = [Candidate(f"consumer-{9 - i}", 0, i) for i in range(10)]
    assert {choose(consumers, f"persistent://public/default/t-{i}-partition-0", 0, False) for i in range(100)} == {9}


def test_nonpersistent_topic_asked_as_partition_zero_never_uses_ring() -> None:
    consumers = [Candidate(name, 0, i) for i, name in enumerate("edcba")]
    assert {choose(consumers, f"non-persistent://public/default/{i}", 0, False) for i in range(50)} == {4}


@given(names=MANY_NAMES, topics=MANY_TOPICS, leave=LEAVERS)
def test_on_ring_leaver_moves_only_topics_it_had(names: list[str], topics: list[str], leave: int) -> None:
    check_that_only_its_own_move(choose, names, topics, leave)


def by_modulo(consumers: Sequence[Candidate], topic: str, partition: int, consistent: bool) -> int | None:
    """No ring: a leaver moves nearly everything."""
    return masked(murmur3(utf8(topic))) % len(consumers)


def by_place(consumers: Sequence[Candidate], topic: str, partition: int, consistent: bool) -> int | None:
    """A ring of places in the list instead of names: a leaver moves what those behind it had."""
    return choose([Candidate(str(index), 0, index) for index in range(len(consumers))], topic, -1, True)


@pytest.mark.parametrize("wrong", [by_modulo, by_place])
def test_property_of_ring_catches_choice_that_moves_others_topics(wrong: Choose) -> None:
    @settings(database=None, derandomize=True, phases=[Phase.generate])
    @given(names=MANY_NAMES, topics=MANY_TOPICS, leave=LEAVERS)
    def check(names: list[str], topics: list[str], leave: int) -> None:
        check_that_only_its_own_move(wrong, names, topics, leave)

    with pytest.raises(AssertionError, match="moved although"):
        check()


def check_that_only_its_own_move(choose: Choose, names: list[str], topics: list[str], leave: int) -> None:
    consumers = [Candidate(name, 0, i) for i, name in enumerate(names)]
    leaver = consumers[leave % len(consumers)]
    rest = [c for c in consumers if c is not leaver]
    for topic in topics:
        active = choose(consumers, topic, -1, False)
        assert active is not None
        after = choose(rest, topic, -1, False)
        assert after is not None
        if consumers[active] is not leaver:
            assert rest[after] is consumers[active], f"{topic!r} moved although {leaver.name!r} did not have it"


@given(
    consumers=st.lists(st.tuples(NAMES, st.integers(-2, 2)), min_size=1, max_size=8),
    topic=NAMES,
    partition=st.integers(-1, 20),
    consistent=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_active_consumer_has_best_priority_whatever_order_of_list(
    consumers: list[tuple[str, int]], topic: str, partition: int, consistent: bool, order: Any
) -> None:
    candidates = [Candidate(name, priority, i) for i, (name, priority) in enumerate(consumers)]
    active = choose(candidates, topic, partition, consistent)
    assert active is not None
    assert candidates[active].priority == min(priority for _, priority in consumers)
    shuffled = list(candidates)
    order.shuffle(shuffled)
    again = choose(shuffled, topic, partition, consistent)
    assert again is not None
    assert shuffled[again] == candidates[active]


def by_ring(consumers: Sequence[Candidate], topic: str, partition: int, consistent: bool) -> Candidate:
    """As Pulsar computes it: sort all of them, put all points of the best level on a ring, look for the next one."""
    ranked = sorted(
        consumers, key=lambda one: (one.priority, one.name.encode("utf-16-be", "surrogatepass"), one.joined)
    )
    leading = [one for one in ranked if one.priority == ranked[0].priority]
    if partition >= 0 and not consistent:
        return leading[partition % len(leading)]
    points = {masked(murmur3(utf8(f"{one.name}{number}"))): one for one in leading for number in range(100)}
    place = masked(murmur3(utf8(topic)))
    return points[min((point for point in points if point >= place), default=min(points))]


@given(
    joins=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 1)), min_size=1, max_size=12),
    leaves=st.lists(st.integers(0, 11), max_size=8),
    topic=NAMES,
    partition=st.integers(-1, 5),
    consistent=st.booleans(),
)
def test_candidates_that_join_and_leave_agree_with_ring(
    joins: list[tuple[str, int]], leaves: list[int], topic: str, partition: int, consistent: bool
) -> None:
    found = Candidates(topic, partition)
    present: list[Candidate] = []
    for joined, (name, priority) in enumerate(joins):
        present.append(Candidate(name, priority, joined))
        found.add(present[-1])
        assert found.active(consistent=consistent) == by_ring(present, topic, partition, consistent)
    for leave in leaves:
        if len(present) > 1:
            leaver = present.pop(leave % len(present))
            found.remove(leaver)
            found.remove(leaver)  # twice changes nothing
            assert found.active(consistent=consistent) == by_ring(present, topic, partition, consistent)
            assert found.active(consistent=not consistent) == by_ring(present, topic, partition, not consistent)
    assert len(found) == len(present)
