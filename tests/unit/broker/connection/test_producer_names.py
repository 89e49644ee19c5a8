"""Generated names of exclusive producers: the same for the segments of a topic, and within the account of all."""

from __future__ import annotations

from magnetar.base.limits import CONNECTION_PRODUCER_NAMES_BYTES_MAX, CONNECTION_PRODUCER_NAMES_MAX, NAME_BYTES_MAX
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.connection.producer_names import ProducerNames
from magnetar.broker.connection.property_limits import Account


def a_segment(topic: str, number: int = 0) -> TopicName:
    return topic_name(f"segment://public/default/{topic}/0000-ffff-{number}")


def names_of(account: Account) -> ProducerNames:
    numbers = iter(range(10_000))
    return ProducerNames(lambda: f"generated-{next(numbers)}", account)


def test_segments_of_topic_share_one_name() -> None:
    names = names_of(Account())
    first = names.reserve(a_segment("t", 0), set())
    assert names.reserve(a_segment("t", 1), set()) == first
    assert names.reserve(a_segment("t", 0), set()) != first


def test_long_names_of_one_topic_stay_within_bytes() -> None:
    """A client may send each of them: 1,000 names of 1,000 topics were a gigabyte."""
    account = Account()
    names = names_of(account)
    for number in range(2_000):
        names.remember(a_segment("t"), f"{number:0{NAME_BYTES_MAX}}")
    assert 0 < names.bytes <= CONNECTION_PRODUCER_NAMES_BYTES_MAX
    assert account.bytes == names.bytes


def test_names_of_many_topics_forget_oldest_within_bytes() -> None:
    account = Account()
    names = names_of(account)
    for number in range(CONNECTION_PRODUCER_NAMES_MAX + 10):
        names.remember(a_segment(f"t{number}"), f"{number:0{NAME_BYTES_MAX}}")
    assert account.bytes == names.bytes <= CONNECTION_PRODUCER_NAMES_BYTES_MAX
    last = a_segment(f"t{CONNECTION_PRODUCER_NAMES_MAX + 9}")
    assert names.reserve(last, set()).endswith(str(CONNECTION_PRODUCER_NAMES_MAX + 9))
    names.clear()
    assert account.bytes == 0


def test_full_account_keeps_newest_name_only() -> None:
    account = Account(bytes_max=10)
    names = names_of(account)
    for topic in ("a", "b"):
        names.reserve(a_segment(topic), set())
    assert names.bytes < 500
    assert names.reserve(a_segment("b", 1), set()) == "generated-1"


def test_attachment_ending_after_connection_charges_nothing() -> None:
    account = Account()
    names = names_of(account)
    names.reserve(a_segment("t"), set())
    names.clear()
    names.reserve(a_segment("t"), set())
    names.remember(a_segment("u"), "late")
    assert (names.bytes, account.bytes) == (0, 0)
