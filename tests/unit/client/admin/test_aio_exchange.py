"""Requests of the admin client against a server that misbehaves: what is repeated, what is never, what is told."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
import pytest

from magnetar.base.errors import (
    Closed,
    ConnectionLost,
    Corrupt,
    InvalidName,
    MagnetarError,
    Misuse,
    NotAuthenticated,
    NotReady,
    TimedOut,
    Unavailable,
)
from magnetar.base.limits import ADMIN_ANSWER_BYTES_MAX, ADMIN_RETRIES_MAX
from magnetar.client.admin.aio.admin import Admin
from magnetar.client.admin.policy import MESSAGE_TTL_S, RETENTION
from magnetar.client.admin.responses import RestResponse
from magnetar.client.documents.policies import Policies, Retention

Reply = httpx2.Response | Exception


class Server:
    """Answers from a list, the last one again and again; remembers what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def run(self, work: Callable[[Admin], Coroutine[Any, Any, Any]], **options: Any) -> Any:
        async def body() -> Any:
            async with Admin("http://broker:8080", transport=httpx2.MockTransport(self), **options) as admin:
                return await work(admin)

        return asyncio.run(body())


def ok(document: object) -> httpx2.Response:
    return httpx2.Response(200, json=document)


def refused(status: int, reason: str = "no") -> httpx2.Response:
    return httpx2.Response(status, json={"reason": reason})


@pytest.mark.parametrize(
    "failure", [refused(503), refused(429), httpx2.ConnectError("refused"), httpx2.ReadError("cut")]
)
def test_question_is_asked_again_when_broker_is_away(failure: Reply) -> None:
    server = Server(failure, ok(["public"]))
    assert server.run(lambda admin: admin.tenants.names()) == ["public"]
    assert len(server.requests) == 2


def test_question_is_not_asked_for_ever() -> None:
    server = Server(refused(503, "starting"))
    with pytest.raises(NotReady, match="starting"):
        server.run(lambda admin: admin.tenants.names())
    assert len(server.requests) == ADMIN_RETRIES_MAX + 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (refused(503), NotReady),
        (refused(500), MagnetarError),
        (httpx2.ConnectError("refused"), NotReady),
        (httpx2.ReadError("cut"), ConnectionLost),
        (httpx2.RemoteProtocolError("cut"), ConnectionLost),
        (httpx2.ReadTimeout("late"), TimedOut),
        (httpx2.WriteTimeout("late"), TimedOut),
        (httpx2.ConnectTimeout("late"), NotReady),
        (httpx2.PoolTimeout("late"), Unavailable),
    ],
)
def test_change_is_never_sent_twice(failure: Reply, kind: type[MagnetarError]) -> None:
    server = Server(failure)
    with pytest.raises(kind) as raised:
        server.run(lambda admin: admin.topics.create("orders"))
    assert len(server.requests) == 1
    assert ("the operation may have happened" in raised.value.what) == (raised.value.outcome.name == "INDEFINITE")


def test_missing_broker_raises_without_traceback_of_transport() -> None:
    server = Server(httpx2.ConnectError("refused"))
    with pytest.raises(NotReady, match="refused") as raised:
        server.run(lambda admin: admin.topics.create("orders"))
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_url_of_client_port_is_named_without_long_traceback() -> None:
    closed = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
    with pytest.raises(ConnectionLost) as raised:
        Server(*[closed] * 10).run(lambda admin: admin.tenants.list())
    assert raised.value.__cause__ is None
    assert "http://broker:8080 was lost before the response: Server disconnected" in raised.value.what
    assert "not of the port for clients" in raised.value.what


def test_question_that_takes_too_long_is_not_asked_again() -> None:
    server = Server(httpx2.ReadTimeout("late"))
    with pytest.raises(TimedOut, match="2 s") as raised:
        server.run(lambda admin: admin.tenants.names(), timeout_s=2)
    assert len(server.requests) == 1
    assert "may have" not in raised.value.what


class Pointing:
    """Points every call to `where`; lists these brokers."""

    def __init__(self, where: str, brokers: list[str], status: int = 204) -> None:
        self.where = where
        self.brokers = brokers
        self.status = status
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.url.path == "/admin/v2/brokers":
            return ok(self.brokers)
        if str(request.url).startswith(self.where):
            return httpx2.Response(self.status)
        return httpx2.Response(307, headers={"location": f"{self.where}/x"})

    def run(self, url: str = "http://broker:8080") -> httpx2.Request:
        """The request that arrives where it points."""

        async def body() -> None:
            async with Admin(url, transport=httpx2.MockTransport(self), token="secret") as admin:
                await admin.topics.create("orders", partitions=3)

        asyncio.run(body())
        return self.requests[-1]


