"""Hostile bytes for what a broker reads back of its own: snapshot entries, acknowledgements, records.

Bytes that lie are `Corrupt`, those of a newer node `Refused`, and nothing else may come out; whatever is accepted must
come back equal from its own inverse and may never claim an acknowledgement of an entry that the chain does not hold.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from magnetar.base.errors import Corrupt, Refused
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.ledger.chain import Chain, LedgerSpan
from magnetar.ledger.cursor.acks import Acks
from magnetar.ledger.cut_points import CutPoints, CutRequest
from magnetar.ledger.orphans import named_ledgers
from magnetar.ledger.record import LedgerRecord, decode_record
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.snapshot_codec import sections
from magnetar.ledger.snapshots import newest, split, unseal
from magnetar.metadata.store import MetadataStore

T = TypeVar("T")

GOOD = b"the last snapshot that was whole"


class Entries:
    """A sealed ledger that never waits."""

    ledger = 1
    sealed = True

    def __init__(self, entries: list[bytes]) -> None:
        self._entries = entries
        self.last_entry = len(entries) - 1
        self.length = sum(map(len, entries))

    async def read(self, first: int, last: int, bytes_max: int) -> Run:
        return run_of(self._entries[first : first + 1])

    async def count(self, first: int, last: int) -> tuple[int, int]:
        return last - first + 1, sum(map(len, self._entries[first : last + 1]))

    async def cuts(self, first: int, last: int, want: CutRequest) -> CutPoints:
        raise AssertionError("snapshots are not measured")

    def at_once(self, first: int, last: int, cuts_max: int) -> None:
        raise AssertionError("snapshots are not measured")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("it waited")


def a_chain() -> Chain:
    return Chain([LedgerSpan(2, 40), LedgerSpan(5, 0), LedgerSpan(6, 300), LedgerSpan(9, 7)])


def snapshot_files(data: bytes) -> None:
    """Any entries behind a good snapshot: the good one is found, or a later one that is whole."""
    tail = [data[at : at + 64] for at in range(0, len(data), 64)] if len(data) % 2 else [data]
    whole = set()
    for entry in tail:
        with suppress(Corrupt, Refused):
            part, parts, sequence, payload = unseal(entry)
            assert split(payload, sequence)[0] == entry or parts > 1
            whole.add((part, parts, sequence))
    with suppress(Refused):
        found = at_once(newest(Entries([*split(GOOD, 7), *tail])))
        assert found is not None
        assert found == (GOOD, 7) or any(sequence == found[1] for _, _, sequence in whole)


def acknowledgements(data: bytes) -> None:
    """The state of a cursor, as bytes and inside a snapshot entry."""
    chain = a_chain()
    try:
        acks = Acks.decode(data, chain)
    except (Corrupt, Refused):
        return
    assert acks.mark == chain.at_or_before(acks.mark)
    again = Acks.decode(acks.encode(), chain)
    assert again.encode() == acks.encode()
    assert (again.mark, again.acked, again.holes, again.backlog) == (acks.mark, acks.acked, acks.holes, acks.backlog)
    entries = [Position(link.ledger, entry) for link in chain.links for entry in range(link.entries)]
    left = [position for position in entries if not acks.is_acked(position)]
    assert len(left) == acks.backlog
    assert acks.next_unacked(BEFORE_ALL) == (left[0] if left else chain.end)
    chain.grow(3, 0, 3)
    assert not any(acks.is_acked(Position(9, entry)) for entry in (7, 8, 9))


def records(data: bytes) -> None:
    """What stands in the metadata: the chain of a topic, the pointer of a cursor."""
    with suppress(Corrupt, Refused):
        decode_record("/a", data, 1)
    named_ledgers("/a", data)
    store: Any = None
    metadata: MetadataStore = store
    book = LedgerRecord("/a", metadata, "me")
    try:
        book._read(data)
    except (Corrupt, Refused):
        return
    assert named_ledgers("/a", data) == {link.ledger for link in book.chain.links} or b"snapshot" in data


def acknowledgement_seeds() -> list[bytes]:
    acks = Acks(a_chain(), BEFORE_ALL)
    seeds = [acks.encode()]
    for entry in range(10):
        acks.ack(Position(2, entry))
    for entry in range(1, 300, 3):
        acks.ack(Position(6, entry))
    seeds.append(acks.encode())
    acks.ack_bits(Position(6, 0), [0b101, -1], 100)
    acks.redelivered([Position(2, 30), Position(9, 1), Position(9, 1)])
    seeds.append(acks.encode())
    seeds.append(acks.encode() + sections([(77, b"of tomorrow")]))
    return seeds


def snapshot_seeds() -> list[bytes]:
    return [*split(b"one", 8), *split(b"", 9), b"".join(split(bytes(100), 8, 40)), split(bytes(100), 8, 40)[1]]


def record_seeds() -> list[bytes]:
    return [
        b'{"v":1,"by":"x","ledgers":[{"id":1,"entries":3,"bytes":9,"messages":3,"closed_ms":5},{"id":4}],"floor":[0,9]}',
        b'{"v":1,"terminated":[4,-1],"properties":{"a":"b"},"deleting":true}',
        b'{"v":1,"kind":"cursor","name":"s","mark":[1,2],"snapshot":{"ledger":7}}',
    ]
