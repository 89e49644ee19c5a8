"""Whatever a request looks like, it gets an answer that says what is wrong with it, and never more than that."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from magnetar.admin.request import Request, Response
from magnetar.admin.route import get
from magnetar.admin.router import Router, table
from magnetar.base.limits import HTTP_BODY_BYTES_MAX, HTTP_PATH_CHARS_MAX
from magnetar.broker.node import Node
from magnetar.observe import log as logs
from tests.unit.admin.world import a_world, run

pytestmark = pytest.mark.real_clock


async def nothing(node: Node, request: Request) -> Response:
    return Response()


def test_literal_part_wins_over_parameter_and_both_are_offered() -> None:
    routes = Router([get("/a/{x}", nothing, "one"), get("/a/b", nothing, "two")])
    assert [by_method["GET"].summary for by_method, _ in routes.match("/a/b")] == ["two", "one"]
    assert [parts for _, parts in routes.match("/a/c")] == [{"x": "c"}]


@pytest.mark.parametrize("path", ["/a", "/a/b/c", "/a//", "//b", "/b"])
def test_parameter_is_exactly_one_part(path: str) -> None:
    assert Router([get("/a/{x}", nothing, "one")]).match(path) == []


def test_encoded_slash_stays_inside_its_part() -> None:
    assert Router([get("/a/{x}", nothing, "one")]).match("/a/b%2Fc")[0][1] == {"x": "b/c"}


def test_no_two_routes_claim_one_call() -> None:
    calls = [
        (route.method, tuple("{}" if part.startswith("{") else part for part in route.parts))
        for route in table().routes
    ]
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/admin/v2/nosuch", 404),
        ("GET", "/admin/v2//tenants", 404),
        ("GET", "/admin/v2/tenants/", 200),
        ("GET", "/admin/v2/tenants/%zz", 400),
        ("GET", "/admin/v2/tenants/%ff", 400),
        ("GET", "/admin/v2/tenants/bad%20name", 404),
        ("GET", "/admin/v2/persistent/public/default/%2F/stats", 412),
        ("GET", "/admin/v2/persistent/public/def%20ault/t/stats", 412),
        ("GET", "/admin/v2/persistent/public/default/" + "x" * 5000 + "/stats", 412),
        ("PUT", "/admin/v2/persistent/public/default/t/subscription/" + "x" * 5000, 412),
        ("GET", "/admin/v2/" + "x" * HTTP_PATH_CHARS_MAX, 414),
        ("GET", "/admin/v2/persistent/public/default/t/messageid/1_0", 404),
        ("GET", "/admin/v2/persistent/public/default/t/messageid/9223372036854775808", 404),
        ("GET", "/admin/v2/transactions/stats", 404),
        ("GET", "/admin/v3/transactions/stats", 501),
        ("POST", "/admin/v3/functions/public/default/f/trigger", 501),
        ("POST", "/admin/v2/scalable/public/default/t/migrate", 404),
        ("PUT", "/admin/v2/scalable/public/default/t%20", 412),
        ("PUT", "/admin/v2/segments/public/default/t/nonsense", 412),
        ("PUT", "/admin/v2/persistent/public/default/t/compaction", 501),
        ("PATCH", "/admin/v2/tenants/public", 405),
        ("BREW", "/admin/v2/tenants", 405),
    ],
)
async def test_strange_path_gets_its_status_and_reason(method: str, path: str, status: int) -> None:
    async with a_world() as world:
        answer = await world.ask(method, path)
        assert answer.status == status, answer
        if status >= 400:
            assert answer.reason


async def test_wrong_method_is_told_right_ones() -> None:
    async with a_world() as world:
        answer = await world.ask("PATCH", "/admin/v2/tenants/public")
        assert (answer.status, answer.headers["allow"]) == (405, "DELETE,GET,OPTIONS,POST,PUT")
        assert (await world.ask("OPTIONS", "/admin/v2/tenants")).headers["allow"] == "GET,OPTIONS"


async def test_head_has_headers_of_its_get_and_no_body() -> None:
    async with a_world() as world:
        answer = await world.ask("HEAD", "/admin/v2/namespaces/public/default/topics")
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "2")


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b"{bad", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"allowedClusters": 7}', "application/json", 400),
        (b'{"allowedClusters": ["\xff"]}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"allowedClusters": ["standalone"]}', "text/plain", 415),
        (b'{"allowedClusters": ["standalone"]}', "", 415),
        (b'{"allowedClusters": ["standalone"]}', "application/json; charset=utf-8", 204),
        (b'{"allowedClusters": ["standalone"], "nosuch": 1}', "application/json", 204),
        (b"", "application/json", 412),
        (b"null", "application/json", 412),
        (b" " * (HTTP_BODY_BYTES_MAX + 1), "application/json", 413),
    ],
)
async def test_bad_body_is_refused_and_nothing_is_made(raw: bytes, kind: str, status: int) -> None:
    async with a_world() as world:
        answer = await world.ask("PUT", "/admin/v2/tenants/acme", raw=raw, content_type=kind)
        assert answer.status == status, answer
        assert ("acme" in await world.get("/admin/v2/tenants")) == (status == 204)


@pytest.mark.parametrize("raw", [b"{", b'{"allowedClusters": 7}', b"[]"])
async def test_body_of_wrong_type_is_answered_with_reason(raw: bytes) -> None:
    async with a_world() as world:
        answer = await world.ask("PUT", "/admin/v2/tenants/acme", raw=raw, content_type="application/json")
        assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
        assert answer.reason


async def test_malformed_body_is_called_invalid_json() -> None:
    async with a_world() as world:
        answer = await world.ask("PUT", "/admin/v2/tenants/acme", raw=b'{"a"', content_type="application/json")
        assert answer.reason.startswith("the body is not valid JSON: ")


async def test_token_where_security_is_off_changes_nothing() -> None:
    async with a_world() as world:
        assert (await world.ask("GET", "/admin/v2/tenants", authorization="Bearer nonsense")).status == 200


class Nobody:
    """Lets nobody do anything."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        return data.decode() or None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return principal == f"{action} {resource}"


