"""The acknowledgements of one subscription: a mark, intervals after it, bits inside batches, and redelivery counts.

Pure. It guarantees that no message is skipped: everything at or before `mark` is acknowledged, and after it the entries
in the intervals. In an entry that is partly acknowledged, a set bit is a message still open, and each acknowledgement
is ANDed in. It refuses acknowledgements of entries that the chain lacks (trimmed, or not confirmed yet), so that an
entry written later is never taken for consumed. It trusts the chain, which it reads and never changes.

Gaps, batches that are acknowledged in part and redelivery counts have bounds. The broker does not keep an
acknowledgement that needs more, and `refused` counts it: its message is redelivered. Kept acknowledgements stay, also
when a loaded state is beyond a bound. Past a number of gaps it calls `on_many` once.

The byte form is a version and tagged sections. Sections with an unknown tag survive a rewrite (hash ranges and pending
acknowledgements of transactions have their tags reserved).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from magnetar.base.errors import Corrupt, Refused
from magnetar.base.ids import Position
from magnetar.base.limits import (
    CURSOR_BATCHES_BYTES_MAX,
    CURSOR_COUNT_BYTES,
    CURSOR_COUNTS_MAX,
    CURSOR_GAP_BYTES,
    CURSOR_GAPS_MAX,
    CURSOR_HOLES_WARN,
    STATE_CHARGE_STEP_BYTES,
)
from magnetar.ledger.chain import Chain
from magnetar.ledger.cursor.acks_codec import BITS, COUNTS, MARK, POSITION, RANGES, VERSION, encode
from magnetar.ledger.cursor.ranges import Ranges
from magnetar.ledger.snapshot_codec import Section, Unpacker

_WORD = (1 << 64) - 1
_BATCH_BYTES = 200  # of a batch acknowledged in part, beside its mask: two numbers, a pair and its place
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class AckBounds:
    gaps: int = CURSOR_GAPS_MAX
    batches_bytes: int = CURSOR_BATCHES_BYTES_MAX
    counts: int = CURSOR_COUNTS_MAX


_DEFAULT = AckBounds()
_LEAST = AckBounds(
    STATE_CHARGE_STEP_BYTES // CURSOR_GAP_BYTES, STATE_CHARGE_STEP_BYTES, STATE_CHARGE_STEP_BYTES // CURSOR_COUNT_BYTES
)


class Acks:
    __slots__ = (
        "_batches_bytes",
        "_bits",
        "_bounds",
        "_chain",
        "_counted",
        "_counts",
        "_given",
        "_on_many",
        "_ranges",
        "_unknown",
        "_warned",
        "acked",
        "holes",
        "mark",
        "refused",
    )

    def __init__(
        self,
        chain: Chain,
        mark: Position,
        on_many: Callable[[int], None] | None = None,
        bounds: AckBounds = _DEFAULT,
    ) -> None:
        self._chain = chain
        self._bounds = self._given = bounds
        self._batches_bytes = 0  # of `_bits`
        self._counted = 0  # entries in `_counts`
        self.refused = 0  # acknowledgements that were not kept
        self.mark = mark
        self.acked = 0  # entries after the mark that are acknowledged
        self.holes = 0  # intervals after the mark: as many gaps before them
        self._ranges: dict[int, Ranges] = {}
        self._bits: dict[int, dict[int, tuple[int, int]]] = {}  # ledger -> entry -> (open messages, batch size)
        self._counts: dict[int, dict[int, int]] = {}
        self._unknown: list[Section] = []
        self._on_many = on_many
        self._warned = False

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that the bounds limit."""
        return self.holes * CURSOR_GAP_BYTES + self._batches_bytes + self._counted * CURSOR_COUNT_BYTES

    def restrict(self, on: bool) -> None:
        """All subscriptions together have too much: from now on this one may have a few of each kind, or no more."""
        self._bounds = _LEAST if on else self._given

    @property
    def contiguous(self) -> bool:
        """Nothing after the mark is acknowledged, even in part, and nothing was delivered again."""
        return not self._ranges and not self._bits and not self._counts

    @property
    def plain(self) -> bool:
        """The mark says everything there is to remember."""
        return self.contiguous and not self._unknown

    @property
    def backlog(self) -> int:
        """Entries that are not acknowledged as a whole."""
        return self._chain.entries_between(self.mark, self._chain.last) - self.acked

    def intervals(self, count: int) -> list[tuple[int, int, int]]:
        """The first acknowledged intervals after the mark: ledger, first and last entry."""
        intervals: list[tuple[int, int, int]] = []
        for ledger in sorted(self._ranges):
            ranges = self._ranges[ledger]
            rest = count - len(intervals)
            intervals += [
                (ledger, low, high) for low, high in zip(ranges.starts[:rest], ranges.ends[:rest], strict=True)
            ]
        return intervals

    def batches(self, count: int) -> list[tuple[Position, int]]:
        """Entries that are acknowledged in part, each with the number of its messages that are not."""
        batches: list[tuple[Position, int]] = []
        for ledger, entries in self._bits.items():
            for entry, (waiting, _) in entries.items():
                if len(batches) == count:
                    return batches
                batches.append((Position(ledger, entry), waiting.bit_count()))
        return batches

    # Queries

    def is_acked(self, position: Position) -> bool:
        if position <= self.mark:
            return True
        ranges = self._ranges.get(position[0])
        return ranges is not None and ranges.end_of(position[1]) >= 0

    def next_unacked(self, position: Position) -> Position:
        """The first entry at or after that is not acknowledged, or the chain's end."""
        if position <= self.mark:
            position = self._chain.after(self.mark)
        else:
            position = self._chain.clamp(position)
        while self._ranges:
            ranges = self._ranges.get(position[0])
            end = -1 if ranges is None else ranges.end_of(position[1])
            if end < 0:
                break
            position = self._chain.clamp(Position(position[0], end + 1))
        return position

    def unacked_bits(self, position: Position, messages: int = 0) -> list[int] | None:
        """The messages of a batch that are still open, as the signed 64-bit words of an `ack_set`; None when all
        are. `messages`: the number in the batch, if known: bits of more, which a client may have sent, are left out.
        """
        bits = self._bits.get(position[0], {}).get(position[1]) if self._bits else None
        if bits is None:
            return None
        mask, size = bits
        return _words(mask & (1 << messages) - 1, messages) if 0 < messages < size else _words(mask, size)

    def words(self, position: Position) -> int:
        """The number of words that `unacked_bits` returns without `messages`."""
        bits = self._bits.get(position[0], {}).get(position[1]) if self._bits else None
        return 0 if bits is None else (bits[1] + 63) // 64

    def open_messages(self, position: Position) -> int | None:
        """How many messages of a batch are still open; None when all are."""
        bits = self._bits.get(position[0], {}).get(position[1]) if self._bits else None
        return None if bits is None else bits[0].bit_count()

    def redelivery(self, position: Position) -> int:
        return self._counts.get(position[0], {}).get(position[1], 0) if self._counts else 0

    # Acknowledging: each returns whether anything changed

    def ack(self, position: Position) -> bool:
        ledger, entry = position
        if position <= self.mark or not self._chain.has(position):
            return False
        if (
            entry == self.mark[1] + 1
            if ledger == self.mark[0]
            else not entry and position == self._chain.after(self.mark)
        ):
            self._forget(ledger, entry, entry)
            self.mark = position if type(position) is Position else Position(ledger, entry)
            if self._ranges:
                self._absorb()
            return True
        return self._hold(ledger, entry, entry)

    def ack_to(self, position: Position) -> bool:
        """Everything at or before (cumulative)."""
        target = self._chain.at_or_before(min(position, self._chain.last))
        if target <= self.mark or not self._chain.has(target):
            return False
        origin = self.mark
        for ledger in [ledger for ledger in self._ranges if ledger <= target.ledger]:
            ranges = self._ranges[ledger]
            entries, holes = ranges.entries, len(ranges)
            if ledger == target.ledger:
                ranges.drop_to(target.entry)
            if ledger < target.ledger or not len(ranges):
                del self._ranges[ledger]
                self.acked -= entries
                self.holes -= holes
            else:
                self.acked -= entries - ranges.entries
                self.holes -= holes - len(ranges)
        for ledger in sorted({*self._bits, *self._counts}):
            if ledger < target.ledger:
                self._batches_bytes -= _bytes_of(self._bits.pop(ledger, {}).values())
                self._counted -= len(self._counts.pop(ledger, {}))
            elif ledger == target.ledger:
                self._forget(ledger, origin.entry + 1 if origin.ledger == ledger else 0, target.entry)
        self.mark = target
        self._absorb()
        return True

    def ack_bits(self, position: Position, words: Sequence[int], batch_size: int = 0) -> bool:
        """Messages of a batch: a cleared bit is acknowledged, and so is an index past the words. A size of 0 is not
        known. Ask `is_acked` whether that completed the entry."""
        if self.is_acked(position) or not self._chain.has(position):
            return False
        ledger, entry = position
        held = self._bits.get(ledger, {}).get(entry)
        size = held[1] if held is not None else batch_size if batch_size > 0 else 64 * len(words)
        before = held[0] if held is not None else (1 << size) - 1
        after = before & _mask(words[: (size + 63) // 64])
        if not after:
            return self.ack(position)
        if after == before:
            return False
        if held is None:
            more = _bytes_of([(after, size)])
            if self._batches_bytes + more > self._bounds.batches_bytes:
                self.refused += 1
                return False
            self._batches_bytes += more
        self._bits.setdefault(ledger, {})[entry] = (after, size)
        return True

    def ack_to_bits(self, position: Position, words: Sequence[int], batch_size: int = 0) -> bool:
        """Everything before the position, and messages inside it."""
        changed = self.ack_to(self._chain.before(position))
        return self.ack_bits(position, words, batch_size) or changed

    def redelivered(self, positions: Iterable[Position]) -> bool:
        """These go out once more: their counts grow by one."""
        changed = False
        for position in positions:
            if not self.is_acked(position) and self._chain.has(position):
                before = self._counts.get(position[0], {}).get(position[1], 0)
                if not before and self._counted >= self._bounds.counts:
                    continue
                self._counts.setdefault(position[0], {})[position[1]] = before + 1
                self._counted += not before
                changed = True
        return changed

    def reset(self, mark: Position) -> None:
        """Everything at or before is acknowledged and nothing after it."""
        self.mark = self._chain.at_or_before(mark)
        self.acked = self.holes = self._batches_bytes = self._counted = 0
        self._ranges.clear()
        self._bits.clear()
        self._counts.clear()
        self._warned = False

    def settle(self) -> None:
        """Fit to the chain after loading: what it no longer holds, or does not hold yet, is forgotten; the mark
        never gains by it.
        """
        chain = self._chain
        self.mark = chain.at_or_before(self.mark)
        for ledger in list(self._ranges):
            link, ranges = chain.link(ledger), self._ranges[ledger]
            if link is None or ledger < self.mark.ledger:
                del self._ranges[ledger]
                continue
            ranges.cut(link.entries)
            if ledger == self.mark.ledger:
                ranges.drop_to(self.mark.entry)
            if not len(ranges):
                del self._ranges[ledger]
        self._bits = self._kept(self._bits)
        self._counts = self._kept(self._counts)
        self._batches_bytes = sum(_bytes_of(inside.values()) for inside in self._bits.values())
        self._counted = sum(map(len, self._counts.values()))
        self.acked = sum(ranges.entries for ranges in self._ranges.values())
        self.holes = sum(len(ranges) for ranges in self._ranges.values())
        self._absorb()

    # The byte form

    def encode(self) -> bytes:
        return self.frozen()()

    def frozen(self) -> Callable[[], bytes]:
        """Returns what encodes the state as it is now: on a copy, so that another thread may call it."""
        return partial(
            encode,
            self.mark,
            {ledger: (ranges.starts, ranges.ends) for ledger, ranges in self._ranges.items()},
            {ledger: dict(inside) for ledger, inside in self._bits.items()},
            {ledger: dict(inside) for ledger, inside in self._counts.items()},
            list(self._unknown),
        )

    @classmethod
    def decode(
        cls,
        data: bytes,
        chain: Chain,
        on_many: Callable[[int], None] | None = None,
        bounds: AckBounds = _DEFAULT,
    ) -> Acks:
        source = Unpacker(data)
        version = source.take(1)[0]
        if version > VERSION:
            raise Refused(
                f"acknowledgements have format version {version}, this node reads up to {VERSION}: start a node of "
                "the version that wrote them, or delete the subscription",
                version=version,
            )
        if version == 0:
            raise Corrupt("acknowledgements have format version 0, expected 1 or later")
        acks: Acks | None = None
        for tag, body in source.sections():
            section = Unpacker(body)
            if tag == MARK:
                acks = cls(chain, Position(*POSITION.unpack(section.take(POSITION.size))), on_many, bounds)
            elif acks is None:
                raise Corrupt("acknowledgements do not begin with the mark-delete position")
            elif tag == RANGES:
                _decode_ranges(section, acks._ranges)
            elif tag == BITS:
                _decode_bits(section, acks._bits)
            elif tag == COUNTS:
                _decode_counts(section, acks._counts)
            else:
                acks._unknown.append((tag, body))
        if acks is None:
            raise Corrupt("acknowledgements have no mark-delete position")
        acks.settle()
        return acks

    # Inside

    def _hold(self, ledger: int, start: int, end: int) -> bool:
        ranges = self._ranges.get(ledger)
        if self.holes >= self._bounds.gaps and (ranges is None or not ranges.touches(start, end)):
            self.refused += 1
            return False
        if ranges is None:
            ranges = self._ranges[ledger] = Ranges()
        holes = len(ranges)
        new = ranges.add(start, end)
        if not new:
            return False
        self.acked += new
        self.holes += len(ranges) - holes
        self._forget(ledger, start, end)
        if self.holes > CURSOR_HOLES_WARN and not self._warned:
            self._warned = True
            if self._on_many is not None:
                self._on_many(self.holes)
        return True

    def _absorb(self) -> None:
        """Moves the mark over the acknowledged entries right after it, across ledgers."""
        while self._ranges:
            ledger, entry = self._chain.after(self.mark)
            ranges = self._ranges.get(ledger)
            if ranges is None or ranges.first != entry:
                break
            start, end = ranges.pop_first()
            self.acked -= end - start + 1
            self.holes -= 1
            self.mark = Position(ledger, end)
            if not len(ranges):
                del self._ranges[ledger]
        if self._warned and self.holes < CURSOR_HOLES_WARN // 2:
            self._warned = False

    def _forget(self, ledger: int, start: int, end: int) -> None:
        """Bits and counts of entries that are acknowledged as a whole."""
        if self._bits:
            self._batches_bytes -= _bytes_of(_discard(self._bits, ledger, start, end))
        if self._counts:
            self._counted -= len(_discard(self._counts, ledger, start, end))

    def _kept(self, held: dict[int, dict[int, _T]]) -> dict[int, dict[int, _T]]:
        kept = {
            ledger: {
                entry: value
                for entry, value in inside.items()
                if self._chain.has(Position(ledger, entry)) and not self.is_acked(Position(ledger, entry))
            }
            for ledger, inside in held.items()
        }
        return {ledger: inside for ledger, inside in kept.items() if inside}


def _bytes_of(batches: Iterable[tuple[int, int]]) -> int:
    """An estimate of their memory: the mask, and objects."""
    return sum(_BATCH_BYTES + size // 8 for _, size in batches)


def _discard(held: dict[int, dict[int, _T]], ledger: int, start: int, end: int) -> list[_T]:
    """Those that were there."""
    inside = held.get(ledger)
    if inside is None:
        return []
    if end - start < len(inside):
        gone = [inside.pop(entry) for entry in range(start, end + 1) if entry in inside]
    else:
        gone = [inside.pop(entry) for entry in [entry for entry in inside if start <= entry <= end]]
    if not inside:
        del held[ledger]
    return gone


def _mask(words: Sequence[int]) -> int:
    """Words of an `ack_set` as one number; they come signed or unsigned, lowest indexes first."""
    return int.from_bytes(struct.pack(f"<{len(words)}Q", *(word & _WORD for word in words)), "little")


def _words(mask: int, batch_size: int) -> list[int]:
    raw = mask.to_bytes((batch_size + 63) // 64 * 8, "little")
    return list(struct.unpack(f"<{len(raw) // 8}q", raw))


def _decode_ranges(source: Unpacker, into: dict[int, Ranges]) -> None:
    while source.left:
        ledger, count = source.varint(), source.varint()
        bounds = source.ascending(2 * count)
        into[ledger] = Ranges.of(bounds[0::2], [bound - 1 for bound in bounds[1::2]])


def _decode_bits(source: Unpacker, into: dict[int, dict[int, tuple[int, int]]]) -> None:
    while source.left:
        ledger, count = source.varint(), source.varint()
        entries, sizes = source.ascending(count), source.numbers(count)
        into[ledger] = {}
        for entry, size in zip(entries, sizes, strict=True):
            mask = int.from_bytes(source.take((size + 7) // 8), "little")
            if not 0 < mask < 1 << size:
                raise Corrupt(
                    "acknowledgements inside a batch exceed the size of the batch",
                    ledger=ledger,
                    entry=entry,
                    size=size,
                )
            into[ledger][entry] = (mask, size)


def _decode_counts(source: Unpacker, into: dict[int, dict[int, int]]) -> None:
    while source.left:
        ledger, count = source.varint(), source.varint()
        entries, counts = source.ascending(count), source.numbers(count)
        into[ledger] = dict(zip(entries, counts, strict=True))
