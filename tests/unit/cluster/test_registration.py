"""What brokers say of themselves: Pulsar's fields, the same bytes every time."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.base.errors import Misuse
from magnetar.cluster.ownership import Broker, Urls, advertised
from magnetar.cluster.registration import (
    Process,
    check_advertised,
    member_of,
    member_value,
    owner_of,
    owner_value,
    process_of,
)

BROKER = Broker(
    "broker-1:8080",
    Urls("pulsar://broker-1:6650", "", "http://broker-1:8080"),
    advertised("b:pulsar://b.example:6650, a:pulsar+ssl://a.example:6651"),
)


def test_owner_is_read_as_it_was_written() -> None:
    assert owner_of(owner_value(BROKER)) == BROKER
    assert member_of("broker-1:8080", member_value(BROKER)) == BROKER


def test_bytes_do_not_depend_on_order_of_listeners() -> None:
    again = Broker(BROKER.id, BROKER.urls, dict(reversed(BROKER.listeners.items())))
    assert owner_value(again) == owner_value(BROKER)
    assert member_value(again) == member_value(BROKER)


def test_fields_are_those_of_pulsar() -> None:
    shown = msgspec.json.decode(owner_value(BROKER))
    assert set(shown) == {
        "brokerId",
        "nativeUrl",
        "nativeUrlTls",
        "httpUrl",
        "httpUrlTls",
        "disabled",
        "advertisedListeners",
        "process",
    }
    assert shown["disabled"] is False
    assert shown["nativeUrl"] == "pulsar://broker-1:6650"
    assert set(shown["advertisedListeners"]["a"]) == {
        "brokerServiceUrl",
        "brokerServiceUrlTls",
        "brokerHttpUrl",
        "brokerHttpsUrl",
    }


def test_record_of_another_broker_may_say_more_and_less() -> None:
    value = b'{"nativeUrl":"pulsar://old:6650","httpUrl":"http://old:8080","disabled":false,"load":3}'
    assert owner_of(value) == Broker("old:8080", Urls("pulsar://old:6650", "", "http://old:8080"))


def test_what_is_no_record_is_not_guessed_at() -> None:
    with pytest.raises(msgspec.MsgspecError):
        owner_of(b"\x00")


def test_processes_of_one_address_write_other_bytes() -> None:
    one, other = Process("a", 1_700_000_000_000), Process("b", 1_700_000_000_000)
    assert member_value(BROKER, one) != member_value(BROKER, other)
    assert owner_value(BROKER, one) != owner_value(BROKER, other)
    assert process_of(member_value(BROKER, one)) == one
    assert str(one) == "process a, started 2023-11-14T22:13:20+00:00"
    assert process_of(b"{}") == Process()


@pytest.mark.parametrize(("host", "bind"), [("localhost", "127.0.0.1"), ("LOCALHOST", "::"), ("127.0.0.1", "::")])
def test_address_of_every_machine_is_refused_in_cluster(host: str, bind: str) -> None:
    with pytest.raises(Misuse, match="advertisedAddress must be"):
        check_advertised(host, bind)


def test_loopback_is_accepted_if_broker_listens_there_only() -> None:
    check_advertised("127.0.0.1", "127.0.0.1")
    check_advertised("broker-1", "::")
