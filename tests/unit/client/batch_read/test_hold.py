"""Holds as a client asks for them."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse, Refused, SubscriptionNotFound
from magnetar.base.ids import SegmentId
from magnetar.client.batch_read.hold import HoldRequest, hold
from magnetar.layout.readable_range import DONE, ReadPosition
from magnetar.wire.proto import pb
from magnetar.wire.scalable import plans
from tests.unit.client.batch_read.test_plan import speaks
from tests.unit.client.world import Link, a_broker, a_lookup

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand
T = "topic://public/default/t"
PLACES = {SegmentId(0): DONE, SegmentId(1): ReadPosition(3, 4, 5)}


async def test_hold_returns_every_given_field() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)

        def held(link: Link, command: pb.BaseCommand) -> bool:
            told = {"incarnation": 7, "until_ms": 99, "moved": True, "expired": True, "lost": [SegmentId(1)]}
            link.write(plans.held(command.hold.request_id, PLACES, **told))  # type: ignore[arg-type]
            return True

        broker.handlers[K.HOLD] = held
        found = await hold(lookup, HoldRequest(T, "q", PLACES, 60, "me", 7), 5)
        assert (found.places, found.until_ms, found.moved, found.expired) == (PLACES, 99, True, True)
        assert (found.lost, found.incarnation, found.name, found.topic) == ((SegmentId(1),), 7, "q", T)
        [said] = [one.hold for one in broker.kinds(K.HOLD)]
        assert plans.read_places(said.places) == PLACES
        assert (said.name, said.expires_s, said.owner, said.incarnation, said.release) == ("q", 60, "me", 7, False)
        await hold(lookup, HoldRequest(T, "q"), 5)
        assert not broker.kinds(K.HOLD)[-1].hold.HasField("places")
        await hold(lookup, HoldRequest(T, "q", release=True), 5)
        assert broker.kinds(K.HOLD)[-1].hold.release


async def test_refusal_is_error_and_broker_without_holds_is_not_asked() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        with pytest.raises(Refused):
            await hold(lookup, HoldRequest(T, "q"), 5)
        assert broker.kinds(K.HOLD) == []
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        broker.handlers[K.HOLD] = lambda link, command: (
            link.write(plans.hold_failed(command.hold.request_id, 12, "no such hold")) or True
        )
        with pytest.raises(SubscriptionNotFound):
            await hold(lookup, HoldRequest(T, "q", release=True), 5)


def test_hold_has_name_and_does_not_end_before_it_began() -> None:
    with pytest.raises(Misuse):
        HoldRequest(T, "")
    with pytest.raises(Misuse):
        HoldRequest(T, "q", expires_s=-1)


@pytest.mark.parametrize("places", [{0: (1, 2)}, {0: ReadPosition(-7, 3)}, [ReadPosition(1, 2)], {0: None}, "earliest"])
def test_invalid_positions_are_refused_with_their_source(places) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Misuse, match=r"Client\.plan"):
        HoldRequest(T, "q", places)


@pytest.mark.parametrize("given", [None, 5, b"q", ["q"]])
def test_name_and_owner_of_hold_are_text(given) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Misuse, match="the name of a hold must be text"):
        HoldRequest(T, given)
    with pytest.raises(Misuse, match="the owner of a hold must be text"):
        HoldRequest(T, "q", owner=given)


@pytest.mark.parametrize("given", [None, 1.5, True, "5", -1])
def test_expiry_and_topic_number_of_hold_are_integers(given) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Misuse, match="expires_s of a hold"):
        HoldRequest(T, "q", expires_s=given)
    with pytest.raises(Misuse, match="incarnation must be"):
        HoldRequest(T, "q", incarnation=given)
