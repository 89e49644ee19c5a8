"""The end of holds comes in time, however short they are, and never before it was announced."""

from __future__ import annotations

import pytest

from magnetar.base.names import topic_name
from magnetar.broker.batch_read.holds import HoldRequest
from tests.unit.broker.batch_read.test_holds import holds
from tests.unit.scalable.world import NAME, Cluster, Member, pass_s

OTHER = topic_name("topic://public/default/other")


def told(*members: Member) -> tuple[int, int]:
    """How often an end was announced, and how often it came."""
    found = [(one.marked("hold.warned"), one.marked("hold.expired")) for one in members]
    return sum(warned for warned, _ in found), sum(expired for _, expired in found)


@pytest.mark.setup(brokers=2)
async def test_short_hold_is_announced_and_ends_at_shown_time(cluster: Cluster) -> None:
    one, two = cluster.members
    await one.service.create(NAME)
    await pass_s(1)  # both have just looked at all there was
    await holds(two).hold(NAME, HoldRequest("q", expires_s=20))
    await pass_s(17.5)
    assert told(one, two) == (0, 0)
    await pass_s(1)
    assert told(one, two) == (1, 0)
    [listed] = await holds(one).list(NAME)
    assert 0 < listed.held.warned_ms < listed.held.until_ms
    await pass_s(2.5)
    assert told(one, two) == (1, 1)


async def test_needless_check_does_not_delay_next_one(cluster: Cluster) -> None:
    one = cluster.members[0]
    await one.service.create(NAME)
    await holds(one).hold(NAME, HoldRequest("q", expires_s=20))
    await pass_s(6.5)
    expiry = holds(one).expiry
    assert expiry._timer is not None
    expiry._timer.cancel()
    expiry._wake()  # early: clocks differ by what they are rounded to
    await pass_s(12)
    assert told(one) == (1, 0)


async def test_short_holds_end_on_time_unless_renewed(
    cluster: Cluster,
) -> None:
    one = cluster.members[0]
    for name in (NAME, OTHER):
        await one.service.create(name)
    await holds(one).hold(NAME, HoldRequest("a", expires_s=10))
    await holds(one).hold(OTHER, HoldRequest("b", expires_s=20))
    for _ in range(4):
        await holds(one).hold(OTHER, HoldRequest("renewed", expires_s=10))
        await pass_s(3)
    assert told(one) == (1, 1)
    for _ in range(3):
        await holds(one).hold(OTHER, HoldRequest("renewed", expires_s=10))
        await pass_s(3)
    assert told(one) == (2, 2)
    shown = {listed.name: listed.held.keeps for listed in await holds(one).list(OTHER)}
    assert shown == {"b": False, "renewed": True}
