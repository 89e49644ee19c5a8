"""The store's limits against the settings: a default is lowered, a value that was set stops the start."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidRange, Misuse
from magnetar.base.limits import FRAME_PADDING_BYTES, MESSAGE_BYTES_MAX
from magnetar.broker.store_limits import check_copies, size_limits
from magnetar.broker.topics.settings import quorum, topic_settings
from magnetar.ledger.store import Quorum
from magnetar.policy.policies import Persistence, Policies
from magnetar.policy.settings import Settings
from simulation.stores.ledgers import MemoryLedgers


def a_store(entry_bytes_max: int = 1 << 30, copies_max: int = 1) -> MemoryLedgers:
    store = MemoryLedgers()
    store.entry_bytes_max, store.copies_max = entry_bytes_max, copies_max
    return store


def test_large_store_leaves_setting_and_padding() -> None:
    assert size_limits(Settings(None, {"maxMessageSize": "1000"}), a_store()) == (1000, 1000 + FRAME_PADDING_BYTES)


def test_default_is_lowered_so_that_every_frame_fits() -> None:
    limits = size_limits(Settings(), a_store(5_242_880 - 90))
    assert limits == (5_242_880 - 90 - 9 * 1024, 5_242_880 - 90)


def test_bookies_of_pulsar_take_default_message_size() -> None:
    limits = size_limits(Settings(), a_store(5_253_120 - 90))
    assert limits == (MESSAGE_BYTES_MAX, 5_253_120 - 90)


def test_message_size_beyond_store_is_refused_at_start() -> None:
    with pytest.raises(Misuse, match="takes messages of at most 784 bytes"):
        size_limits(Settings({"maxMessageSize": "2000"}), a_store(10_000))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, None),
        ({"Ensemble": 3}, Quorum(3, 2, 2)),
        ({"Ensemble": 1}, Quorum(1, 1, 1)),
        ({"Write": 3}, Quorum(3, 3, 2)),
        ({"Ack": 3}, Quorum(3, 3, 3)),
        ({"Ensemble": 5, "Write": 3, "Ack": 1}, Quorum(5, 3, 1)),
    ],
)
def test_unset_numbers_follow_set_ones(numbers: dict[str, int], expected: Quorum | None) -> None:
    keys = {"Ensemble": "EnsembleSize", "Write": "WriteQuorum", "Ack": "AckQuorum"}
    settings = Settings({f"managedLedgerDefault{keys[name]}": str(number) for name, number in numbers.items()})
    assert quorum(settings) == expected


def test_settings_that_contradict_each_other_are_refused() -> None:
    settings = Settings({"managedLedgerDefaultEnsembleSize": "1", "managedLedgerDefaultWriteQuorum": "2"})
    with pytest.raises(InvalidRange, match="got ensemble 1, write quorum 2"):
        check_copies(settings, a_store(copies_max=3))


def test_one_copy_is_reported_where_settings_ask_for_two(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings({"managedLedgerDefaultEnsembleSize": "2"})
    check_copies(settings, a_store(copies_max=3))
    assert caplog.text == ""
    check_copies(settings, a_store())
    assert "quorum_not_kept" in caplog.text


def test_policy_of_namespace_wins_over_settings() -> None:
    settings = Settings({"managedLedgerDefaultEnsembleSize": "3"})
    policies = Policies(persistence=Persistence(4, 3, 2))
    assert topic_settings(settings, policies).quorum == Quorum(4, 3, 2)
    assert topic_settings(settings, Policies()).quorum == Quorum(3, 2, 2)
    assert topic_settings(Settings(), Policies()).quorum is None


def test_stored_policy_that_contradicts_itself_is_ignored() -> None:
    """Pulsar checks the policy, so only a damaged or edited document holds such numbers."""
    settings = Settings({"managedLedgerDefaultEnsembleSize": "3"})
    assert topic_settings(settings, Policies(persistence=Persistence(1, 2, 3))).quorum == Quorum(3, 2, 2)
