"""A stream consumer that its controller sends away: told why, and what comes of it."""

from __future__ import annotations

import pytest

from magnetar.base.errors import SubscriptionNotFound, Superseded, TopicNotFound
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from tests.support.broker_script import single
from tests.support.scalable_broker_script import TOPIC
from tests.support.stream_consumer import World, a_world
from tests.unit.client.world import turns

pytestmark = pytest.mark.real_clock


def send_away(world: World, code: int) -> None:
    [(id, link)] = world.scaled.registered.items()
    nothing = layouts.share(TOPIC, world.scaled.a_share(generation=2), extended=True)
    link.write(layouts.assigned(id, nothing, (code, "another has this name")))


async def test_consumer_with_taken_name_releases_segments_and_ends_h_f9() -> None:
    async with a_world(2) as world:
        send_away(world, pb.ConsumerBusy)
        with pytest.raises(Superseded, match="another has this name"):
            await world.consumer.receive(30)
        await turns(lambda: not world.scaled.consumers)
        assert len(world.broker.kinds(pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE)) == 1


async def test_consumer_whose_session_was_given_up_registers_again() -> None:
    async with a_world(2) as world:
        world.scaled.share = world.scaled.a_share(0, 1, generation=3)
        send_away(world, pb.ConsumerNotFound)
        await turns(lambda: len(world.broker.kinds(pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE)) == 2)
        await world.open(0, 1)


async def test_consumer_of_removed_subscription_ends_without_registration_h_d9() -> None:
    async with a_world(2) as world:
        world.scaled.deliver(0, 0, single(b"last"))
        await turns(lambda: world.consumer.queued == 1)
        send_away(world, pb.SubscriptionNotFound)
        assert (await world.consumer.receive(30)).data == b"last"
        with pytest.raises(SubscriptionNotFound):
            await world.consumer.receive(30)
        assert len(world.broker.kinds(pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE)) == 1


async def test_consumer_offline_at_removal_of_subscription_ends_h_d9() -> None:
    async with a_world(2) as world:
        world.scaled.refusals[str(TOPIC)] = [pb.ServiceNotReady, pb.SubscriptionNotFound]
        world.broker.cut()
        with pytest.raises(SubscriptionNotFound):
            await world.consumer.receive(30)
        said = [one.scalableTopicSubscribe for one in world.broker.kinds(pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE)]
        assert [one.resumes for one in said] == [False, True, True]  # what was removed is not to be made anew


async def test_registration_that_never_was_answered_may_make_its_subscription() -> None:
    async with a_world(started=False) as world:
        world.scaled.refusals[str(TOPIC)] = [pb.ServiceNotReady]
        await world.consumer._start()
        said = [one.scalableTopicSubscribe for one in world.broker.kinds(pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE)]
        assert [one.resumes for one in said] == [False, False]


async def test_other_servers_are_not_told_that_it_was_registered_before() -> None:
    async with a_world(ours=False) as world:
        world.broker.cut()
        kind = pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE
        await world.broker.until(lambda: len(world.broker.kinds(kind)) == 2)
        assert not any(one.scalableTopicSubscribe.HasField("resumes") for one in world.broker.kinds(kind))


async def test_deleted_topic_is_reported_instead_of_removed_subscription() -> None:
    async with a_world(2) as world:
        world.scaled.gone()
        send_away(world, pb.SubscriptionNotFound)
        registration = world.consumer._strands[str(TOPIC)]._registration
        await turns(lambda: registration._attached._over)  # both were heard
        with pytest.raises(TopicNotFound):
            await world.consumer.receive(30)


async def test_failed_consumer_does_not_wait_for_absent_controller() -> None:
    async with a_world() as world:
        world.broker.handlers[pb.BaseCommand.CONNECT] = lambda link, command: True  # nobody answers any more
        world.broker.cut()
        await turns(lambda: not world.consumer.connected)
        world.consumer._hurry()
        await world.consumer.close()
        assert pb.BaseCommand.SCALABLE_TOPIC_UNSUBSCRIBE not in [one.type for one in world.broker.commands]
