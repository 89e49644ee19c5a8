"""Open batches are found by key and closed in an order that keeps sequence ids growing."""

from __future__ import annotations

from magnetar.base.limits import CLIENT_KEY_BATCHES_MAX
from magnetar.client.producer.fields import MessageFields
from magnetar.client.producer.open_batches import OpenBatches


def keyed(key: str | None, *, ordering: bytes | None = None, sequence: int = -1) -> MessageFields:
    fields = MessageFields()
    fields.key, fields.ordering_key, fields.sequence = key, ordering, sequence
    return fields


def put(gathering: OpenBatches, payload: bytes, fields: MessageFields | None) -> None:
    batch = gathering.find(fields)
    if batch is None:
        batch = gathering.open(fields, 0.0)
    batch.add(payload, fields, None)


def test_one_batch_for_all_keys():
    gathering = OpenBatches(by_key=False)
    for key in ("a", "b", None):
        put(gathering, b"x", keyed(key))
    assert len(gathering) == 3
    (batch,) = gathering.take()
    assert len(batch) == 3
    assert gathering.take() == []


def test_one_batch_for_each_key_and_ordering_key_wins():
    gathering = OpenBatches(by_key=True)
    put(gathering, b"1", keyed("a"))
    put(gathering, b"2", keyed("b"))
    put(gathering, b"3", keyed("a"))
    put(gathering, b"4", keyed("a", ordering=b"o"))
    put(gathering, b"5", None)
    assert [batch.payloads for batch in gathering.take()] == [[b"1", b"3"], [b"2"], [b"4"], [b"5"]]


def test_batches_with_given_ids_are_ordered_by_last_id():
    gathering = OpenBatches(by_key=True)
    put(gathering, b"late", keyed("a", sequence=1))
    put(gathering, b"early", keyed("b", sequence=2))
    put(gathering, b"later", keyed("a", sequence=3))
    put(gathering, b"assigned", keyed("c"))
    assert [batch.payloads[0] for batch in gathering.take()] == [b"early", b"late", b"assigned"]


def test_too_many_keys_are_said():
    gathering = OpenBatches(by_key=True)
    for number in range(CLIENT_KEY_BATCHES_MAX):
        assert not gathering.full
        put(gathering, b"x", keyed(str(number)))
    assert gathering.full
