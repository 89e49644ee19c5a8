"""Acknowledgements before they are sent: the unacknowledged part of a batch, the waiting group, the content of a flush.

Pure decisions; `ack_sender` owns the timer and the connection. A set bit is a message that is not acknowledged yet, as
on the wire. Without batch-index acknowledgement a batch is acknowledged when all its messages are. If a batch is
redelivered, its earlier acknowledgements stay valid: both deliveries share one set of bits. The tracker refuses no
call: a message that is acknowledged twice counts once.
"""

from __future__ import annotations

from struct import unpack

from magnetar.base.limits import ACK_BATCHES_MAX
from magnetar.wire.client_commands import Acked

Position = tuple[int, int]


class AckTracker:
    """The state of one topic's consumer. `individual` and `cumulative` take a message, `take` returns what to send."""

    __slots__ = ("_batch_index", "_cumulative", "_left", "_waiting")

    def __init__(self, *, batch_index: bool) -> None:
        self._batch_index = batch_index
        self._left: dict[Position, int] = {}  # partly acknowledged batches
        self._waiting: dict[Position, int] = {}  # to send: the words of the set, 0 for a whole entry
        self._cumulative: tuple[int, int, int, int] | None = None  # ledger, entry, remaining bits, words of the set

    def __len__(self) -> int:
        return len(self._waiting) + (self._cumulative is not None)

    def whole(self, position: Position) -> None:
        """Acknowledge a whole entry."""
        self._left.pop(position, None)
        self._waiting[position] = 0

    def individual(self, position: Position, index: int, size: int, unacked: int) -> bool:
        """Message `index` of a batch of `size`, delivered with `unacked` bits set. Returns whether to send more now."""
        bits = self._left.get(position, -1)
        left = (unacked if bits < 0 else bits) & ~(1 << index)
        if not left:
            self.whole(position)
            return True
        if bits < 0:
            self._keep(position, left)
        else:
            self._left[position] = left
        if not self._batch_index:
            return False
        if position not in self._waiting:
            self._waiting[position] = (size + 63) // 64  # the bits are read when it is sent
        return True

    def cumulative(self, position: Position, index: int, size: int, unacked: int) -> None:
        """Acknowledge everything up to a message; `index` -1 means the whole entry."""
        left = 0
        if index >= 0:
            left = self._left.get(position, unacked) >> (index + 1) << (index + 1)
        ledger, entry = position
        if left:
            self._keep(position, left)
            if not self._batch_index:
                if entry == 0:
                    return  # the message before it is in another ledger, whose last entry is unknown here
                entry -= 1
                left = 0
        else:
            self._left.pop(position, None)
        now = self._cumulative
        if now is None or (ledger, entry) > now[:2] or ((ledger, entry) == now[:2] and left < now[2]):
            self._cumulative = (ledger, entry, left, (size + 63) // 64)

    def remaining(self, position: Position, unacked: int) -> int:
        """The bits of a batch that is being delivered, without the messages acknowledged here before."""
        return unacked & self._left.get(position, unacked)

    def hide(self, position: Position, shown: int) -> None:
        """Show only these messages of a batch: the others count as acknowledged."""
        self._keep(position, shown)

    def duplicate(self, position: Position) -> bool:
        """Whether its acknowledgement is only waiting to be sent, so that this redelivery came too early."""
        if self._waiting.get(position, 1) == 0:
            return True
        now = self._cumulative
        return now is not None and (position < now[:2] or (position == now[:2] and not now[2]))

    def take(self, ids_max: int) -> tuple[Acked | None, list[list[Acked]]]:
        """Remove and return the waiting acknowledgements: the cumulative one, and groups of at most `ids_max` ids."""
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
            elif position in self._left:  # else evicted by the bound: the batch is redelivered and no message is lost
                ids.append((position[0], position[1], words(self._left[position], count)))
        self._waiting.clear()
        return cumulative, [ids[start : start + ids_max] for start in range(0, len(ids), ids_max)]

    def restore(self, cumulative: Acked | None, groups: list[list[Acked]]) -> None:
        """Restore acknowledgements that may not have arrived, unless later ones cover them by now."""
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
        """The subscription was moved: all earlier acknowledgements are void."""
        self._left.clear()
        self._waiting.clear()
        self._cumulative = None

    def _cover(self, position: Position) -> None:
        """Drop acknowledgements that a cumulative one includes."""
        for states in (self._waiting, self._left):
            for earlier in [earlier for earlier in states if earlier < position]:
                del states[earlier]

    def _keep(self, position: Position, left: int) -> None:
        self._left[position] = left
        if len(self._left) > ACK_BATCHES_MAX:
            del self._left[next(iter(self._left))]


def all_bits(size: int) -> int:
    return (1 << size) - 1


def bits(ack_set: list[int], size: int) -> int:
    """The ack set of a delivery as one number. Missing words mean acknowledged messages."""
    value = 0
    for word in reversed(ack_set):
        value = value << 64 | (word & 0xFFFFFFFFFFFFFFFF)
    return value & all_bits(size)


def words(value: int, count: int) -> list[int]:
    """The set as the wire carries it: signed words of 64 bits, the lowest first. All words are written, also zeros,
    because brokers differ in the meaning of missing words.
    """
    return list(unpack(f"<{count}q", value.to_bytes(count * 8, "little")))
