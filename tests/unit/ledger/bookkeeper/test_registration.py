"""Registrations of bookies and the racks that Pulsar's record gives them."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import Corrupt
from magnetar.ledger.bookkeeper.registration import Address, address_of, address_of_id, racks_of, registration


def test_registered_address_is_read() -> None:
    assert address_of("bookie-7", registration("bookie-7", Address("10.0.0.7", 3181))) == Address("10.0.0.7", 3181)


def test_id_is_address_without_value() -> None:
    assert address_of("10.0.0.7:3181", b"") == Address("10.0.0.7", 3181)
    assert address_of_id("[::1]:3181") == Address("::1", 3181)


@pytest.mark.parametrize("bookie", ["bookie-7", "host:", ":3181", "host:0", "host:65536", "host:x1"])
def test_id_that_is_no_address_is_refused(bookie: str) -> None:
    with pytest.raises(Corrupt):
        address_of(bookie, b"")


def test_damaged_registration_is_refused() -> None:
    with pytest.raises(Corrupt, match="damaged"):
        address_of("10.0.0.7:3181", b"\x32\xff")


def test_racks_of_all_groups_are_read() -> None:
    record = {"a": {"b1:1": {"rack": "/r1"}, "b2:1": {"rack": "/r2"}}, "b": {"b3:1": {"rack": "/r1"}, "b4:1": {}}}
    assert racks_of(json.dumps(record).encode()) == {"b1:1": "/r1", "b2:1": "/r2", "b3:1": "/r1"}


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"a": 1}', b'{"a": {"b": []}}', b'{"a": {"b": {"rack": 3}}}'])
def test_unreadable_racks_are_none(value: bytes) -> None:
    assert racks_of(value) == {}
