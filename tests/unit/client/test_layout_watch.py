"""The watch of a layout: opened, followed, opened again; only newer layouts of the same life count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from magnetar.base.errors import MagnetarError, NotAuthorized, Refused, TopicNotFound
from magnetar.base.ids import Epoch, SegmentId
from magnetar.client.connection.lookup import Route
from magnetar.client.layout_watch import LayoutView, LayoutWatch
from magnetar.layout.routing import Routing
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from tests.support.scalable_broker_script import Scaled, a_scaled
from tests.unit.client.world import turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


class Kept:
    def __init__(self, scaled: Scaled, watch: LayoutWatch) -> None:
        self.scaled = scaled
        self.watch = watch
        self.seen: list[LayoutView] = []
        self.gone: list[MagnetarError] = []

    @property
    def epochs(self) -> list[int]:
        return [seen.layout.epoch for seen in self.seen]

    async def until(self, epoch: int) -> None:
        """What is pushed comes in order: once this is here, whatever came before was looked at."""
        await turns(lambda: bool(self.epochs) and self.epochs[-1] >= epoch)


@asynccontextmanager
async def a_watch(**said: Any) -> AsyncIterator[Kept]:
    async with a_scaled(**said) as (scaled, lookup):
        kept: Kept
        watch = LayoutWatch(
            lookup,
            "topic://public/default/t",
            heard=lambda seen: kept.seen.append(seen),
            gone=lambda error: kept.gone.append(error),
            seek_s=0.001,
        )
        kept = Kept(scaled, watch)
        try:
            yield kept
        finally:
            await watch.close()


async def test_layout_is_looked_up_watched_and_left_as_recorded() -> None:
    async with a_watch() as kept:
        seen = await kept.watch.start(5)
        told = replace(kept.scaled.layout, generation=None)  # which is not on the wire
        assert (seen.layout, seen.routing) == (told, Routing.HIGH16)
        await kept.watch.close()
        await kept.scaled.broker.until(lambda: bool(kept.scaled.broker.kinds(K.SCALABLE_TOPIC_CLOSE)))
        kinds = [command.type for command in kept.scaled.broker.commands]
        assert kinds == [K.CONNECT, K.LOOKUP, K.SCALABLE_TOPIC_LOOKUP, K.SCALABLE_TOPIC_CLOSE]


async def test_overtaken_layout_is_ignored() -> None:
    async with a_watch() as kept:
        await kept.watch.start(5)
        old = kept.scaled.layout
        new = old.split(SegmentId(0), now_ms=1)
        kept.scaled.show(new)
        kept.scaled.show(old)
        kept.scaled.show(new.split(SegmentId(1), now_ms=2))
        await kept.until(2)
        assert kept.epochs == [0, 1, 2]


async def test_another_controller_is_told_at_same_epoch() -> None:
    async with a_watch() as kept:
        assert (await kept.watch.start(5)).controller is None
        kept.scaled.controller = layouts.Address("pulsar://elsewhere:6650")
        kept.scaled.show()
        await turns(lambda: len(kept.seen) == 2)
        assert kept.seen[1].controller == Route("pulsar://elsewhere:6650")


@pytest.mark.parametrize("listener", ["", "outside"])
async def test_watch_names_listener_of_client(listener: str) -> None:
    async with a_watch() as kept:
        kept.watch._lookup.listener = listener
        await kept.watch.start(5)
        [asked] = kept.scaled.broker.kinds(K.SCALABLE_TOPIC_LOOKUP)
        assert asked.scalableTopicLookup.advertised_listener_name == listener


async def test_watch_reopens_after_disconnect_without_creating_topic() -> None:
    async with a_watch() as kept:
        await kept.watch.start(5)
        kept.scaled.layout = kept.scaled.layout.split(SegmentId(0), now_ms=1)
        kept.scaled.broker.cut()
        await kept.until(1)
        asked = [command.scalableTopicLookup for command in kept.scaled.broker.kinds(K.SCALABLE_TOPIC_LOOKUP)]
        assert [one.create_if_missing for one in asked] == [True, False]
        assert asked[0].session_id != asked[1].session_id


async def test_deleted_topic_is_told_once_and_ends_watch() -> None:
    async with a_watch() as kept:
        await kept.watch.start(5)
        kept.scaled.gone()
        await turns(lambda: bool(kept.gone))
        assert [type(error) for error in kept.gone] == [TopicNotFound]


async def test_recreated_topic_of_same_name_is_no_update() -> None:
    async with a_watch() as kept:
        await kept.watch.start(5)
        kept.scaled.incarnation = 2
        kept.scaled.show(replace(kept.scaled.layout, epoch=Epoch(9)))
        await turns(lambda: bool(kept.gone))
        assert kept.epochs == [0]
        assert "created again" in str(kept.gone[0])


async def test_broker_without_scalable_topics_is_said_so() -> None:
    async with a_watch() as kept:
        kept.scaled.scalable = False
        with pytest.raises(Refused, match="does not support scalable topics"):
            await kept.watch.start(5)
        assert not kept.scaled.broker.kinds(K.SCALABLE_TOPIC_LOOKUP)


@pytest.mark.parametrize(("code", "error"), [(pb.TopicNotFound, TopicNotFound), (pb.AuthorizationError, NotAuthorized)])
async def test_refusal_before_first_layout_is_callers(code, error) -> None:
    async with a_watch() as kept:
        kept.scaled.broker.handlers[K.SCALABLE_TOPIC_LOOKUP] = lambda link, command: (
            link.write(layouts.update_failed(command.scalableTopicLookup.session_id, code, "no")) or True
        )
        with pytest.raises(error):
            await kept.watch.start(5)
        assert kept.gone == []


async def test_refusal_in_passing_is_asked_again() -> None:
    async with a_watch() as kept:
        answers = [pb.ServiceNotReady]
        whole = kept.scaled.broker.handlers[K.SCALABLE_TOPIC_LOOKUP]

        def refuse_once(link, command):
            if not answers:
                return whole(link, command)
            link.write(layouts.update_failed(command.scalableTopicLookup.session_id, answers.pop(), "not yet"))
            return True

        kept.scaled.broker.handlers[K.SCALABLE_TOPIC_LOOKUP] = refuse_once
        await kept.watch.start(5)
        assert kept.epochs == [0]


async def test_routing_of_silent_server_is_derived_from_version() -> None:
    async with a_watch(ours=False) as kept:
        assert (await kept.watch.start(5)).routing is Routing.LOW16


async def test_missing_layout_is_requested() -> None:
    async with a_watch() as kept:
        await kept.watch.start(5)
        kept.scaled.layout = kept.scaled.layout.split(SegmentId(0), now_ms=1)  # and nobody is told
        kept.watch.seek(Epoch(0))
        await kept.until(1)
        assert len(kept.scaled.watching) == 1


@pytest.mark.parametrize("lost", [False, True])
async def test_failed_layout_request_leaves_watch_working(lost) -> None:
    async with a_watch() as kept:
        await kept.watch.start(5)
        whole = kept.scaled.broker.handlers[K.SCALABLE_TOPIC_LOOKUP]
        answers = [pb.ServiceNotReady]

        def fail_once(link, command):
            if not answers:
                return whole(link, command)
            refused = layouts.update_failed(command.scalableTopicLookup.session_id, answers.pop(), "not yet")
            if lost:
                link.cut()
            else:
                link.write(refused)
            return True

        kept.scaled.broker.handlers[K.SCALABLE_TOPIC_LOOKUP] = fail_once
        kept.scaled.layout = kept.scaled.layout.split(SegmentId(0), now_ms=1)  # and nobody is told
        kept.watch.seek(Epoch(0))
        await kept.until(1)
        assert answers == []
