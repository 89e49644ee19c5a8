"""The record of a managed ledger: what is read back, what is refused, and that memory follows it."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Corrupt, Refused, Unknown
from magnetar.base.ids import Position
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.record import LedgerRecord, decode_links
from simulation.stores.metadata import MemoryStore, lost_answer

pytestmark = pytest.mark.real_clock

PATH = "/managed-ledgers/t/ns/persistent/topic"


def read(value: bytes) -> LedgerRecord:
    async def body():
        store = MemoryStore()
        await store.put(PATH, value)
        return await LedgerRecord.load(PATH, store, "me", create=False)

    return asyncio.run(body())


def test_record_of_another_program_may_be_empty():
    assert read(b"").chain.links == []


@pytest.mark.parametrize(
    "value",
    [
        b"not json",
        b"[]",
        b'"text"',
        b'{"v":1,"ledgers":5}',
        b'{"v":1,"ledgers":[{"entries":4}]}',
        b'{"v":1,"ledgers":[{"id":2},{"id":1}]}',
        b'{"v":1,"ledgers":[{"id":2,"entries":-4}]}',
        b'{"v":1,"terminated":[1]}',
        b'{"v":1,"properties":[]}',
    ],
)
def test_record_that_cannot_be_read_is_corrupt(value):
    with pytest.raises(Corrupt):
        read(value)


def test_newer_record_is_refused_with_what_to_do():
    with pytest.raises(Refused, match="start a node of the version"):
        read(b'{"v":2}')


async def test_memory_follows_record_and_not_other_way_round():
    store = MemoryStore()
    book = await LedgerRecord.load(PATH, store, "me", create=True)
    store.faults.extend([lost_answer(happened=False)] * 40)
    with pytest.raises(Unknown):
        await book.commit(lambda links: [*links, LedgerSpan(1)], terminated=Position(1, 1), properties={"a": "b"})
    assert (book.chain.links, book.terminated, book.properties) == ([], None, {})


async def test_two_commits_at_once_both_happen():
    store = MemoryStore()
    book = await LedgerRecord.load(PATH, store, "me", create=True)
    await asyncio.gather(
        book.commit(lambda links: [*links, LedgerSpan(1, 5, closed_ms=1)]),
        book.commit(lambda links: [*links, LedgerSpan(2)]),
        book.commit(properties={"a": "b"}),
    )
    again = await LedgerRecord.load(PATH, store, "you", create=False)
    assert [link.ledger for link in again.chain.links] == [1, 2]
    assert again.properties == {"a": "b"}


def test_inspection_without_open_shows_ledgers_unless_topic_is_deleted():
    links = decode_links(
        PATH, b'{"v":1,"ledgers":[{"id":2,"entries":4,"bytes":9,"messages":4,"closed_ms":7},{"id":5}]}'
    )
    assert [(link.ledger, link.entries, link.closed_ms) for link in links] == [(2, 4, 7), (5, 0, 0)]
    assert decode_links(PATH, b"") == []
    assert decode_links(PATH, b'{"v":1,"ledgers":[{"id":2}],"deleting":true}') == []
    with pytest.raises(Corrupt):
        decode_links(PATH, b'{"v":1,"ledgers":[{"entries":4}]}')