async def test_every_route_asks_who_may_and_probes_do_not() -> None:
    async with a_world() as world:
        world.node.access = Nobody()
        assert (await world.ask("GET", "/admin/v2/tenants")).status == 403
        assert (await world.ask("GET", "/livez")).status == 200
        one = "/admin/v2/namespaces/public/default"
        assert (await world.ask("GET", one, authorization="Bearer read public/default")).status == 200
        assert (await world.ask("DELETE", one, authorization="Bearer read public/default")).status == 403


NASTY = [
    b"",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e400",
    b"123456789012345678901234567890",
    b'"x"',
    b'"\\ud800"',
    b'"\xff"',
    b"[]",
    b"[null]",
    b"[1]",
    b'["x"]',
    b"{}",
    b'{"": null}',
    b'{"a": "b"}',
    b'{"a": "\\ud800"}',
    b'{"partitions": 123456789012345678901234567890}',
    b'{"ledgerId": 123456789012345678901234567890, "entryId": 1}',
    b'{"ledgerId": 9223372036854775807, "entryId": 9223372036854775807}',
    b'{"ledgerId": -9223372036854775808, "entryId": -9223372036854775808}',
    b'{"serviceUrl": "http://[", "x": 123456789012345678901234567890}',
    b'{"bundles": {"numBundles": 99999999}}',
    b'{"bundles": {"boundaries": ["0x", null, "z"]}}',
    b'{"replication_clusters": null, "properties": {"k": 7}}',
    b'{"retentionTimeInMinutes": 99999999999, "retentionSizeInMB": 99999999999}',
    b'{"type": "AVRO", "schema": "\\ud800"}',
    b"[" * 20_000,
    b'{"a":' * 20_000,
]
PARTS = {"tenant": "public", "namespace": "default", "topic": "t", "subscription": "s", "domain": "persistent"}


async def test_no_body_on_any_route_is_error_inside() -> None:
    routes = [route for route in table().routes if not route.summary.startswith("Not built")]
    async with a_world() as world:
        await world.publish("persistent://public/default/t", b"1", b"2")
        await world.do("PUT", "/admin/v2/persistent/public/default/t/subscription/s", "earliest")
        for route in routes:
            path = re.sub(r"{(\w+)}", lambda part: PARTS.get(part[1], "1"), route.path)
            for raw in NASTY if route.takes is not None else [b"", b"{"]:
                if route.method == "DELETE" and "{topic}" in path:
                    continue
                answer = await world.ask(route.method, path, raw=raw, content_type="application/json")
                assert answer.status != 500, (route, raw[:100])


@pytest.mark.parametrize(
    "odd", ["%00", "%0A", "%F0%9F%98%80", "%ED%A0%80", "..", "%2e%2e", "$0", "a%2520b", "~", "'\"", "%"]
)
async def test_no_name_on_any_route_is_error_inside(odd: str) -> None:
    routes = [route for route in table().routes if not route.summary.startswith("Not built")]
    async with a_world() as world:
        for route in routes:
            for part in re.findall(r"{(\w+)}", route.path):
                named = {**PARTS, part: odd}
                path = re.sub(r"{(\w+)}", lambda part, named=named: named.get(part[1], "1"), route.path)  # type: ignore[misc]
                answer = await world.ask(route.method, path)
                assert answer.status != 500, (route, path)


class Broken:
    """Security that has a bug."""

    def authenticate(self, method: str, data: bytes) -> str | None:
        raise AttributeError("a secret path")

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return True


async def test_error_inside_is_500_that_tells_nothing_else() -> None:
    async with a_world() as world:
        world.node.access = Broken()
        answer = await world.ask("GET", "/admin/v2/tenants")
        assert answer.status == 500
        assert "secret" not in answer.reason
        assert world.node.metrics.request_failures.value == 1


def test_crash_of_handler_shows_no_token(capsys: pytest.CaptureFixture[str]) -> None:
    """D8: handlers, errors and the log get a request without its credentials."""

    async def body() -> None:
        async with a_world() as world:
            tenants = world.node.tenants
            world.node.tenants = Crashing()  # type: ignore[assignment]
            answer = await world.ask("GET", "/admin/v2/tenants", authorization="Bearer eyJTHE-TOKEN")
            assert (answer.status, answer.reason) == (500, "internal error; see the broker log")
            world.node.tenants = tenants

    with printed_log():
        run(body())
    written = capsys.readouterr().err
    assert "request_crashed" in written
    assert "eyJ" not in written


class Crashing:
    async def names(self) -> list[str]:
        raise RuntimeError("broken")


@contextmanager
def printed_log() -> Iterator[None]:
    """The log as a broker prints it for people."""
    loggers = [logging.getLogger(name) for name in (logs.ROOT, *logs.FOREIGN)]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    logs.configure(json=False, level="info")
    try:
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)
