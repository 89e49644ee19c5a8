"""Pulsar's client.conf, read as Java reads it."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.properties import Entry, parse
from magnetar.cli.settings.client_conf import read
from magnetar.cli.settings.resolve import SettingValue, Source

STOCK = """\
# URL for Pulsar REST API (for admin operations)
webServiceUrl=http://localhost:8080/
brokerServiceUrl=pulsar://localhost:6650/
authPlugin=
authParams=
tlsAllowInsecureConnection=false
tlsTrustCertsFilePath=
"""
TOKEN = "authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken\n"


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a = b ", "a", "b"),
        ("a=\\ud83d\\ude00\\t.", "a", "\U0001f600\t."),
        ("a=one\\\n   two", "a", "onetwo"),
        ("a=b\\", "a", "b"),
        ("=b", "", "b"),
    ],
)
def test_entry_is_read_as_in_broker_conf_without_end_blanks(line: str, key: str, value: str) -> None:
    found = read(f"# before\n! and this\n\n{line}", "c")
    assert found.ignored == [Entry(key, value, 4)]
    assert {key: value} == {name: text.rstrip() for name, text in parse(line).items()}


def test_bad_escape_is_refused_with_file_and_line() -> None:
    with pytest.raises(Misuse, match="four hex digits") as refused:
        read("a=1\nauthParams=token:secret\\u12", "conf/client.conf")
    assert refused.value.facts == {"line": 2, "file": "conf/client.conf"}


def test_stock_file_says_two_addresses_and_rest_is_ignored() -> None:
    found = read(STOCK, "client.conf")
    assert found.said == {
        "url": [SettingValue(Source.CLIENT_CONF, "client.conf:3", "pulsar://localhost:6650/")],
        "admin_url": [SettingValue(Source.CLIENT_CONF, "client.conf:2", "http://localhost:8080/")],
        "token": [],
    }
    assert [one.key for one in found.ignored] == ["tlsAllowInsecureConnection", "tlsTrustCertsFilePath"]
    assert [one.line for one in found.ignored] == [6, 7]
    assert found.doubts == []


@pytest.mark.parametrize(
    ("parameters", "value", "held"),
    [
        ("token:abc", "abc", ""),
        ("data:abc", "abc", ""),
        ("file:///secrets/token", "/secrets/token", "file"),
        ("file:/secrets/token", "/secrets/token", "file"),
        ("file:token.txt", "token.txt", "file"),
        ("env:TOKEN", "TOKEN", "env"),
        ("abc", "abc", ""),
        ('{"token": "abc"}', "abc", ""),
    ],
)
def test_token_is_there_or_somewhere_else(parameters: str, value: str, held: str) -> None:
    found = read(f"{TOKEN}authParams={parameters}", "c")
    assert found.said["token"] == [SettingValue(Source.CLIENT_CONF, "c:2", value, held)]


def test_of_key_that_is_there_twice_last_one_counts() -> None:
    found = read("webServiceUrl=a\nwebServiceUrl=b\n", "c")
    assert [one.value for one in found.said["admin_url"]] == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationTls\nauthParams=tlsCertFile:x", "only token"),
        ("authParams=token:abc", "without authPlugin"),
    ],
)
def test_unknown_value_is_reported_and_not_used_as_token(text: str, doubt: str) -> None:
    found = read(text, "c")
    assert found.said["token"] == []
    assert doubt in found.doubts[0]
    assert "abc" not in found.doubts[0]


def test_several_hosts_are_kept_as_they_are() -> None:
    found = read("webServiceUrl=http://a:8080,b:8080\nbrokerServiceUrl=pulsar://a:6650,b:6650", "c")
    assert found.said["admin_url"][0].value == "http://a:8080,b:8080"
    assert found.said["url"][0].value == "pulsar://a:6650,b:6650"
    assert found.doubts == []


def test_text_without_broken_escapes_is_read() -> None:
    for text in ("", "\\", "=", "===", "\x00", "a\r\nb\rc", "#", "\\\n\\\n", "\ufeffa=b"):
        read(text, "c")
