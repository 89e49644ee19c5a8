"""Which names are near one that is not there."""

from __future__ import annotations

import pytest

from magnetar.cli.nearby import alike


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("ordrs", ["orders"]), ("Orders", ["orders"]), ("payment", ["payments"]), ("zebra", []), ("orders", [])],
)
def test_near_names_are_found_and_far_ones_are_not(wanted: str, found: list[str]) -> None:
    assert alike(wanted, ["orders", "payments", "audit"]) == found
