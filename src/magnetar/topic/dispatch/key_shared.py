"""Many consumers, each key at one of them: Key_Shared.

A selector says which consumer a key belongs to now. The guard (`topic/dispatch/key_order.py`) says whether the consumer
may have this entry now: not while an older message of that key waits, or is unacknowledged at another consumer. Such
entries wait in the guard, in order. A bounded number of entries is read past them, so that other keys continue. If
consumers share a segment by entry buckets, `topic/dispatch/entry_buckets.py` selects the consumer and
`topic/dispatch/bucket_order.py` is the guard. The keys of a chunked message stay at the consumer of its first chunk
until all chunks are sent (`topic/dispatch/chunk_affinity.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.errors import ConsumerBusy, Corrupt
from magnetar.base.ids import Position
from magnetar.base.limits import (
    ACK_SET_TURN_WORDS_MAX,
    DELAYED_SLOT_BYTES,
    DISPATCH_TURN_RUNS_MAX,
    GIVEN_BACK_ENTRIES_MAX,
    KEYED_LOOKAHEAD_ENTRIES_MAX,
    KEYED_PUSH_COST,
    KEYED_UNACKED_ENTRY_BYTES,
    REPLAY_TURN_ENTRIES_MAX,
    WORDS_PER_COST,
)
from magnetar.ledger.run import Run
from magnetar.topic.dispatch.bucket_order import BucketOrder
from magnetar.topic.dispatch.chunk_affinity import ChunkAffinity
from magnetar.topic.dispatch.delay_queue import DelayQueue
from magnetar.topic.dispatch.entry_buckets import EntryBuckets, span
from magnetar.topic.dispatch.entry_source import EntrySource
from magnetar.topic.dispatch.key_order import KeyOrder
from magnetar.topic.dispatch.key_selectors import AutoSplit, ConsistentRing, Sticky
from magnetar.topic.dispatch.push import chunk_of, frame_of, words_of
from magnetar.topic.dispatch.state_gate import StateGate
from magnetar.topic.subscriptions.consumer import Consumer, KeyShared
from magnetar.wire import entry

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription


SLOT_BITS = 17  # slots of keys are 0 to 65536


class KeySharedDispatcher:
    def __init__(self, subscription: Subscription, key_shared: KeyShared | None) -> None:
        self.subscription = subscription
        self.topic = subscription.topic
        self.cursor = subscription.cursor
        self.consumers: list[Consumer] = []
        self.sticky = key_shared is not None and key_shared.sticky
        self.out_of_order = key_shared is not None and key_shared.out_of_order and not key_shared.buckets
        settings = self.topic.settings
        self.selector: AutoSplit[Consumer] | ConsistentRing[Consumer] | Sticky[Consumer] | EntryBuckets[Consumer]
        self.guard: KeyOrder[Consumer] | BucketOrder[Consumer] = KeyOrder()
        if key_shared is not None and key_shared.buckets:
            self.selector = EntryBuckets(key_shared.ranges)
            self.guard = BucketOrder()
        elif self.sticky:
            self.selector = Sticky()
        elif settings.key_shared_ring:
            self.selector = ConsistentRing(settings.key_shared_points)
        else:
            self.selector = AutoSplit()
        self.begun: ChunkAffinity[Consumer] = ChunkAffinity()
        self.delay = DelayQueue(self.topic, self._ripe, DELAYED_SLOT_BYTES)
        self.source = EntrySource(self.topic, self.pump)
        self.read_position: Position = subscription.start()
        self._delayed: dict[Position, int] = {}  # slots of what waits for its time
        self._given_back: deque[Iterator[tuple[int, Position]]] = deque()  # slot and position: see `leave`
        self._returning = 0  # positions in `_given_back`
        self._gate = StateGate(self.topic, self.topic.managed.config.state, self.pump)
        self._charged = 0  # entries that consumers have or that wait, as charged
        self._pumping = False
        self._again = False  # the next turn of the loop goes on
        self._left = False  # of what waits, more could go than one turn takes

    def join(self, consumer: Consumer) -> None:
        key_shared = consumer.key_shared
        sticky = key_shared is not None and key_shared.sticky
        buckets = key_shared is not None and key_shared.buckets
        free = key_shared is not None and key_shared.out_of_order and not buckets
        if sticky != self.sticky or free != self.out_of_order or buckets != isinstance(self.selector, EntryBuckets):
            raise ConsumerBusy(
                f"subscription {self.subscription.name} has Key_Shared consumers of another mode: "
                "all must use the same mode, AUTO_SPLIT or STICKY, and the same setting for out-of-order delivery",
                topic=str(self.topic.name),
            )
        if isinstance(self.selector, EntryBuckets):
            assert key_shared is not None
            self.selector.add(consumer, consumer.name, consumer.id, key_shared.ranges)
        elif isinstance(self.selector, Sticky):
            assert key_shared is not None
            self.selector.add(consumer, key_shared.ranges)
        else:
            self.selector.add(consumer, consumer.name)
        self.consumers.append(consumer)
        self.guard.moved()

    def leave(self, consumers: Collection[Consumer]) -> None:
        """Together: what they held is filed again, and handed out, once. Where one held very much, the guard lets it go
        in pieces: until then it still has the keys, and no other consumer gets anything of them."""
        gone = set(consumers)
        self.consumers = [consumer for consumer in self.consumers if consumer not in gone]
        few: list[Consumer] = []
        for consumer in consumers:
            self.selector.remove(consumer)
            if len(consumer.pending) <= GIVEN_BACK_ENTRIES_MAX or not self.consumers:
                few.append(consumer)
                consumer.pending.clear()
            else:
                self._returning += len(consumer.pending)
                self._given_back.append(iter([(slot, position) for position, _, slot in consumer.pending.remove_all()]))
        if not self.consumers:
            self.rewind()
            return
        self.begun.left(consumers)
        self.guard.consumers_left(few)
        self._charge(self._entries())
        self.pump()

    def _take_back(self) -> None:
        piece = list(islice(self._given_back[0], GIVEN_BACK_ENTRIES_MAX))
        for slot, position in piece:
            self.guard.waits(slot, position)
            self._settle(self._places(slot))
        self._returning -= len(piece)
        self.topic.runtime.turns.left -= len(piece) * KEYED_PUSH_COST
        if len(piece) < GIVEN_BACK_ENTRIES_MAX:
            self._given_back.popleft()

    def appended(self, run: Run) -> None:
        self.pump()

    def acked(self, consumer: Consumer | None, positions: list[Position]) -> None:
        freed = any(item.blocked for item in self.consumers) or self._full() or self._crowded() or self._gate.full
        self._charge(max(0, self._charged - len(positions)))  # exact again before anything new is handed out
        for position in positions:
            slot = self._forget(consumer, position)
            if slot is not None:
                freed = self.guard.acked(slot, position) or freed
                self._settle(self._places(slot))
        if freed:
            self.pump()

    def _forget(self, consumer: Consumer | None, position: Position) -> int | None:
        if consumer is not None:
            held = consumer.pending.remove(position)
            if held is not None:
                return held[1]
        for item in self.consumers:
            held = item.pending.remove(position)
            if held is not None:
                return held[1]
        return self.guard.slot_of(position)

    def acked_to(self, position: Position) -> None:
        """Clearing a backlog; consumers of this type do not acknowledge cumulatively."""
        for consumer in self.consumers:
            consumer.pending.remove_upto(position)
        self.guard.discard_upto(position)
        self._settle(self.begun.places)
        self._delayed = {item: slot for item, slot in self._delayed.items() if item > position}
        self.delay.discard_upto(position)
        if position >= self.read_position:
            self.source.reset()
            self.read_position = self.subscription.start()
        self._charge(self._entries())
        self.pump()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        removed: list[Position] = []
        for position in consumer.pending.positions() if positions is None else positions:
            held = consumer.pending.remove(position)
            if held is not None:
                removed.append(position)
                self.guard.waits(held[1], position)
                self._settle(self._places(held[1]))
        if removed:
            self.cursor.redelivered(removed)
            self.pump()

    def rewind(self) -> None:
        self.source.reset()
        self.guard.clear()
        self._given_back.clear()
        self._returning = 0
        self.begun.clear()
        self._delayed.clear()
        self.delay.clear()
        self._charge(self._entries())
        self.read_position = self.subscription.start()

    def close(self) -> None:
        self.source.reset()
        self.delay.clear()

    def reconsider(self) -> None:
        self.pump()

    def _full(self) -> bool:
        limit = self.topic.settings.unacked_per_subscription_max
        return limit > 0 and sum(consumer.pending.messages for consumer in self.consumers) >= limit

    def _crowded(self) -> bool:
        return self.guard.waiting() >= KEYED_LOOKAHEAD_ENTRIES_MAX

    def _ripe(self, positions: list[Position]) -> None:
        """Adds delayed entries that are due to the lines of their keys."""
        for position in positions:
            slot = self._delayed.pop(position)
            if not self.cursor.is_acked(position):
                self.guard.waits(slot, position)
        self.pump()

    def _entries(self) -> int:
        """Entries that the subscription remembers: charged to the account of all subscriptions."""
        return sum([len(consumer.pending) for consumer in self.consumers]) + self.guard.waiting() + self._returning

    def _charge(self, entries: int) -> None:
        self._charged = entries
        self._gate.settle(entries * KEYED_UNACKED_ENTRY_BYTES)

    # Handing out

    def pump(self) -> None:
        if self._pumping or self._again or not self.consumers or self.topic.closed:
            return
        turns = self.topic.runtime.turns
        self._pumping = True
        try:
            for _ in range(DISPATCH_TURN_RUNS_MAX):
                if turns.left <= 0:
                    break
                if self._given_back:
                    self._take_back()
                    continue
                if self._full() or not any(consumer.ready for consumer in self.consumers):
                    return
                if not self._hand_out_waiting() or not (self._hand_out_new() or self._left):
                    return
        finally:
            self._pumping = False
        self._again = True
        turns.later(self._go_on)

    def _go_on(self) -> None:
        self._again = False
        self.pump()

    def _ready_owner(self, slot: int) -> Consumer | None:
        consumer = self._owner(slot)
        return consumer if consumer is not None and consumer.ready else None

    def _owner(self, slot: int) -> Consumer | None:
        kept = self.begun.owner(self._places(slot)) if self.begun else None
        return kept if kept is not None else self.selector.select(slot & ((1 << SLOT_BITS) - 1))

    def _settle(self, places: Iterable[int]) -> None:
        """Frees the places that have no unsettled entries: they belong to no consumer then."""
        for place in places if self.begun else ():
            if self.guard.holder(place) is None and self.begun.freed(place):
                self.guard.moved()

    def _places(self, slot: int) -> range:
        """The units that move between consumers: the buckets that an entry spans, or the slot of its key."""
        if isinstance(self.selector, EntryBuckets):
            return span(slot)
        first = slot & ((1 << SLOT_BITS) - 1)
        return range(first, first + 1)

    def _hand_out_waiting(self) -> bool:
        """False while a read for one of them is in progress: later entries must not overtake it."""
        self._left = False
        if not self.guard.waiting():
            return True
        positions = self.guard.take(self._owner, REPLAY_TURN_ENTRIES_MAX, _is_ready)
        self._left = len(positions) == REPLAY_TURN_ENTRIES_MAX
        self.topic.runtime.turns.left -= len(positions) * KEYED_PUSH_COST
        out: dict[Consumer, list[bytes]] = {}
        words = 0
        for index, position in enumerate(positions):
            if words >= ACK_SET_TURN_WORDS_MAX:
                self.guard.put_back(positions[index:])
                self._left = True
                break
            slot = self.guard.slot_of(position)
            if slot is None:
                continue
            taken = self.source.take(position)
            if taken is None and self.topic.managed.has(position):
                self.guard.put_back(positions[index:])
                _flush(out)
                return False
            if taken is None or taken[0].position(taken[1]) != position or self.cursor.is_acked(position):
                self.guard.acked(slot, position)  # trimmed or acknowledged in between
                continue
            consumer = self._ready_owner(slot)
            if consumer is None or not self.guard.may_send(slot, consumer, position):
                self.guard.put_back([position])
                continue
            words += words_of(self.cursor, *taken)
            self._send(consumer, taken[0], taken[1], slot, out)
        self.topic.runtime.turns.left -= words // WORDS_PER_COST
        _flush(out)
        return True

    def _hand_out_new(self) -> bool:
        self._charge(self._entries())
        if self._crowded() or self.delay.full or self._gate.full:
            return False
        taken = self.source.take(self.read_position)
        if taken is None:
            self.subscription.caught_up(self.read_position)
            return False
        run, index = taken
        untouched = self.cursor.untouched(run.position(index))
        out: dict[Consumer, list[bytes]] = {}
        most = max(1, self._gate.entries_max(self._charged, KEYED_UNACKED_ENTRY_BYTES))
        start, end = index, min(len(run), index + most)
        words = 0
        while index < end and words < ACK_SET_TURN_WORDS_MAX and not self._crowded():
            position = run.position(index)
            if untouched or not self.cursor.is_acked(position):
                words += 0 if untouched else words_of(self.cursor, run, index)
                self._place(run, index, position, out)
            index += 1
        self._charge(self._charged + index - start)
        self.topic.runtime.turns.left -= (index - start) * KEYED_PUSH_COST + words // WORDS_PER_COST
        self.read_position = Position(run.ledger, run.first + index)
        _flush(out)
        return True

    def _place(self, run: Run, index: int, position: Position, out: dict[Consumer, list[bytes]]) -> None:
        """One new entry: out to the owner of its key, or into the line of those that wait."""
        slot = self._slot(run.body, run.offsets[index], run.offsets[index + 1])
        if self.out_of_order:
            slot |= (
                position.entry << SLOT_BITS
            )  # its consumers gave up order: to the guard every entry is a key of its own
        shared = isinstance(self.selector, EntryBuckets)  # a stream: nothing overtakes what is to come later (H-F4)
        if not shared and self.delay.holds(run, index):
            self._delayed[position] = slot
            return
        consumer = self._ready_owner(slot)
        if consumer is not None and self.guard.may_send(slot, consumer, position):
            self._send(consumer, run, index, slot, out)
        else:
            self.guard.waits(slot, position)

    def _slot(self, buffer: bytes, start: int, end: int) -> int:
        if isinstance(self.selector, EntryBuckets):
            return self.selector.entry_slot(buffer, start, end)
        try:
            return self.selector.slot(entry.key_hash(buffer, start, end))
        except Corrupt:
            return 0  # unreadable metadata: any one consumer may refuse it

    def _send(self, consumer: Consumer, run: Run, index: int, slot: int, out: dict[Consumer, list[bytes]]) -> None:
        frame, count = frame_of(consumer, run, index, self.cursor, self.topic.partition)
        position = run.position(index)
        consumer.pending.add(position, count, slot)
        self.guard.sent(slot, consumer, position)
        chunk = None if self.out_of_order else chunk_of(run, index)  # consumers without order do not wait for chunks
        if chunk is not None and self.begun.sent(self._places(slot)[0], consumer, chunk.uuid, last=chunk.last):
            self.guard.moved()
        out.setdefault(consumer, []).append(frame)


def _flush(out: dict[Consumer, list[bytes]]) -> None:
    for consumer, frames in out.items():
        consumer.outlet.write(b"".join(frames))


def _is_ready(consumer: Consumer) -> bool:
    return consumer.ready
