"""Reads and writes the records of scalable topics and of their subscriptions.

Reads for decisions are fresh (the store catches up first, H-B8) and every write is a compare-and-set. `call` turns an
effect of a machine into a call on the store, and its outcome into an event; an unknown outcome is `CallLost`, never a
guess (H-A7). This module makes no decisions. It caches only the decoded form of bytes that it has read, for the next
read of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from magnetar.base.errors import BadVersion, MagnetarError, NotFound, TopicNotFound
from magnetar.base.limits import RECORDS_DECODED_BYTES_MAX, RECORDS_DECODED_MAX
from magnetar.base.names import TopicName, decode
from magnetar.metadata import paths
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, MetadataStore, Node
from magnetar.observe.log import get
from magnetar.scalable.machines.effects import (
    CallLost,
    Event,
    ListSubscriptions,
    ReadRecord,
    ReadSubscription,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    RemoveSubscription,
    RemoveSubscriptions,
    StoreCall,
    SubscriptionOvertaken,
    SubscriptionRead,
    SubscriptionRemoved,
    SubscriptionsListed,
    SubscriptionsRemoved,
    SubscriptionWritten,
    WriteRecord,
    WriteSubscription,
)
from magnetar.scalable.record import codec, subscription
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState

log = get("scalable")

OVERTAKEN: dict[type[StoreCall], Callable[[str, StoreCall], Event]] = {
    WriteRecord: lambda op, _: RecordOvertaken(op),
    WriteSubscription: lambda op, _: SubscriptionOvertaken(op),
    RemoveSubscription: lambda op, _: SubscriptionOvertaken(op),
}  # any other call is simply repeated


class RecordStore:
    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self._decoded: dict[str, tuple[bytes, Record]] = {}  # by path, the one used last comes last
        self._decoded_bytes = 0  # of their text

    # The record of a topic

    async def fresh(self, name: TopicName) -> tuple[Record | None, int]:
        """The record and its version, as they are now; a tombstone too."""
        path = paths.scalable(name)
        node = await self._fresh(path)
        return (None, ABSENT) if node is None else (self._decode(path, node.value), node.stat.version)

    async def write(self, name: TopicName, record: Record, version: int) -> int:
        """The new version. BadVersion: another stands there. Unknown: it may have been written."""
        path, value = paths.scalable(name), codec.encode(record)
        stat = await self.store.put(path, value, expected=version)
        self._keep(path, value, record)
        return stat.version

    async def put(self, name: TopicName, record: Record, version: int) -> None:
        """As `write`; an unknown outcome is looked for first."""
        path, value = paths.scalable(name), codec.encode(record)
        await put_checked(self.store, path, value, expected=version)
        self._keep(path, value, record)

    async def change(self, name: TopicName, change: Callable[[Record], Record]) -> Record:
        """Over what stands there, until it is written; the record as it is then. TopicNotFound: it is not live."""
        while True:
            record, version = await self.fresh(name)
            if record is None or not record.is_live:
                raise TopicNotFound(f"Scalable topic not found: {name}")
            changed = change(record)
            if changed == record:
                return record
            try:
                await self.put(name, changed, version)
            except BadVersion:
                continue  # another writer was faster: read its record
            return changed

    # The records of its subscriptions

    async def subscription(self, name: TopicName, subscription_name: str) -> tuple[Subscription | None, int]:
        node = await self._fresh(paths.scalable_subscription(name, subscription_name))
        if node is None:
            return None, ABSENT
        return subscription.decode(subscription_name, node.value), node.stat.version

    async def subscriptions(self, name: TopicName, incarnation: int) -> list[tuple[Subscription, int]]:
        """All of this life of the topic, those being removed too, by name."""
        parent = paths.scalable_subscriptions(name)
        await self.store.sync(parent)
        subscriptions = []
        async for part, node in self.store.scan(parent):
            stored = subscription.decode(decode(part), node.value)
            if stored.incarnation == incarnation:
                subscriptions.append((stored, node.stat.version))
        return sorted(subscriptions, key=lambda pair: pair[0].name)

    async def write_subscription(self, name: TopicName, stored: Subscription, version: int) -> int:
        path = paths.scalable_subscription(name, stored.name)
        return (await self.store.put(path, subscription.encode(stored), expected=version)).version

    # What deciders ask for

    async def call(self, name: TopicName, call: StoreCall) -> Event:
        try:
            return await self._call(name, call)
        except BadVersion:
            return OVERTAKEN.get(type(call), CallLost)(call.op, call)
        except MagnetarError as error:
            log.warning("store_call_failed", topic=str(name), call=type(call).__name__, error=str(error))
            return CallLost(call.op, call)

    async def _call(self, name: TopicName, call: StoreCall) -> Event:
        match call:
            case ReadRecord():
                return RecordRead(call.op, *await self.fresh(name))
            case WriteRecord():
                return RecordWritten(call.op, await self.write(name, call.record, call.version))
            case ListSubscriptions():
                all = [one for one, _ in await self.subscriptions(name, call.incarnation)]
                live = [one for one in all if one.standing is SubscriptionState.LIVE]
                if not call.groups:
                    live = [one for one in live if one.has_cursors]
                return SubscriptionsListed(call.op, tuple(live))
            case ReadSubscription():
                return SubscriptionRead(call.op, *await self.subscription(name, call.name))
            case WriteSubscription():
                version = await self.write_subscription(name, call.subscription, call.version)
                return SubscriptionWritten(call.op, version)
            case RemoveSubscription():
                await self._remove(name, call.name, call.version)
                return SubscriptionRemoved(call.op)
            case RemoveSubscriptions():
                for stored, version in await self.subscriptions(name, call.incarnation):
                    await self._remove(name, stored.name, version)
                return SubscriptionsRemoved(call.op)

    async def _remove(self, name: TopicName, subscription_name: str, version: int) -> None:
        try:
            await self.store.delete(paths.scalable_subscription(name, subscription_name), expected=version)
        except NotFound:
            pass  # by an earlier try

    def _decode(self, path: str, value: bytes) -> Record:
        """Caches the decoded history: a long one takes long to read, and nearly every read finds the same bytes."""
        kept = self._decoded.get(path)
        if kept is None or kept[0] != value:
            kept = value, codec.decode(value, None if kept is None else kept[1])
        self._keep(path, *kept)
        return kept[1]

    def _keep(self, path: str, value: bytes, record: Record) -> None:
        before = self._decoded.pop(path, None)
        if before is not None:
            self._decoded_bytes -= codec.text_bytes(before[0])
        size = codec.text_bytes(value)
        while self._decoded and (
            len(self._decoded) >= RECORDS_DECODED_MAX or self._decoded_bytes + size > RECORDS_DECODED_BYTES_MAX
        ):
            oldest = self._decoded.pop(next(iter(self._decoded)))
            self._decoded_bytes -= codec.text_bytes(oldest[0])
        self._decoded[path] = value, record
        self._decoded_bytes += size

    async def _fresh(self, path: str) -> Node | None:
        return await self.store.fresh(path)
