"""Which names are near one that is not there."""

from __future__ import annotations

import pytest

from magnetar.cli.help.suggestions import Subject, alike, alike_options, instead


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("ordrs", ["orders"]), ("Orders", ["orders"]), ("payment", ["payments"]), ("zebra", []), ("orders", [])],
)
def test_near_names_are_found_and_far_ones_are_not(wanted: str, found: list[str]) -> None:
    assert alike(wanted, ["orders", "payments", "audit"]) == found


@pytest.mark.parametrize(("wanted", "near"), [("--tokn", ["--token"]), ("--broker", []), ("-output", ["--output"])])
def test_options_are_compared_without_their_dashes(wanted: str, near: list[str]) -> None:
    assert alike_options(wanted, ["--token", "--url", "--output"]) == near


@pytest.mark.parametrize(
    ("wanted", "found", "run"),
    [
        ("topic://public/default/orders", "orders", "magnetar topic migrate orders --dry-run, "),
        ("topic://a/b/orders", "persistent://a/b/orders", "magnetar topic migrate persistent://a/b/orders --dry-run, "),
        ("topic://public/default/ordrs", "orders", "the same command with orders"),
        ("topic://public/default/ordrs", "topic://public/default/orders", "the same command with topic://"),
        ("persistent://public/default/orders", "topic://public/default/orders", "the same command with topic://"),
        ("topic://public/nope/orders", "public/default", "the same command with public/default"),
        (None, "orders", "the same command with orders"),
    ],
)
def test_plain_topic_named_as_scalable_is_no_suggestion(wanted: str | None, found: str, run: str) -> None:
    assert instead(Subject(topic=wanted), [found]).startswith(run)


def test_subscription_of_plain_topic_is_shown_instead_of_migrated() -> None:
    subject = Subject(topic="topic://public/default/orders", subscription="billing")
    assert instead(subject, ["orders"]).startswith("magnetar subscription show orders billing")
