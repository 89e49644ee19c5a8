"""The watch of a namespace beside a scripted broker: differences against what was told, through every loss."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from magnetar.base.errors import NotAuthorized, Refused
from magnetar.client.consumer.scalable.namespace.watch import NamespaceWatch
from magnetar.wire import commands
from magnetar.wire.proto import pb
from magnetar.wire.scalable import namespace_watch
from tests.unit.client.world import Broker, Link, a_broker, a_lookup, turns

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


class World:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topics: list[str] = ["a", "b"]
        self.watches: dict[int, Link] = {}
        self.heard: list[tuple[list[str], list[str]]] = []
        self.refusal: int | None = None
        self.scalable = True
        broker.handlers[K.CONNECT] = self._connect
        broker.handlers[K.WATCH_SCALABLE_TOPICS] = self._watch
        broker.handlers[K.WATCH_SCALABLE_TOPICS_CLOSE] = self._unwatch
        self.members: NamespaceWatch

    def changed(self, gone: Sequence[str], come: Sequence[str]) -> None:
        self.heard.append((list(gone), list(come)))

    def tell(self, added: Sequence[str] = (), removed: Sequence[str] = ()) -> None:
        for watch, link in self.watches.items():
            link.write(namespace_watch.difference(watch, added, removed))

    def _connect(self, link: Link, command: pb.BaseCommand) -> bool:
        flags = pb.FeatureFlags(supports_scalable_topics=self.scalable)
        link.write(commands.connected("scripted", 21, 1 << 20, flags))
        return True

    def _watch(self, link: Link, command: pb.BaseCommand) -> bool:
        id = command.watchScalableTopics.watch_id
        if self.refusal is not None:
            link.write(namespace_watch.failed(id, self.refusal, "no"))
            return True
        self.watches[id] = link
        link.write(namespace_watch.snapshot(id, self.topics))
        return True

    def _unwatch(self, link: Link, command: pb.BaseCommand) -> bool:
        del self.watches[command.watchScalableTopicsClose.watch_id]
        return True


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        world = World(broker)
        world.members = NamespaceWatch(lookup, "public/default", {"k": "v"}, changed=world.changed)
        try:
            yield world
        finally:
            await world.members.close()


async def test_first_list_then_differences_with_removals_first() -> None:
    async with a_world() as world:
        await world.members.start(5)
        assert world.heard == [([], ["a", "b"])]
        [asked] = world.broker.kinds(K.WATCH_SCALABLE_TOPICS)
        assert asked.watchScalableTopics.namespace == "public/default"
        assert [(one.key, one.value) for one in asked.watchScalableTopics.property_filters] == [("k", "v")]
        assert not asked.watchScalableTopics.HasField("current_hash")
        world.tell(added=["a", "c"], removed=["a"])
        world.tell(added=["c"], removed=["never"])
        world.tell(removed=["b"])
        await turns(lambda: len(world.heard) == 3)
        assert world.heard[1:] == [(["a"], ["a", "c"]), (["b"], [])]
        assert world.members.known == {"a", "c"}


async def test_after_loss_only_what_changed_meanwhile_is_told() -> None:
    async with a_world() as world:
        await world.members.start(5)
        world.topics = ["b", "c"]
        world.watches.clear()
        world.broker.cut()
        await turns(lambda: len(world.heard) == 2)
        assert world.heard[1] == (["a"], ["c"])
        world.topics = ["b", "c"]
        world.watches.clear()
        world.broker.cut()
        await world.broker.until(lambda: len(world.watches) == 1)
        world.tell(added=["d"])
        await turns(lambda: len(world.heard) == 3)
        assert world.heard[2] == ([], ["d"]), "the same list again is no news"


async def test_refusal_is_callers_at_first_and_later_another_try() -> None:
    async with a_world() as world:
        world.refusal = pb.AuthorizationError
        with pytest.raises(NotAuthorized):
            await world.members.start(5)
    async with a_world() as world:
        await world.members.start(5)
        [(id, link)] = world.watches.items()
        world.watches.clear()
        world.topics = ["a"]
        link.write(namespace_watch.failed(id, pb.AuthorizationError, "not any more"))
        await turns(lambda: len(world.heard) == 2)
        assert world.heard[1] == (["b"], [])


async def test_broker_without_scalable_topics_is_named_as_such() -> None:
    async with a_world() as world:
        world.scalable = False
        with pytest.raises(Refused, match="does not support scalable topics"):
            await world.members.start(5)


async def test_close_ends_watch() -> None:
    async with a_world() as world:
        await world.members.start(5)
        await world.members.close()
        await world.broker.until(lambda: not world.watches)