@pytest.mark.parametrize(
    ("url", "where", "brokers", "goes"),
    [
        ("http://broker:8080", "http://owner:8080", ["broker:8080", "owner:8080"], True),
        ("http://broker:8080", "http://broker:8080/other", [], True),
        ("https://broker", "https://owner:8443", ["broker:8080", "owner:8080"], True),
        ("http://broker:8080", "http://owner:8080", ["broker:8080"], False),
        ("http://broker:8080", "http://broker:9999", ["broker:8080"], False),
        ("http://broker:8080", "http://evil.example:8080", ["broker:8080", "owner:8080"], False),
        ("https://broker", "http://owner:8080", ["broker:8080", "owner:8080"], False),
    ],
)
def test_token_goes_to_listed_brokers_only(url: str, where: str, brokers: list[str], goes: bool) -> None:
    """D18: it went wherever a broker, or somebody on the way, pointed."""
    last = Pointing(where, brokers).run(url)
    assert (last.method, str(last.url), last.content) == ("PUT", f"{where}/x", b"3")
    assert ("authorization" in last.headers) == goes


def test_host_requesting_forbidden_token_is_named() -> None:
    with pytest.raises(NotAuthenticated, match=r"evil\.example requires a token, which was not sent there"):
        Pointing("http://evil.example", [], status=401).run()


def zipped(data: bytes) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Chunks(gzip.compress(data)))


class Chunks(httpx2.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.given = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data), 65536):
            self.given += 1
            yield self._data[start : start + 65536]


def test_answer_is_bounded_after_it_was_inflated() -> None:
    """D18: 0.6 MB of gzip became 1.27 GB."""
    assert Server(zipped(b'["public"]')).run(lambda admin: admin.tenants.names()) == ["public"]
    with pytest.raises(Corrupt, match=f"larger than {ADMIN_ANSWER_BYTES_MAX} bytes"):
        Server(zipped(b" " * (ADMIN_ANSWER_BYTES_MAX + 1))).run(lambda admin: admin.tenants.names())
    many = Chunks(b" " * (2 * ADMIN_ANSWER_BYTES_MAX))
    with pytest.raises(Corrupt, match="larger than"):
        Server(httpx2.Response(200, stream=many)).run(lambda admin: admin.tenants.names())
    assert many.given <= ADMIN_ANSWER_BYTES_MAX // 65536 + 1


@pytest.mark.parametrize(("encoding", "words"), [("gzip", "cannot be decompressed"), ("zstd", "unrequested encoding")])
def test_answer_of_another_encoding_is_corrupt(encoding: str, words: str) -> None:
    reply = httpx2.Response(200, headers={"content-encoding": encoding}, stream=Chunks(b"[]"))
    with pytest.raises(Corrupt, match=words):
        Server(reply).run(lambda admin: admin.tenants.names())


def test_token_never_leaves_https_for_http() -> None:
    server = Server(httpx2.Response(307, headers={"location": "http://owner:8080/x"}), ok([]))

    async def body() -> None:
        async with Admin("https://broker", transport=httpx2.MockTransport(server), token="secret") as admin:
            await admin.tenants.names()

    asyncio.run(body())
    assert "authorization" in server.requests[0].headers
    assert "authorization" not in server.requests[1].headers


def test_brokers_that_point_at_each_other_end() -> None:
    server = Server(httpx2.Response(307, headers={"location": "http://broker:8080/x"}))
    with pytest.raises(Unavailable, match="redirects"):
        server.run(lambda admin: admin.topics.unload("orders"))


def test_listing_goes_page_by_page_and_knows_server_without_pages() -> None:
    async def walked(admin: Admin) -> list[str]:
        return [name async for name in admin.topics.walk("public/default", page=2)]

    paged = Server(ok(["a", "b"]), ok(["c", "d"]), ok([]))
    assert paged.run(walked) == ["a", "b", "c", "d"]
    assert [request.url.params.get("after") for request in paged.requests] == [None, "b", "d"]
    pageless = Server(ok(["a", "b"]))
    assert pageless.run(walked) == ["a", "b"]
    all_at_once = Server(ok(["a", "b", "c"]))
    assert all_at_once.run(walked) == ["a", "b", "c"]
    assert len(all_at_once.requests) == 1


def test_unknown_fields_are_ignored_and_numeric_text_is_read() -> None:
    server = Server(ok({"msgInCounter": 7, "fromTheFuture": {"a": 1}, "subscriptions": {"s": {"new": 1}}}))
    stats = server.run(lambda admin: admin.topics.stats("orders"))
    assert (stats.msgInCounter, list(stats.subscriptions)) == (7, ["s"])


