"""Which addresses other machines reach."""

from __future__ import annotations

import pytest

from magnetar.base.hosts import is_address, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "a.example", "localhost.evil.example", "fd00::2"])
def test_what_others_reach_is_no_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_address_is_told_from_name() -> None:
    assert is_address("10.0.0.1")
    assert is_address("fd00::2")
    assert not is_address("10.0.0.1.example")
    assert not is_address("")
