"""Places of one segment compare by where they are, not by what an acknowledgement up to them says."""

from __future__ import annotations

from magnetar.client.consumer.scalable.stream.ack_position import AckPosition, place_of_id
from magnetar.wire.ids import MessageId


def test_places_are_ordered_by_ledger_entry_and_index_alone():
    assert AckPosition(1, 9) < AckPosition(2, 0) < AckPosition(2, 1, 0) < AckPosition(2, 1, 1)
    assert AckPosition(2, 1, 0, size=3, unacked=0b111) == AckPosition(2, 1, 0, size=3, unacked=0b100)


def test_place_goes_to_id_and_back():
    place = AckPosition(5, 6, 1, size=3, unacked=0b111)
    back = place_of_id(place.message_id)
    assert (back, back.size, back.unacked) == (place, 3, 0b111)
    whole = place_of_id(MessageId(5, 6))
    assert (whole.index, whole.size, whole.unacked) == (-1, 0, 0)


def test_surrounding_chunks_travel_in_id_and_are_no_acknowledgement():
    place = AckPosition(5, 6, around=(4, 9))
    assert place_of_id(MessageId.from_bytes(place.message_id.to_bytes())).around == (4, 9)
    assert place_of_id(MessageId(5, 6, first_chunk=MessageId(5, 4))).around is None
    assert place == AckPosition(5, 6)
