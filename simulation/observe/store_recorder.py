"""Records in the history what the stores of a world hold about scalable topics, at every change and at rest.

It sees each value as soon as the metadata store holds it, from any writer: the truth that no broker reports. It reads
the durable position of a cursor from the owner's own object, without calling methods that decide anything. It only
reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from magnetar.base.errors import InvalidName
from magnetar.base.ids import Position, SegmentId
from magnetar.base.names import TopicName, decode, topic_name
from magnetar.ledger.cursor.cursor import KIND
from magnetar.metadata import paths
from magnetar.scalable.machines.hold import StoredHold
from magnetar.scalable.record import codec, subscription
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Early
from magnetar.topic.seal import TERM_PROPERTY
from magnetar.topic.topic import Topic
from simulation import history as record
from simulation.history import OK
from simulation.stores.metadata_tree import Record as Stored

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld


class StoreRecorder:
    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._records: dict[str, Record] = {}
        self._latched: dict[tuple[str, str], frozenset[SegmentId]] = {}
        self._owned: dict[str, tuple[object, ...]] = {}
        self._ends: dict[tuple[str, str], tuple[bool, bool]] = {}  # of holds: announced, over
        world.store.content.watchers.append(self._changed)

    def inventory(self) -> None:
        """At rest: the existing segments and cursors, and the expected ones."""
        tree = self._world.store.content.tree
        for topic, topic_record in sorted(self._records.items()):
            name = topic_name(topic)
            below = f"{paths.MANAGED_LEDGERS}/{name.namespace}/segment/{name.encoded_local_name}"
            there: dict[str, list[str]] = {}
            for descriptor in tree.below.get(below, ()):
                at = f"{below}/{descriptor}"
                there[str(paths.topic_of(at).segment.id)] = self._cursors(at)  # type: ignore[union-attr]
            for segment in topic_record.layout.segments:
                if segment.legacy_topic and topic_record.is_live:  # a plain topic that was migrated
                    there[str(segment.id)] = self._cursors(paths.topic(topic_name(segment.legacy_topic), 1))
            ready, unready = self._subscriptions(name)
            self._world.history.note(
                "world",
                record.INVENTORY,
                OK,
                topic,
                listed=sorted(one.id for one in topic_record.layout.segments) if topic_record.is_live else [],
                roots=sorted(one.id for one in topic_record.layout.segments if not one.parents),
                intent="" if topic_record.intent is None else topic_record.intent.op,
                lifecycle=str(topic_record.lifecycle),
                subscriptions=ready,
                unready=unready,
                cursors=there,
            )

    def _cursors(self, at: str) -> list[str]:
        tree = self._world.store.content.tree
        parts = tree.below.get(at, ())
        return sorted(decode(part) for part in parts if _kind(tree.records.get(f"{at}/{part}")) == KIND)

    def _subscriptions(self, name: TopicName) -> tuple[list[str], list[str]]:
        """Those whose clients got a success, and those whose creation or removal has an unknown outcome."""
        tree, parent = self._world.store.content.tree, paths.scalable_subscriptions(name)
        ready: list[str] = []
        unready: list[str] = []
        for part in tree.below.get(parent, ()):
            stored = subscription.decode(decode(part), tree.records[f"{parent}/{part}"].value)
            if not stored.has_cursors:
                continue
            (ready if stored.ready and stored.standing is subscription.SubscriptionState.LIVE else unready).append(
                stored.name
            )
        return sorted(ready), sorted(unready)

    def actives(self, topic: str) -> list[tuple[int, int, int]]:
        """Id and range of each active segment."""
        return [(one.id, one.range.start, one.range.end) for one in self._records[topic].layout.active]

    def segments(self, topic: str) -> list[tuple[int, str]]:
        """Id and topic of each active segment; none before the routing is pinned."""
        record = self._records.get(topic)
        if record is None or record.routing is None or not record.is_live:
            return []
        return [(one.id, str(one.topic(topic_name(topic)))) for one in record.layout.active]

    def followed(self, process: str, facts: dict[str, Any]) -> None:
        """A client uses this layout or assignment from now on."""
        self._world.history.note(
            f"{process} {facts.get('consumer', '')}".strip(),
            record.LAYOUT,
            OK,
            facts["topic"],
            session=facts.get("watch", facts.get("share", 0)),
            at=[facts["epoch"], facts.get("generation") or 0],
        )

    # What is written

    def _changed(self, path: str, stored: Stored | None) -> None:
        if path.startswith(paths.SCALABLE_TOPICS + "/"):
            self._about_topic(path, stored)
        elif "/segment/" in path and path.startswith(paths.MANAGED_LEDGERS) and stored is not None:
            self._about_segment(path, stored)

    def _about_topic(self, path: str, stored: Stored | None) -> None:
        name = paths.scalable_of(path)
        if name is not None:
            if stored is not None:
                self._record(str(name), codec.decode(stored.value))
            return
        parts = path.split("/")
        if len(parts) == 7 and parts[5] == "subscriptions" and stored is not None:
            name = paths.scalable_of("/".join(parts[:5]))
            assert name is not None
            self._subscription(name, subscription.decode(decode(parts[6]), stored.value))

    def _record(self, topic: str, topic_record: Record) -> None:
        self._records[topic] = topic_record
        plain = [one.id for one in topic_record.layout.segments if one.legacy_topic]
        more: dict[str, Any] = {"plain": plain} if plain else {}
        self._world.history.note(
            "world",
            record.RECORD,
            OK,
            topic,
            term=topic_record.term,
            epoch=topic_record.epoch,
            incarnation=topic_record.incarnation,
            lifecycle=str(topic_record.lifecycle),
            next_id=topic_record.layout.next_segment_id,
            intent="" if topic_record.intent is None else topic_record.intent.op,
            children=[] if topic_record.intent is None else [one.id for one in topic_record.intent.children],
            segments={
                str(one.id): [
                    one.range.start,
                    one.range.end,
                    str(one.state),
                    list(one.parents),
                    None if one.ending is None else list(one.ending.end),
                ]
                for one in topic_record.layout.segments
            },
            **more,
        )

    def _subscription(self, name: TopicName, stored: subscription.Subscription) -> None:
        topic = str(name)
        if stored.hold is not None:
            self._hold(topic, stored.name, stored.hold)
        before = self._latched.get((topic, f"{stored.name}.{stored.life}"), frozenset())
        latched = frozenset(stored.latched)
        self._latched[topic, f"{stored.name}.{stored.life}"] = latched
        self._world.history.note(
            "world",
            record.STREAM,
            OK,
            topic,
            subscription=stored.name,
            life=stored.life,
            seeks=stored.seeks,
            latched=sorted(latched),
            holds=[
                [hold.segment, name]
                for hold in stored.plan.holds
                for name in (hold.holder, *sorted(hold.sharers))
                if name
            ],
            early=[hold.segment for hold in stored.plan.holds if hold.early in (Early.PROPOSED, Early.GRANTED)],
            durable={
                str(id): self._durable(name, stored.name, id) for id in sorted(latched - before) if stored.has_cursors
            },
        )

    def _hold(self, topic: str, name: str, held: StoredHold) -> None:
        """Records a hold whose end comes nearer or is withdrawn."""
        ends = (bool(held.warned_ms), bool(held.expired_ms))
        if ends == self._ends.get((topic, name), (False, False)):
            return
        self._ends[topic, name] = ends
        facts: dict[str, Any] = {"warned": ends[0], "expired": ends[1], "notice_s": held.notice_s}
        self._world.history.note("world", record.HOLD, OK, topic, hold=name, **facts)

    def _durable(self, name: TopicName, subscription_name: str, segment: SegmentId) -> bool | None:
        """Whether the cursor is at the end of the segment on disk; None: no broker has it loaded."""
        record = self._records.get(str(name))
        if record is None or segment not in record.layout:
            return None
        canonical = record.layout.segment(segment).topic(name).canonical
        answers = [
            _at_end(topic, subscription_name)
            for broker, node in self._world.nodes.items()
            if self._world.hosts[broker].alive and isinstance(topic := node.topics.loaded.get(canonical), Topic)
        ]
        answered = [answer for answer in answers if answer is not None]
        return any(answered) if answered else None

    def _about_segment(self, path: str, stored: Stored) -> None:
        try:
            name = paths.topic_of(path)
        except InvalidName:
            return  # a cursor of one
        fields = _fields(stored)
        facts = (fields.get("properties", {}).get(TERM_PROPERTY), fields.get("terminated"))
        if name.segment is None or self._owned.get(path) == facts:
            return
        self._owned[path] = facts
        term, end = facts
        self._world.history.note(
            "world",
            record.SEGMENT,
            OK,
            str(name.parent),
            segment=name.segment.id,
            term=-1 if term is None else int(term),
            end=end,
        )


def _at_end(topic: Topic, subscription_name: str) -> bool | None:
    end, cursor = topic.managed.terminated, topic.subscriptions.get(subscription_name)
    if end is None or cursor is None:
        return None
    mark: Position = cursor.cursor._durable_mark
    return end <= mark or topic.managed.entries_between(mark, end) == 0


def _fields(stored: Stored) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(stored.value) if stored.value else {}
    return fields


def _kind(stored: Stored | None) -> str:
    return "" if stored is None else str(_fields(stored).get("kind", ""))
