"""Room for a read follows what reads bring back."""

from __future__ import annotations

import pytest

from magnetar.base.limits import CLIENT_READ_BYTES_LARGE, CLIENT_READ_BYTES_SMALL
from magnetar.client.connection.read_buffer import ReadBufferSizer
from tests.unit.client.world import a_broker, a_lookup


class Transport:
    max_size = 256 * 1024


def test_buffer_grows_with_full_reads_and_shrinks_with_small_ones():
    transport = Transport()
    room = ReadBufferSizer(transport)
    seen = [transport.max_size]
    for size in (100, CLIENT_READ_BYTES_SMALL, CLIENT_READ_BYTES_SMALL, CLIENT_READ_BYTES_LARGE, 100):
        room.took(size)
        seen.append(transport.max_size)
    small, large = CLIENT_READ_BYTES_SMALL, CLIENT_READ_BYTES_LARGE
    assert seen == [small, small, large, large, large, small]


def test_transport_with_its_own_ways_is_left_alone():
    transport = object()
    room = ReadBufferSizer(transport)
    room.took(0)
    room.took(CLIENT_READ_BYTES_SMALL)
    assert room.size == 0


@pytest.mark.real_clock
async def test_connection_begins_with_little_room() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        assert (await lookup.service())._room.size == CLIENT_READ_BYTES_SMALL
