"""Many consumers share the entries, each entry to one of them: Shared.

Each consumer has a record of its unacknowledged entries. Entries that a consumer returned, or had when it left, are
sent again before new ones. `topic/dispatch/permits.py` decides which consumer is next, and keeps the chunks of one
message together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.ids import Position
from magnetar.base.limits import (
    ACK_SET_TURN_WORDS_MAX,
    DISPATCH_TURN_RUNS_MAX,
    GIVEN_BACK_ENTRIES_MAX,
    REPLAY_TURN_ENTRIES_MAX,
    SHARED_PUSH_COST,
    UNACKED_ENTRY_BYTES,
    WORDS_PER_COST,
)
from magnetar.ledger.run import Run
from magnetar.topic.dispatch.delay_queue import DelayQueue
from magnetar.topic.dispatch.entry_source import EntrySource
from magnetar.topic.dispatch.permits import Chunk, SharedChooser
from magnetar.topic.dispatch.push import chunk_of, frame_of, push_stretch, words_of
from magnetar.topic.dispatch.redelivery import RedeliveryQueue
from magnetar.topic.dispatch.state_gate import StateGate
from magnetar.topic.subscriptions.consumer import Consumer

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription


class SharedDispatcher:
    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.topic = subscription.topic
        self.cursor = subscription.cursor
        self.consumers: list[Consumer] = []
        self.replay = RedeliveryQueue()
        self._given_back: deque[Iterator[Position]] = deque()  # many of them together: they join `replay` in pieces
        self._returning = 0  # positions in `_given_back`
        self._gate = StateGate(self.topic, self.topic.managed.config.state, self.pump)
        self._charged = 0  # entries that consumers have or that wait to be delivered again, as charged
        self.delay = DelayQueue(self.topic, self._ripe)
        self.source = EntrySource(self.topic, self.pump)
        self.read_position: Position = subscription.start()
        self._chooser: SharedChooser[Consumer] = SharedChooser()
        self._held_back: dict[Position, str] = {}  # chunks that wait for the consumer of their message, by its uuid
        self._pumping = False
        self._again = False  # the next turn of the loop goes on

    def join(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._chooser.add(consumer)

    def leave(self, consumers: Collection[Consumer]) -> None:
        """Together: what they held goes to the others once."""
        gone = set(consumers)
        self.consumers = [consumer for consumer in self.consumers if consumer not in gone]
        self._chooser.remove(gone)
        positions = [position for consumer in consumers for position in consumer.pending.clear()]
        if self.consumers:
            self._give_back(positions)
        else:
            self.rewind()  # no consumer is left: forget, and read again from the cursor when one attaches
        self._charge(self._entries())
        self.pump()

    def appended(self, run: Run) -> None:
        self.pump()

    def acked(self, consumer: Consumer | None, positions: list[Position]) -> None:
        blocked = any(item.blocked for item in self.consumers) or self._full() or self._gate.full
        for position in positions:
            if consumer is None or consumer.pending.remove(position) is None:
                self._forget(position)
        self._charge(max(0, self._charged - len(positions)))  # exact again before anything new is handed out
        if blocked:
            self.pump()

    def _forget(self, position: Position) -> None:
        for item in self.consumers:
            if item.pending.remove(position) is not None:
                return
        self.replay.discard(position)
        self._held_back.pop(position, None)

    def acked_to(self, position: Position) -> None:
        """Cumulative acknowledgements do not exist here; clearing a backlog does."""
        for consumer in self.consumers:
            consumer.pending.remove_upto(position)
        self.replay.discard_upto(position)
        self._held_back = {one: uuid for one, uuid in self._held_back.items() if one > position}
        self.delay.discard_upto(position)
        if position >= self.read_position:
            self.source.reset()
            self.read_position = self.subscription.start()
        self._charge(self._entries())
        self.pump()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        if positions is None:
            removed = [position for position, _, _ in consumer.pending.remove_all()]
        else:
            removed = [position for position in positions if consumer.pending.remove(position) is not None]
        self.cursor.redelivered(removed)  # entries of a consumer that left do not count, as in Pulsar
        self._give_back(removed)
        self.pump()

    def rewind(self) -> None:
        self.source.reset()
        self.replay.clear()
        self._given_back.clear()
        self._returning = 0
        self._held_back.clear()
        self.delay.clear()
        self._charge(self._entries())
        self.read_position = self.subscription.start()

    def close(self) -> None:
        self.source.reset()
        self.delay.clear()

    def reconsider(self) -> None:
        self.pump()

    def _give_back(self, positions: list[Position]) -> None:
        if len(positions) > GIVEN_BACK_ENTRIES_MAX:
            self._given_back.append(iter(positions))
            self._returning += len(positions)
        elif positions:
            self.replay.add(positions)

    def _take_back(self) -> None:
        """Some of what consumers left, before anything new is read."""
        piece = list(islice(self._given_back[0], GIVEN_BACK_ENTRIES_MAX))
        self.replay.add(piece)
        self._returning -= len(piece)
        self.topic.runtime.turns.left -= len(piece)
        if len(piece) < GIVEN_BACK_ENTRIES_MAX:
            self._given_back.popleft()

    def _ripe(self, positions: list[Position]) -> None:
        self.replay.add([position for position in positions if not self.cursor.is_acked(position)])
        self.pump()

    def _full(self) -> bool:
        limit = self.topic.settings.unacked_per_subscription_max
        return limit > 0 and sum(consumer.pending.messages for consumer in self.consumers) >= limit

    def _entries(self) -> int:
        """Entries that the subscription remembers: charged to the account of all subscriptions."""
        return sum([len(consumer.pending) for consumer in self.consumers]) + len(self.replay) + self._returning

    def _charge(self, entries: int) -> None:
        self._charged = entries
        self._gate.settle(entries * UNACKED_ENTRY_BYTES)

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
                room = self._room()
                if room <= 0:
                    return
                if self._given_back:
                    self._take_back()
                # Chunks stay in line while their consumer has no permits; they must not delay other consumers.
                stuck = bool(self.replay) and not self._hand_out_replay(room)
                if stuck and self.source.reading:
                    return
                if (stuck or not self.replay) and not self._hand_out_new(self._room()) and not self._given_back:
                    return
        finally:
            self._pumping = False
        self._again = True
        turns.later(self._go_on)

    def _go_on(self) -> None:
        self._again = False
        self.pump()

    def _room(self) -> int:
        """Messages that can be taken now, by all consumers together."""
        if self._full():
            return 0
        return sum(consumer.permits for consumer in self.consumers if consumer.ready)

    def _hand_out_new(self, room: int) -> bool:
        self._charge(self._entries())
        if self.delay.full or self._gate.full:
            return False
        taken = self.source.take(self.read_position)
        if taken is None:
            self.subscription.caught_up(self.read_position)
            return False
        run, start = taken
        stop = start
        messages = 0
        chunks: list[Chunk | None] | None = None
        picked: list[int] = []
        untouched = self.cursor.untouched(run.position(start))
        counts = run.counts
        end = min(len(counts), start + max(1, self._gate.entries_max(self._charged, UNACKED_ENTRY_BYTES)))
        words = 0
        while stop < end and messages < room and words < ACK_SET_TURN_WORDS_MAX:
            if (untouched or not self.cursor.is_acked(run.position(stop))) and not self.delay.holds(run, stop):
                chunk = chunk_of(run, stop)
                if chunk is not None:
                    chunks = chunks or [None] * len(picked)
                if chunks is not None:
                    chunks.append(chunk)
                picked.append(stop)
                messages += counts[stop]
                words += 0 if untouched else words_of(self.cursor, run, stop)
            stop += 1
        self.topic.runtime.turns.left -= (stop - start) * SHARED_PUSH_COST + words // WORDS_PER_COST
        self.read_position = Position(run.ledger, run.first + stop)
        self._charge(self._charged + len(picked))
        if len(picked) == stop - start and untouched:
            self._assign_stretch(run, start, stop, chunks)
        elif picked:
            self._assign_entries([(run, index) for index in picked], chunks)
        return True

    def _hand_out_replay(self, room: int) -> bool:
        """Whether any of them could go out; not while one is being read from a file."""
        ready: list[tuple[Run, int]] = []
        chunks: list[Chunk | None] | None = None
        # Entries that cannot be sent are not read: new entries lie elsewhere, and reads would alternate endlessly.
        positions = self.replay.pop_first(min(REPLAY_TURN_ENTRIES_MAX, room), self._may_go if self._held_back else None)
        words = 0
        for index, position in enumerate(positions):
            if words >= ACK_SET_TURN_WORDS_MAX:
                self.replay.add(positions[index:])
                break
            self._held_back.pop(position, None)
            if self.cursor.is_acked(position):
                continue
            taken = self.source.take(position)
            if taken is None and self.topic.managed.has(position):
                self.replay.add(positions[index:])
                break
            if taken is None or taken[0].position(taken[1]) != position or self.delay.holds(*taken):
                continue  # trimmed in between, or delayed
            chunk = chunk_of(*taken)
            if chunk is not None:
                chunks = chunks or [None] * len(ready)
            if chunks is not None:
                chunks.append(chunk)
            ready.append(taken)
            words += words_of(self.cursor, *taken)
        self.topic.runtime.turns.left -= len(positions) * SHARED_PUSH_COST + words // WORDS_PER_COST
        return bool(ready) and self._assign_entries(ready, chunks)

    def _may_go(self, position: Position) -> bool:
        uuid = self._held_back.get(position)
        return uuid is None or self._chooser.may_have(uuid)

    def _hold_back(self, positions: list[Position], chunks: list[Chunk | None] | None, first: int) -> None:
        """Keeps chunks that their consumer cannot take now."""
        for position, chunk in zip(positions, (chunks or [])[first:], strict=False):
            if chunk is not None:
                self._held_back[position] = chunk.uuid
        self.replay.add(positions)

    def _assign_stretch(self, run: Run, start: int, stop: int, chunks: list[Chunk | None] | None) -> None:
        """Consecutive entries, each whole and new."""
        counts = run.counts[start:stop]
        done = 0
        for consumer, low, high in self._chooser.assign(counts, 0, chunks):
            if consumer is None:
                self._hold_back([run.position(start + index) for index in range(low, high)], chunks, low)
            else:
                push_stretch(consumer, run, start + low, start + high, self.topic.partition)
                consumer.pending.add_run(run.ledger, run.first + start + low, counts[low:high])
            done = high
        if done < len(counts):
            self.replay.add([run.position(start + index) for index in range(done, len(counts))])

    def _assign_entries(self, entries: list[tuple[Run, int]], chunks: list[Chunk | None] | None) -> bool:
        """Single entries, some delivered before or acknowledged in part. Whether any of them could go out."""
        done = 0
        sent = False
        for consumer, low, high in self._chooser.assign([run.counts[index] for run, index in entries], 0, chunks):
            done = high
            if consumer is None:
                self._hold_back([run.position(index) for run, index in entries[low:high]], chunks, low)
                continue
            frames = []
            for run, index in entries[low:high]:
                frame, count = frame_of(consumer, run, index, self.cursor, self.topic.partition)
                consumer.pending.add(run.position(index), count)
                frames.append(frame)
            consumer.outlet.write(b"".join(frames))
            sent = True
        if done < len(entries):
            self.replay.add([run.position(index) for run, index in entries[done:]])
        return sent