def test_unset_policy_is_none_and_set_one_has_its_type() -> None:
    assert Server(httpx2.Response(200)).run(lambda admin: admin.namespaces.policy("a/b", MESSAGE_TTL_S)) is None
    document = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 5}
    found = Server(ok(document)).run(lambda admin: admin.namespaces.policy("a/b", RETENTION))
    assert found == Retention(60, 5)


def test_new_namespace_is_sent_only_what_was_said() -> None:
    server = Server(httpx2.Response(204))
    server.run(lambda admin: admin.namespaces.create("a/b", Policies(message_ttl_in_seconds=5)))
    assert json.loads(server.requests[0].content) == {"message_ttl_in_seconds": 5}


def test_answer_that_cannot_be_read_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="cannot be parsed"):
        Server(httpx2.Response(200, text="<html>")).run(lambda admin: admin.tenants.names())


def test_names_are_escaped_and_bad_ones_go_nowhere() -> None:
    server = Server(httpx2.Response(204))
    server.run(lambda admin: admin.subscriptions.clear("public/default/a b%?#", "x/../y+"))
    wanted = b"/admin/v2/persistent/public/default/a%20b%25%3F%23/subscription/x%2F..%2Fy%2B/skip_all"
    assert server.requests[0].url.raw_path == wanted
    for bad in (".", "..", ""):
        with pytest.raises(InvalidName):
            server.run(lambda admin, bad=bad: admin.tenants.get(bad))
    with pytest.raises(InvalidName):
        server.run(lambda admin: admin.topics.stats("persistent://only/two"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("url", ["localhost:8080", "pulsar://localhost:6650", "http://", "ftp://x"])
def test_url_of_another_kind_is_refused_at_once(url: str) -> None:
    with pytest.raises(Misuse, match="http://host:port"):
        Admin(url)


def test_whoever_listens_sees_every_answer_as_it_came() -> None:
    heard: list[RestResponse] = []
    Server(refused(503), ok(["a"])).run(lambda admin: admin.tenants.names(), on_answer=heard.append)
    assert [(answer.status, answer.body) for answer in heard] == [(503, b'{"reason":"no"}'), (200, b'["a"]')]


def test_after_closing_nothing_is_sent() -> None:
    async def body(admin: Admin) -> None:
        await admin.aclose()
        await admin.tenants.names()

    with pytest.raises(Closed):
        Server(ok([])).run(body)


class Hosts:
    """Answers by the host of the URL."""

    def __init__(self, **replies: Reply) -> None:
        self.replies = replies
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(f"{request.method} {request.url.host}")
        reply = self.replies[request.url.host]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def run(self, work: Callable[[Admin], Coroutine[Any, Any, Any]]) -> Any:
        async def body() -> Any:
            async with Admin("http://one:8080,two:8080", transport=httpx2.MockTransport(self)) as admin:
                return await work(admin)

        return asyncio.run(body())


def test_next_host_is_asked_if_first_one_refuses_connections() -> None:
    hosts = Hosts(one=httpx2.ConnectError("refused"), two=httpx2.Response(204))

    async def body(admin: Admin) -> None:
        await admin.topics.create("persistent://public/default/t")
        await admin.topics.create("persistent://public/default/u")

    hosts.run(body)
    assert hosts.asked == ["PUT one", "PUT two", "PUT two"]


def test_read_moves_to_next_host_if_first_is_unready() -> None:
    hosts = Hosts(one=httpx2.Response(503, json={"reason": "no store"}), two=httpx2.Response(200, json=["b"]))
    assert hosts.run(lambda admin: admin.brokers.list()) == ["b"]
    assert hosts.asked == ["GET one", "GET two"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [(httpx2.ReadError("broken"), ConnectionLost), (httpx2.Response(503, json={"reason": "no store"}), NotReady)],
    ids=["no answer", "503"],
)
def test_change_with_unknown_outcome_is_not_repeated_elsewhere(reply: Reply, error: type[Exception]) -> None:
    hosts = Hosts(one=reply, two=httpx2.Response(204))

    async def body(admin: Admin) -> None:
        with pytest.raises(error):
            await admin.topics.create("persistent://public/default/t")
        await admin.topics.create("persistent://public/default/u")

    hosts.run(body)
    assert hosts.asked == ["PUT one", "PUT two"]


def test_no_host_is_ready_after_each_was_asked() -> None:
    hosts = Hosts(one=httpx2.ConnectError("refused"), two=httpx2.ConnectError("refused"))
    with pytest.raises(NotReady):
        hosts.run(lambda admin: admin.topics.create("persistent://public/default/t"))
    assert hosts.asked == ["PUT one", "PUT two"]
