"""What brokers say of themselves: Pulsar's fields, the same bytes every time."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.cluster.ownership import Broker, Urls, advertised
from magnetar.cluster.registration import member_of, member_value, owner_of, owner_value

BROKER = Broker(
    "broker-1:8080",
    Urls("pulsar://broker-1:6650", "", "http://broker-1:8080"),
    advertised("b:pulsar://b.example:6650, a:pulsar+ssl://a.example:6651"),
)


def test_an_owner_is_read_as_it_was_written() -> None:
    assert owner_of(owner_value(BROKER)) == BROKER
    assert member_of("broker-1:8080", member_value(BROKER)) == BROKER


def test_the_bytes_do_not_depend_on_the_order_of_listeners() -> None:
    again = Broker(BROKER.id, BROKER.urls, dict(reversed(BROKER.listeners.items())))
    assert owner_value(again) == owner_value(BROKER)
    assert member_value(again) == member_value(BROKER)


def test_the_fields_are_those_of_pulsar() -> None:
    shown = msgspec.json.decode(owner_value(BROKER))
    assert set(shown) == {
        "brokerId",
        "nativeUrl",
        "nativeUrlTls",
        "httpUrl",
        "httpUrlTls",
        "disabled",
        "advertisedListeners",
    }
    assert shown["disabled"] is False
    assert shown["nativeUrl"] == "pulsar://broker-1:6650"
    assert set(shown["advertisedListeners"]["a"]) == {
        "brokerServiceUrl",
        "brokerServiceUrlTls",
        "brokerHttpUrl",
        "brokerHttpsUrl",
    }


def test_a_record_of_another_broker_may_say_more_and_less() -> None:
    value = b'{"nativeUrl":"pulsar://old:6650","httpUrl":"http://old:8080","disabled":false,"load":3}'
    assert owner_of(value) == Broker("old:8080", Urls("pulsar://old:6650", "", "http://old:8080"))


def test_what_is_no_record_is_not_guessed_at() -> None:
    with pytest.raises(msgspec.MsgspecError):
        owner_of(b"\x00")
