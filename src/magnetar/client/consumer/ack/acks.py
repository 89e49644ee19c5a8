"""Acknowledgements before they are sent: what is left of a batch, what waits in the group, what one flush says.

Decides only; `ack_sender` has the timer and the connection. A bit that is set is a message not yet acknowledged, as on
the wire. Without batch-index acknowledgement a batch is acknowledged when nothing of it is left. Where a batch is
delivered again, what was acknowledged of it before stays acknowledged: both deliveries share one set of bits. It
refuses nothing: what is acknowledged twice is acknowledged once.
"""

from __future__ import annotations

from struct import unpack

from magnetar.base.limits import ACK_BATCHES_MAX
from magnetar.wire.client_commands import Acked

Position = tuple[int, int]


class AckTracker:
    """The state of one topic's consumer. `individual` and `cumulative` take a message, `take` gives what to send."""

    __slots__ = ("_batch_index", "_cumulative", "_left", "_waiting")

    def __init__(self, *, batch_index: bool) -> None:
        self._batch_index = batch_index
        self._left: dict[Position, int] = {}  # batches acknowledged in part
        self._waiting: dict[Position, int] = {}  # to be sent: words of its set, 0 for a whole entry
        self._cumulative: tuple[int, int, int, int] | None = None  # ledger, entry, bits left of it, words of its set

    def __len__(self) -> int:
        return len(self._waiting) + (self._cumulative is not None)

    def whole(self, position: Position) -> None:
        """All of an entry."""
        self._left.pop(position, None)
        self._waiting[position] = 0

    def individual(self, position: Position, index: int, size: int, unacked: int) -> bool:
        """Message `index` of a batch of `size`, delivered with `unacked` bits set. Is there more to send now?"""
        known = self._left.get(position, -1)
        left = (unacked if known < 0 else known) & ~(1 << index)
        if not left:
            self.whole(position)
            return True
        if known < 0:
            self._keep(position, left)
        else:
            self._left[position] = left
        if not self._batch_index:
            return False
        if position not in self._waiting:
            self._waiting[position] = (size + 63) // 64  # the bits themselves are read when it is sent
        return True

    def cumulative(self, position: Position, index: int, size: int, unacked: int) -> None:
        """Everything up to a message; `index` -1 for a whole entry."""
        left = 0
        if index >= 0:
            left = self._left.get(position, unacked) >> (index + 1) << (index + 1)
        ledger, entry = position
        if left:
            self._keep(position, left)
            if not self._batch_index:
                if entry == 0:
                    return  # what stands before it has another ledger, whose end is not known here
                entry -= 1
                left = 0
        else:
            self._left.pop(position, None)
        now = self._cumulative
        if now is None or (ledger, entry) > now[:2] or ((ledger, entry) == now[:2] and left < now[2]):
            self._cumulative = (ledger, entry, left, (size + 63) // 64)

    def remaining(self, position: Position, unacked: int) -> int:
        """The bits of a batch that is being delivered: without those acknowledged here before."""
        return unacked & self._left.get(position, unacked)

    def hide(self, position: Position, shown: int) -> None:
        """Of a batch only these are shown: the others count as acknowledged."""
        self._keep(position, shown)

    def duplicate(self, position: Position) -> bool:
        """Is its acknowledgement only waiting to be sent? Then it was delivered again too early."""
        if self._waiting.get(position, 1) == 0:
            return True
        now = self._cumulative
        return now is not None and (position < now[:2] or (position == now[:2] and not now[2]))

    def take(self, ids_max: int) -> tuple[Acked | None, list[list[Acked]]]:
        """What waits, and waits no longer: the cumulative one, and individual ones in groups of at most `ids_max`."""
        cumulative: Acked | None = None
        now, self._cumulative = self._cumulative, None
        if now is not None:
            ledger, entry, left, count = now
            cumulative = (ledger, entry, words(left, count) if left else [])
            self._cover((ledger, entry))
        ids: list[Acked] = []
        for position, count in self._waiting.items():
            if not count:
                ids.append((position[0], position[1], []))
            elif position in self._left:  # else forgotten for want of room: the batch comes again, nothing is lost
                ids.append((position[0], position[1], words(self._left[position], count)))
        self._waiting.clear()
        return cumulative, [ids[start : start + ids_max] for start in range(0, len(ids), ids_max)]

    def restore(self, cumulative: Acked | None, groups: list[list[Acked]]) -> None:
        """What was taken and may not have arrived waits again, unless more has been acknowledged meanwhile."""
        for ids in groups:
            for ledger, entry, set_words in ids:
                self._waiting.setdefault((ledger, entry), len(set_words))
        if cumulative is not None:
            ledger, entry, set_words = cumulative
            now = self._cumulative
            if now is None or now[:2] < (ledger, entry):
                count = len(set_words)
                self._cumulative = (ledger, entry, bits(set_words, count * 64), count)

    def forget(self) -> None:
        """The subscription was moved: nothing that was acknowledged says anything any more."""
        self._left.clear()
        self._waiting.clear()
        self._cumulative = None

    def _cover(self, position: Position) -> None:
        """What a cumulative acknowledgement says need not be said again."""
        for states in (self._waiting, self._left):
            for known in [known for known in states if known < position]:
                del states[known]

    def _keep(self, position: Position, left: int) -> None:
        self._left[position] = left
        if len(self._left) > ACK_BATCHES_MAX:
            del self._left[next(iter(self._left))]


def all_bits(size: int) -> int:
    return (1 << size) - 1


def bits(ack_set: list[int], size: int) -> int:
    """The set of a delivery as one number. Words that are missing stand for messages that are acknowledged."""
    value = 0
    for word in reversed(ack_set):
        value = value << 64 | (word & 0xFFFFFFFFFFFFFFFF)
    return value & all_bits(size)


def words(value: int, count: int) -> list[int]:
    """As the wire has it: signed words of 64 bits, the lowest first. All of them are written, empty ones too: brokers
    differ in what they take missing ones for.
    """
    return list(unpack(f"<{count}q", value.to_bytes(count * 8, "little")))
