"""The URL of a ZooKeeper store: which servers and which root it names, and which ones are refused."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidName
from magnetar.metadata.zookeeper.address import Address, Server, parse


@pytest.mark.parametrize(
    ("url", "servers", "root"),
    [
        ("zk:one:2181", (Server("one", 2181),), ""),
        ("zk://one:2181/", (Server("one", 2181),), ""),
        ("one", (Server("one", 2181),), ""),
        (
            "zk:one:1,two:2, three:3/pulsar/test",
            (Server("one", 1), Server("two", 2), Server("three", 3)),
            "/pulsar/test",
        ),
        ("zk:[::1]:2182,[fe80::1]/x", (Server("::1", 2182), Server("fe80::1", 2181)), "/x"),
    ],
)
def test_url_names_servers_and_root(url: str, servers: tuple[Server, ...], root: str) -> None:
    assert parse(url) == Address(servers, root)


@pytest.mark.parametrize(
    "url",
    [
        "zk:",
        "zk:/x",
        "zk:one,,two",
        "zk:one:",
        "zk:one:x",
        "zk:one:0",
        "zk:one:65536",
        "zk:::1",
        "zk:[::1",
        "zk:[::1]2",
    ],
)
def test_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidName):
        parse(url)


@pytest.mark.parametrize("url", ["zk:one/..", "zk:one/a//b", "zk:" + ",".join(["one"] * 33)])
def test_root_or_list_that_no_server_takes_is_refused(url: str) -> None:
    with pytest.raises(InvalidName):
        parse(url)


def test_credentials_in_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidName) as refused:
        parse("zk:user:secret@one:2181")
    assert "secret" not in str(refused.value)


def test_server_is_shown_as_it_is_written() -> None:
    assert [str(Server("one", 1)), str(Server("::1", 2))] == ["one:1", "[::1]:2"]
