"""The record of stored messages of a topic: the highest sequence id of each producer, by range of key hashes.

Each producer has two marks: pushed (given to the ledger) and persisted (known to be stored). A message at or below
persisted is a duplicate, and gets a receipt without a position. If it is between the two, its outcome is unknown; above
both, it is new. A plain topic has a single range. A topic that was made by a split or a merge has a map of ranges
(H-E4), because after a merge the halves have different marks and the maximum would drop good messages. This class
stores nothing and has no clock: `snapshot` returns bytes, `load` and `replay` restore them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from itertools import islice, pairwise
from operator import lt
from sys import getsizeof

from magnetar.base.errors import Misuse
from magnetar.base.ids import Position
from magnetar.base.limits import DEDUP_PRODUCER_BYTES, DEDUP_PRODUCERS_MAX, DEDUP_SPAN_MAX
from magnetar.base.ranges import FULL, HashRange
from magnetar.topic.dedup import codec

Mark = tuple[int, int, int]  # first hash, last hash, highest sequence id (-1: none)


class Verdict(Enum):
    NEW = auto()
    DUPLICATE = auto()  # stored: receipt with ledger and entry -1
    UNSURE = auto()  # may be stored, or partly is: PersistenceError, the client asks again


class KeylessSpread:
    """How a producer spreads messages without a key over the segments: by its sequence ids. `hash_of` gives the hash of
    one, None if it belongs to another segment; `counts` are the messages of each entry of a run."""

    __slots__ = ("_counts", "hash_of")

    def __init__(self, hash_of: Callable[[int], int | None], counts: Sequence[int]) -> None:
        self.hash_of = hash_of
        self._counts = counts

    def numbers(self, span: range, entry: int) -> list[tuple[int, int]] | None:
        """The numbers of a span that belong to this segment, each with its hash; None: the entry has others too."""
        count = self._counts[entry]
        if not count <= len(span) <= DEDUP_SPAN_MAX:
            return None
        pairs = [(sequence, hash) for sequence in span if (hash := self.hash_of(sequence)) is not None]
        return pairs if len(pairs) == count else None


class _Marks:
    """Of one producer. Item i of `pushed` and `persisted` belongs to item i of `ranges`."""

    __slots__ = ("persisted", "pushed", "ranges")

    def __init__(self, ranges: list[tuple[int, int]], persisted: list[int]) -> None:
        self.ranges = ranges
        self.persisted = persisted
        self.pushed = list(persisted)

    def at(self, key_hash: int | None) -> int:
        """The index of the range that a hash belongs to."""
        if len(self.ranges) == 1:
            return 0
        if key_hash is None:
            raise Misuse("the hash of the key must be given: the topic has several hash ranges")
        for index, (start, end) in enumerate(self.ranges):
            if start <= key_hash <= end:
                return index
        raise Misuse("the hash of the key must be in the range of the topic", key_hash=key_hash)

    def places(self, key_hash: int | None) -> Sequence[int]:
        """Where an entry counts: in the range of its key, or in all where a batch hides its keys."""
        return range(len(self.ranges)) if key_hash is None else (self.at(key_hash),)

    def verdict(self, first: int, highest: int, key_hash: int | None, pushed: Sequence[int]) -> Verdict:
        """Hidden keys: a duplicate only if it is one in every range. Storing it twice is bad, losing it is worse."""
        at = self.places(key_hash)
        return _verdict(first, highest, min(pushed[i] for i in at), min(self.persisted[i] for i in at))

    def spread_verdict(self, span: range, spread: KeylessSpread, entry: int, pushed: Sequence[int]) -> Verdict:
        """On a batch without keys: its numbers are all of the span that belong to this topic, if they are as many as
        its messages. Where some are stored and others are not, it is stored: twice is bad, losing it is worse."""
        numbers = spread.numbers(span, entry)
        if numbers is None:
            return self.verdict(span.start, span.stop - 1, None, pushed)
        verdicts = set()
        for sequence, key_hash in numbers:
            at = self.at(key_hash)
            verdicts.add(_verdict(sequence, sequence, pushed[at], self.persisted[at]))
        if Verdict.UNSURE in verdicts:
            return Verdict.UNSURE
        return Verdict.NEW if Verdict.NEW in verdicts else Verdict.DUPLICATE

    def marks(self) -> list[Mark]:
        return [(start, end, mark) for (start, end), mark in zip(self.ranges, self.persisted, strict=True)]


class Dedup:
    """The map of one topic. Producers that never `detached` count as connected and are only forgotten to keep the
    bound.
    """

    def __init__(self, hash_range: HashRange = FULL, producers_max: int = DEDUP_PRODUCERS_MAX) -> None:
        self.range = hash_range
        self.bytes = 0  # an estimate of the memory of the map
        self.evicted = 0  # producers forgotten to keep the bound: each may now repeat itself unnoticed
        self._producers_max = producers_max
        self._producers: dict[str, _Marks] = {}  # least recently used first
        self._idle: dict[str, int] = {}  # detached producers -> since when, oldest first

    @property
    def producers(self) -> int:
        """How many are remembered."""
        return len(self._producers)

    def highest(self, producer: str) -> int:
        """The highest sequence id stored, over all ranges; -1 if nothing is known."""
        marks = self._producers.get(producer)
        return max(marks.persisted) if marks is not None else -1

    def check(
        self,
        producer: str,
        first_seq: int,
        highest_seq: int,
        is_last_chunk: bool = True,
        *,
        key_hash: int | None = None,
    ) -> Verdict:
        """The verdict on one entry with the messages `first_seq` to `highest_seq`. A chunk that is not the
        last of its message is always new: only the last one's id counts.
        """
        marks = self._producers.get(producer)
        if marks is None or not is_last_chunk:
            return Verdict.NEW
        return marks.verdict(first_seq, highest_seq, key_hash, marks.pushed)

    def ranged(self, producer: str) -> bool:
        """True if ranges of hashes have different marks: then the key of an entry decides which mark applies."""
        marks = self._producers.get(producer)
        return marks is not None and len(marks.ranges) > 1

    def check_run(
        self,
        producer: str,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        last_chunks: Sequence[bool] | None = None,
        *,
        key_hashes: Sequence[int | None] | None = None,
        spread: KeylessSpread | None = None,
    ) -> list[Verdict] | None:
        """Verdicts on consecutive entries, each seeing those before it as pushed; None if all are new. `last_chunks`
        is None if no entry is a chunk; else False stands for a chunk that is not the last of its message. `spread`:
        the producer spreads messages without a key by their sequence ids, so the ids divide a batch into its parts.
        """
        marks = self._producers.get(producer)
        single_range = marks is None or len(marks.ranges) == 1
        if (
            last_chunks is None
            and single_range
            and _ascends(sequence_ids, highest_ids, marks.pushed[0] if marks is not None else -1)
        ):
            return None
        if marks is None:
            marks = _Marks([(self.range.start, self.range.end)], [-1])
        pushed = list(marks.pushed)
        verdicts: list[Verdict] = []
        for i, first in enumerate(sequence_ids):
            if last_chunks is not None and not last_chunks[i]:
                verdicts.append(Verdict.NEW)
                continue
            key_hash = key_hashes[i] if key_hashes is not None else None
            if key_hash is None and spread is not None and len(marks.ranges) > 1:
                verdict = marks.spread_verdict(range(first, highest_ids[i] + 1), spread, i, pushed)
            else:
                verdict = marks.verdict(first, highest_ids[i], key_hash, pushed)
            if verdict is Verdict.NEW:
                for at in marks.places(key_hash):
                    pushed[at] = max(pushed[at], highest_ids[i])
            verdicts.append(verdict)
        return None if all(verdict is Verdict.NEW for verdict in verdicts) else verdicts

    def pushed(self, producer: str, highest: int, *, key_hash: int | None = None) -> None:
        """Given to the ledger, up to this id. A negative one (`recorded` of mere chunks) changes nothing."""
        if highest < 0:
            return
        marks = self._producers.pop(producer, None) or self._new(producer)
        self._producers[producer] = marks
        for index in marks.places(key_hash):
            if highest > marks.pushed[index]:
                marks.pushed[index] = highest

    def persisted(self, producer: str, highest: int, *, key_hash: int | None = None) -> None:
        """Stored, up to this id."""
        if highest < 0:
            return
        marks = self._producers.get(producer)
        if marks is None:  # forgotten while it was in flight
            marks = self._producers[producer] = self._new(producer)
        for index in marks.places(key_hash):
            if highest > marks.persisted[index]:
                marks.persisted[index] = highest
                if highest > marks.pushed[index]:
                    marks.pushed[index] = highest

    def failed(self, producer: str) -> None:
        """Nothing that is pushed will be stored any more: all of it may be sent again."""
        marks = self._producers.get(producer)
        if marks is not None:
            marks.pushed = list(marks.persisted)

    def replay(self, producer: str, sequence: int, *, key_hash: int | None = None) -> None:
        """An entry found in the ledger behind the snapshot. Chunks that are not the last are not replayed."""
        self.persisted(producer, sequence, key_hash=key_hash)

    def attached(self, producer: str) -> None:
        """The producer is connected: its marks never expire."""
        self._idle.pop(producer, None)

    def detached(self, producer: str, now_ms: int) -> None:
        if producer in self._producers:
            self._idle.pop(producer, None)
            self._idle[producer] = now_ms

    def forget(self, inactive_before_ms: int) -> list[str]:
        """Drop producers detached before then; their names."""
        gone = [producer for producer, since in self._idle.items() if since < inactive_before_ms]
        for producer in gone:
            del self._idle[producer]
            self.bytes -= _bytes_of(producer, self._producers.pop(producer))
        return gone

    def restrict(self, hash_range: HashRange) -> Dedup:
        """The initial state of a child with this range."""
        child = Dedup(hash_range, self._producers_max)
        for producer, marks in self._producers.items():
            child._put(producer, cut(marks.marks(), hash_range))
        child._idle = {producer: since for producer, since in self._idle.items() if producer in child._producers}
        return child

    def unite(self, others: Iterable[Dedup]) -> Dedup:
        """The initial state of a child of this and of `others`: each range keeps its own mark. Several parents may have
        had the same keys (partitions that are migrated), and no record says which parent has which. Then the child
        knows only the messages that all parents have stored, because a higher mark would drop a message that one of
        them lacks. A producer is idle if it is idle in all parents.
        """
        parents = [self, *others]
        hull = HashRange(min(p.range.start for p in parents), max(p.range.end for p in parents))
        child = Dedup(hull, self._producers_max)
        names = dict.fromkeys(name for parent in parents for name in parent._producers)
        for name in names:
            holders = [parent for parent in parents if name in parent._producers]
            child._put(name, overlay(_lowest([_tiled(parent, name) for parent in parents]), hull))
            if name in child._producers and all(name in parent._idle for parent in holders):
                child._idle[name] = max(parent._idle[name] for parent in holders)
        child._idle = dict(sorted(child._idle.items(), key=lambda item: item[1]))
        return child

    def marks(self) -> dict[str, list[tuple[HashRange, int]]]:
        """The stored sequence ids in the form of a seal, by producer and range."""
        return {
            producer: [(HashRange(start, end), mark) for start, end, mark in marks.marks()]
            for producer, marks in self._producers.items()
        }

    def snapshot(self, position: Position) -> bytes:
        """The stored sequence ids, for a reader that replays the entries behind `position`."""
        idle = self._idle
        rows = [(producer, idle.get(producer), marks.marks()) for producer, marks in self._producers.items()]
        return codec.encode(position, self.range, rows)

    def load(self, data: bytes, now_ms: int) -> Position:
        """Take over a snapshot: where to replay from. Who was connected then is idle since now, until it comes back."""
        position, self.range, rows = codec.decode(data)
        self._producers.clear()
        self._idle.clear()
        self.bytes = 0
        for producer, since, marks in rows:
            self._put(producer, marks)
            self._idle[producer] = since if since is not None else now_ms
        self._idle = dict(sorted(self._idle.items(), key=lambda item: item[1]))
        self._shrink()
        return position

    def _put(self, producer: str, marks: list[Mark]) -> None:
        if any(mark >= 0 for _, _, mark in marks):
            kept = _Marks([(start, end) for start, end, _ in marks], [mark for _, _, mark in marks])
            before = self._producers.get(producer)
            self.bytes += _bytes_of(producer, kept) - (0 if before is None else _bytes_of(producer, before))
            self._producers[producer] = kept

    def _new(self, producer: str) -> _Marks:
        while len(self._producers) >= self._producers_max:
            self._evict()
        marks = _Marks([(self.range.start, self.range.end)], [-1])
        self.bytes += _bytes_of(producer, marks)
        return marks

    def _shrink(self) -> None:
        while len(self._producers) > self._producers_max:
            self._evict()

    def _evict(self) -> None:
        """The longest detached one, or if all are connected the one that has been silent longest."""
        victim = next(iter(self._idle or self._producers))
        self._idle.pop(victim, None)
        self.bytes -= _bytes_of(victim, self._producers.pop(victim))
        self.evicted += 1


def _bytes_of(producer: str, marks: _Marks) -> int:
    return getsizeof(producer) + DEDUP_PRODUCER_BYTES * len(marks.ranges)


def recorded(highest_ids: Sequence[int], last_chunks: Sequence[bool] | None = None) -> int:
    """The id that storing these new entries makes known: the highest of those that are not chunks in the middle of a
    message; -1 if none.
    """
    if last_chunks is None:
        return highest_ids[-1]
    return max((highest for highest, last in zip(highest_ids, last_chunks, strict=True) if last), default=-1)


def cut(marks: Sequence[Mark], hash_range: HashRange) -> list[Mark]:
    """The part of `marks` inside a range."""
    first, last = hash_range.start, hash_range.end
    inside = [(max(s, first), min(e, last), m) for s, e, m in marks if s <= last and e >= first]
    return overlay(inside, hash_range)


def overlay(marks: Sequence[Mark], hash_range: HashRange) -> list[Mark]:
    """Marks that tile the range exactly: the highest where several lie, -1 where none does, neighbours of one value
    joined.
    """
    first, last = hash_range.start, hash_range.end
    edges = sorted({first, last + 1, *(s for s, _, _ in marks), *(e + 1 for _, e, _ in marks)})
    tiled: list[Mark] = []
    for start, after in pairwise(edges):
        if start < first or after > last + 1:
            continue
        mark = max((m for s, e, m in marks if s <= start and e >= after - 1), default=-1)
        if tiled and tiled[-1][2] == mark:
            tiled[-1] = (tiled[-1][0], after - 1, mark)
        else:
            tiled.append((start, after - 1, mark))
    return tiled


def _tiled(parent: Dedup, producer: str) -> list[Mark]:
    """The whole range of a parent, -1 where the producer has stored nothing."""
    marks = parent._producers.get(producer)
    return overlay([] if marks is None else marks.marks(), parent.range)


def _lowest(tiled: Sequence[Sequence[Mark]]) -> list[Mark]:
    """What all have that cover the same."""
    edges = sorted({edge for marks in tiled for start, end, _ in marks for edge in (start, end + 1)})
    lowest: list[Mark] = []
    for start, after in pairwise(edges):
        covering = [m for marks in tiled for s, e, m in marks if s <= start <= e]
        if covering:
            lowest.append((start, after - 1, min(covering)))
    return lowest


def _verdict(first: int, highest: int, pushed: int, persisted: int) -> Verdict:
    if first > pushed:
        return Verdict.NEW
    # A batch that is stored in part is neither new nor a duplicate: dropping it would lose its tail without a word.
    return Verdict.DUPLICATE if highest <= persisted else Verdict.UNSURE


def _ascends(sequence_ids: Sequence[int], highest_ids: Sequence[int], above: int) -> bool:
    """Whether every entry lies wholly above the one before it, and the first above a mark."""
    if not sequence_ids or sequence_ids[0] <= above:
        return not sequence_ids
    return len(sequence_ids) == 1 or all(map(lt, highest_ids, islice(sequence_ids, 1, None)))
