"""The bytes of a record: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.local.records import (
    ENTRY_BYTES,
    HEADER_BYTES,
    KIND_END,
    KIND_RUN,
    decode,
    encode,
    encode_end,
    size_of,
    sound,
    tables,
)
from magnetar.ledger.run import Run, run_of

STAMP = 0x1_DEAD_BEEF
A_RUN = run_of([b"one", b"", b"three"], [1, 5, 2])


def record(run: Run = A_RUN, *, stamp: int = STAMP, ledger: int = 7, first: int = 40) -> bytes:
    return b"".join(encode(stamp, ledger, first, 3, 128, run))


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=20), st.data())
def test_any_slice_of_any_run_comes_back_as_it_was(entries: list[bytes], data: st.DataObject) -> None:
    whole = run_of(entries, [n % 4 for n in range(len(entries))])
    start = data.draw(st.integers(0, len(entries) - 1))
    run = whole.slice(start, data.draw(st.integers(start + 1, len(entries))))
    at = data.draw(st.integers(0, 9))
    buffer = b"x" * at + record(run) + b"after"
    found = decode(buffer, at, STAMP)
    assert found is not None
    assert sound(buffer, at, found)
    assert (found.ledger, found.first, found.epoch, found.kind, found.synced) == (7, 40, 3, KIND_RUN, 128)
    assert (found.entries, found.messages) == (len(run), run.messages)
    assert found.size == size_of(len(run), found.body) == len(buffer) - at - len(b"after")
    ends, counts = tables(buffer, at, found)
    assert counts == run.counts
    start = at + HEADER_BYTES + ENTRY_BYTES * found.entries
    cuts = [0, *ends]
    assert [buffer[start + a : start + b] for a, b in zip(cuts, ends, strict=False)] == [
        run.entry(n) for n in range(len(run))
    ]


def test_body_is_not_copied_when_it_is_whole() -> None:
    assert encode(STAMP, 7, 40, 3, 128, A_RUN)[1] is A_RUN.body


def test_every_flipped_bit_is_noticed() -> None:
    good = record()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        found = decode(bytes(bad), 0, STAMP)
        assert found is None or not sound(bytes(bad), 0, found)


def test_damaged_body_still_says_whose_it_was() -> None:
    bad = bytearray(record())
    bad[-1] ^= 1
    found = decode(bytes(bad), 0, STAMP)
    assert found is not None
    assert (found.ledger, found.first, found.entries) == (7, 40, 3)
    assert not sound(bytes(bad), 0, found)


def test_record_of_another_stamp_or_cut_short_is_none() -> None:
    good = record()
    assert decode(good, 0, STAMP + 1) is None
    assert decode(good[: HEADER_BYTES - 1], 0, STAMP) is None
    assert decode(b"", 0, STAMP) is None
    assert decode(bytes(200), 0, 0) is None
    found = decode(good, 0, STAMP)
    assert found is not None
    assert not sound(good[:-1], 0, found)


def test_end_is_record_of_its_own() -> None:
    end = encode_end(STAMP, 999)
    found = decode(end, 0, STAMP)
    assert found is not None
    assert (found.kind, found.synced, found.size, len(end)) == (KIND_END, 999, HEADER_BYTES, HEADER_BYTES)
    assert sound(end, 0, found)
