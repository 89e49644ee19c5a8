"""What a watch of a namespace is told: every change once, applied to what it was told before it gives what there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.scalable.watch.namespace_diff import Difference, Member, NamespaceDiff

ONE = Member(1)
RED = Member(1, (("colour", "red"), ("size", "1")))


def test_first_list_is_ordered_and_filtered() -> None:
    members = {"b": RED, "a": RED, "c": ONE, "d": Member(1, (("colour", "red"),))}
    assert NamespaceDiff().begun(members) == ("a", "b", "c", "d")
    assert NamespaceDiff([("colour", "red"), ("size", "1")]).begun(members) == ("a", "b")


def test_what_came_and_went_between_two_looks_is_never_mentioned() -> None:
    membership = NamespaceDiff()
    membership.begun({"kept": ONE})
    membership.noted("new", ONE)
    membership.noted("new", None)
    membership.noted("kept", None)
    membership.noted("kept", ONE)
    assert not membership.due


def test_recreated_topic_is_notified_as_removed_and_added() -> None:
    membership = NamespaceDiff()
    membership.begun({"t": ONE})
    membership.noted("t", None)
    membership.noted("t", Member(2))
    assert membership.difference() == Difference(added=("t",), removed=("t",))
    assert not membership.due


def test_topic_whose_properties_change_comes_and_goes() -> None:
    membership = NamespaceDiff([("colour", "red")])
    assert membership.begun({"t": ONE}) == ()
    membership.noted("t", RED)
    assert membership.difference() == Difference(added=("t",), removed=())
    membership.noted("t", Member(1, (("colour", "blue"),)))
    assert membership.difference() == Difference(added=(), removed=("t",))


_lives = st.none() | st.builds(Member, st.integers(1, 3), st.sampled_from([(), (("k", "v"),)]))


@given(st.lists(st.tuples(st.sampled_from("abc"), _lives, st.booleans()), max_size=30), st.booleans())
def test_notified_list_equals_existing_topics(steps, filtered) -> None:
    membership = NamespaceDiff([("k", "v")] if filtered else [])
    now: dict[str, Member] = {}
    told = dict.fromkeys(membership.begun(now), 0)
    lives: dict[str, int] = {}
    for name, member, tell in steps:
        if member is None:
            now.pop(name, None)
        else:
            now[name] = member
        membership.noted(name, member)
        if not tell:
            continue
        news = membership.difference()
        for gone in news.removed:
            del told[gone]
        for come in news.added:
            assert come not in told
            told[come] = now[come].incarnation
        lives = {one: found.incarnation for one, found in now.items() if not filtered or found.properties}
        assert told == lives
