"""Stream consumers that are connected to another broker than the one that leads: forwarded, followed, never doubled."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import ConsumerNotFound, NotReady, SubscriptionNotFound, Superseded
from magnetar.base.ids import SegmentId
from magnetar.base.limits import SHARE_ASK_S, VISITOR_SILENT_S
from magnetar.cluster.calls.topic_calls import AwaitAssignment, Leave, Register
from magnetar.metadata import paths
from magnetar.scalable.service import Assignment, SubscriptionKind
from tests.unit.scalable.world import NAME, Cluster, Ear, Member, ids, pass_s, settle, spawn

STREAM = SubscriptionKind.STREAM


async def register(member: Member, consumer: str, ear: Ear) -> Assignment:
    found: Assignment = await member.service.register(NAME, "s", consumer, 1, STREAM, ear)
    await settle()
    return found


async def members(cluster: Cluster) -> list[str]:
    [found] = await cluster.living[0].service.subscriptions(NAME)
    return [one.name for one in found.members]


async def two(cluster: Cluster, segments: int = 2) -> tuple[Member, Member]:
    """One who leads, and another."""
    leader, other = cluster.members
    await leader.service.create(NAME, segments=segments)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    await leader.service.controller(NAME).lead()
    return leader, other


@pytest.mark.setup(2)
async def test_consumer_registers_at_any_broker_and_receives_every_change(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    a, b = Ear("1"), Ear("2")
    assert ids(await register(other, "a", a)) == [0, 1]
    second = await register(leader, "b", b)
    assert ids(a.heard[-1]) == [0]
    assert ids(b.heard[-1] if b.heard else second) == [1]
    await leader.service.streams.leave(NAME, "s", "b", second.session)
    await settle()
    assert ids(a.heard[-1]) == [0, 1]
    await leader.service.split(NAME, 0)
    await settle()
    assert sorted(ids(a.heard[-1])) == [1, 2, 3]
    assert leader.service.controller(NAME).leading
    assert not other.service.controller(NAME).leading


@pytest.mark.setup(2)
async def test_assignment_after_wait_time_is_not_lost(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    a = Ear("1")
    await register(other, "a", a)
    await pass_s(3 * SHARE_ASK_S + 2)
    assert not a.gone
    await register(leader, "b", Ear("2"))
    assert ids(a.heard[-1]) == [0]
    assert await members(cluster) == ["a", "b"]


@pytest.mark.setup(2)
async def test_leaving_at_any_broker_is_leaving(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    first = await register(other, "a", Ear("1"))
    b = Ear("2")
    await register(leader, "b", b)
    await other.service.streams.leave(NAME, "s", "a", first.session)
    await settle()
    assert await members(cluster) == ["b"]
    assert ids(b.heard[-1]) == [0, 1]


@pytest.mark.setup(2)
async def test_segment_closed_at_any_broker_ends_registration_everywhere(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    at_leader, at_other, left = Ear("1"), Ear("2"), Ear("3")
    await register(other, "a", at_other)
    await register(leader, "b", at_leader)
    await register(other, "c", left)
    [held] = ids(at_other.heard[-1])
    await other.service.streams.segment_closed(NAME, "s", "a", SegmentId(1 - held))
    assert await members(cluster) == ["a", "b", "c"], "it was not to read that one"
    await other.service.streams.segment_closed(NAME, "s", "a", SegmentId(held))
    [held] = ids(at_leader.heard[-1])
    await other.service.streams.segment_closed(NAME, "s", "b", SegmentId(held))
    await pass_s(3 * SHARE_ASK_S + 2)
    assert await members(cluster) == ["c"], "no broker registers them again"
    assert at_other.gone
    assert at_leader.gone
    assert ids(left.heard[-1]) == [0, 1]


@pytest.mark.setup(2)
async def test_connection_lost_at_another_broker_begins_grace_period(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    first = await register(other, "a", Ear("1"))
    b = Ear("2")
    await register(leader, "b", b)
    other.service.connection_lost(NAME, "s", "a", first.session)
    await pass_s(50)
    assert await members(cluster) == ["a", "b"]
    await pass_s(15)
    assert await members(cluster) == ["b"]
    assert ids(b.heard[-1]) == [0, 1]


@pytest.mark.setup(2)
async def test_consumers_of_dead_broker_are_awaited_then_removed(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    await register(other, "a", Ear("1"))
    b = Ear("2")
    await register(leader, "b", b)
    other.kill()
    other.carrier.node = None  # nothing of it reaches anybody
    await pass_s(60)
    assert await members(cluster) == ["a", "b"]
    await pass_s(SHARE_ASK_S + VISITOR_SILENT_S + 5)
    assert await members(cluster) == ["b"]
    assert sorted(ids(b.heard[-1])) == [0, 1]


@pytest.mark.setup(2)
async def test_consumer_returning_at_another_broker_recreates_nothing_h_d9(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    await leader.service.unsubscribe(NAME, "s")
    for member in (other, leader):
        with pytest.raises(SubscriptionNotFound):
            await member.service.register(NAME, "s", "a", 1, STREAM, Ear("1"), makes=False)
        assert await leader.service.subscriptions(NAME) == []
    assert ids(await register(other, "a", Ear("2"))) == [0, 1]


@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.setup(2)
async def test_reader_at_any_broker_learns_removed_subscription_h_d9(cluster: Cluster, where: int) -> None:
    leader, _ = await two(cluster)
    a = Ear("1")
    await register(cluster.members[where], "a", a)
    await leader.service.unsubscribe(NAME, "s")
    await pass_s(1)
    assert isinstance(a.gone, SubscriptionNotFound)
    assert await leader.service.subscriptions(NAME) == []


@pytest.mark.setup(2)
async def test_session_goes_on_under_next_leader(cluster: Cluster) -> None:
    await cluster.join()
    leader, other, third = cluster.members
    await leader.service.create(NAME, segments=2)
    await leader.service.controller(NAME).lead()
    a, b = Ear("1"), Ear("2")
    first = await register(other, "a", a)
    await register(third, "b", b)
    before = [ids(ear.heard[-1]) for ear in (a, b)]
    leader.kill()
    await pass_s(30)
    led = [one.service.controller(NAME).leading for one in (other, third)]
    assert sorted(led) == [False, True]
    await pass_s(120)  # longer than any grace period
    assert await members(cluster) == ["a", "b"]
    assert [ids(ear.heard[-1]) for ear in (a, b)] == before
    assert a.heard[-1].session == first.session
    assert a.heard[-1].term > first.term
    assert a.gone is b.gone is None


@pytest.mark.setup(2)
async def test_consumer_at_deposed_leader_continues_under_next(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    a = Ear("1")
    first = await register(leader, "a", a)
    other.service.controller(NAME).need()
    await settle()
    leader.metadata._listeners.clear()  # it hears nothing of what follows
    node = await other.metadata.get(paths.controller(NAME))
    assert node is not None
    await other.metadata.delete(paths.controller(NAME), expected=node.stat.version)
    await other.service.controller(NAME).lead()
    await pass_s(120)
    assert await members(cluster) == ["a"]
    assert a.heard[-1].session == first.session
    assert sorted(ids(a.heard[-1])) == [0, 1]
    assert a.gone is None


@pytest.mark.setup(2)
async def test_newest_of_equal_names_at_two_brokers_wins_h_f9(cluster: Cluster) -> None:
    leader, other = await two(cluster)
    old, new = Ear("1"), Ear("2")
    await register(other, "a", old)
    assert ids(await register(leader, "a", new)) == [0, 1]
    await settle()
    assert isinstance(old.gone, Superseded)
    assert new.gone is None


@pytest.mark.setup(2)
async def test_moved_consumer_that_left_does_not_return(cluster: Cluster) -> None:
    """Its old connection still stands when the leader changes: nobody resumes what is over."""

    await cluster.join()
    leader, other, third = cluster.members
    await leader.service.create(NAME, segments=2)
    await leader.service.controller(NAME).lead()
    old = Ear("1")
    await register(other, "a", old)
    leader.kill()
    await pass_s(12)
    for _ in range(60):
        try:
            moved = await register(third, "a", Ear("2"))
            break
        except NotReady:
            await pass_s(1)
    await third.service.streams.leave(NAME, "s", "a", moved.session)
    await pass_s(30)
    assert await members(cluster) == []
    assert isinstance(old.gone, Superseded | ConsumerNotFound)


@pytest.mark.setup(2)
async def test_broker_that_does_not_lead_answers_no_questions(cluster: Cluster) -> None:
    _, other = await two(cluster)
    for request in (
        Register(op="o", subscription="s", consumer="a", connection="1"),
        AwaitAssignment(op="o", connection="1", seen=0, wait_s=1.0),
        Leave(op="o", subscription="s", consumer="a", session=1, connection="1"),
    ):
        with pytest.raises(NotReady):
            await other.service.asked(NAME, request)


@pytest.mark.setup(2)
async def test_consumer_that_asks_again_over_same_connection_is_one_consumer(cluster: Cluster) -> None:
    """Its first registration would be resumed under the next leader, found overtaken, and told to the client."""

    await cluster.join()
    leader, other, third = cluster.members
    await leader.service.create(NAME, segments=2)
    await leader.service.controller(NAME).lead()
    first, again = Ear("1"), Ear("1")
    await register(other, "a", first)
    told = await register(other, "a", again)
    assert len(other.service._streams) == 1
    leader.kill()
    await pass_s(120)
    assert first.gone is again.gone is None
    assert await members(cluster) == ["a"]
    assert again.heard[-1].session == told.session
    assert again.heard[-1].term > told.term
    other.service.connection_lost(NAME, "s", "a", told.session)
    assert len(other.service._streams) == 0
    assert not third.dead


async def test_connection_that_goes_while_it_registers_begins_its_grace_period(cluster: Cluster) -> None:
    """Nobody else would report its end: its segments were nobody's until the term ended (H-F8)."""

    leader = cluster.members[0]
    await leader.service.create(NAME, segments=2)
    await leader.service.subscribe(NAME, "s", STREAM, earliest=True)
    first, second = Ear("1"), Ear("2")
    await register(leader, "b", second)
    coming = spawn(leader.service.register(NAME, "s", "a", 1, STREAM, first))
    await asyncio.sleep(0)
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    await settle()
    await pass_s(61)
    assert await members(cluster) == ["b"]
    assert ids(second.heard[-1]) == [0, 1]


@pytest.mark.setup(2)
async def test_leader_forgets_route_to_departed_consumers(cluster: Cluster) -> None:
    leader, _ = await two(cluster)
    kept = await register(leader, "kept", Ear("0"))
    found = leader.service.controller(NAME).term.coordinators["s"]
    for number in range(1, 20):
        made = await register(leader, f"c{number % 2}", Ear(f"{number}"))
        if number % 3:
            await leader.service.streams.leave(NAME, "s", f"c{number % 2}", made.session)
        else:
            leader.service.connection_lost(NAME, "s", f"c{number % 2}", made.session)
        await settle()
    assert len(found._listeners) == 1
    assert kept.session
