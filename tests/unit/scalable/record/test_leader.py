"""The bytes in the lock of a scalable topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Corrupt
from magnetar.cluster.ownership import Broker, Urls
from magnetar.scalable.record.leader import decode_leader, encode_leader


def test_leader_record_round_trips_with_all_addresses() -> None:
    broker = Broker("host:8080", Urls("pulsar://host:1", "pulsar+ssl://host:2", "http://host:3", "https://host:4"))
    assert decode_leader(encode_leader(broker)) == broker
    listening = replace(
        broker, listeners={"outside": Urls("pulsar://outside:1"), "inside": Urls("", "pulsar+ssl://in:2")}
    )
    assert decode_leader(encode_leader(listening)) == listening
    assert decode_leader(b'{"v":2,"brokerId":"b","new":1}') == Broker("b", Urls())


@pytest.mark.parametrize("data", [b"", b"null", b'"host:8080"', b"{}", b"\xff"])
def test_what_is_no_leader_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_leader(data)
