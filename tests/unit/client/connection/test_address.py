"""Addresses as people and files write them: taken, or refused with what one looks like."""

from __future__ import annotations

import pytest

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.client.connection.address import addresses, rest_url, rest_urls


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("https://host", "https://host"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://host:8080/below/", "http://host:8080/below"),
        ("http://a:8080,b:8080", "http://a:8080"),
        ("http://a:8080,b:8080/below/", "http://a:8080/below"),
        ("http://a,b,c", "http://a"),
    ],
)
def test_where_rest_is(url: str, found: str) -> None:
    assert rest_url(url) == found


def test_all_hosts_of_rest_are_read() -> None:
    assert rest_urls("https://a:1,b,[::1]:2/below/") == [
        "https://a:1/below",
        "https://b/below",
        "https://[::1]:2/below",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "pulsar://localhost:6650",
        "http://",
        "http:///x",
        "http://[",
        "http://[::1",
        "http://host:port",
        "http://host:70000",
        "http://host:0",
        "http://ho st",
        "http://host\n",
        "http://,b",
        "file:///etc/passwd",
    ],
)
def test_invalid_rest_address_is_refused_with_example(url: str) -> None:
    with pytest.raises(Misuse, match="http://host:port"):
        rest_url(url)


@pytest.mark.parametrize(
    "url", ["pulsar://", "pulsar://:6650", "pulsar://h:port", "pulsar://h:0", "localhost:6650", ""]
)
def test_invalid_service_url_is_refused_with_example(url: str) -> None:
    with pytest.raises(Misuse, match="pulsar://host:port"):
        addresses(url)


@pytest.mark.parametrize(
    "url", ["http://me:sec@ret@host:port", "pulsar+ssl://me:secret@host", "pulsar://me:secret@host:1"]
)
def test_refused_url_does_not_show_password(url: str) -> None:
    with pytest.raises(MagnetarError) as caught:
        (rest_url if url.startswith("http") else addresses)(url)
    assert "***" in str(caught.value)
    assert "ret@" not in str(caught.value)
