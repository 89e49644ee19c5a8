"""A glance at a server on this machine: answers, refusals, silence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from magnetar.client.admin.quick_get import ANSWER_BYTES_MAX, QuickGet

PATIENCE_S = 60.0


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.over = threading.Event()
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/below"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["authorization"]))
        if self.path.endswith("/never"):
            self.server.over.wait(PATIENCE_S)
        body = b"x" * (ANSWER_BYTES_MAX + 1) if self.path.endswith("/much") else b"[1]"
        self.send_response(404 if self.path.endswith("/none") else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            return  # whoever asked has left

    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=lambda: running.serve_forever(poll_interval=0.01))
        thread.start()
        yield running
        running.over.set()
        running.shutdown()
        thread.join()


def test_each_question_has_its_answer_and_refusal_is_none(server: Server) -> None:
    glance = QuickGet(server.url, token="secret", seconds=PATIENCE_S)
    assert glance.get(["/one", "/none", "/much"]) == [b"[1]", None, None]
    assert server.asked == [(f"/below/{name}", "Bearer secret") for name in ("one", "none", "much")]
    assert glance.was_answered


def test_host_that_is_not_reached_is_passed_over(server: Server) -> None:
    scheme, _, rest = server.url.partition("://")
    glance = QuickGet(f"{scheme}://127.0.0.1:1,{rest}", token="", seconds=PATIENCE_S)
    assert glance.get(["/one"]) == [b"[1]"]


def test_what_came_in_time_counts_though_rest_did_not(server: Server) -> None:
    seconds = 0.01
    while True:  # however slow this machine is, one of them is long enough for the first and not for the second
        glance = QuickGet(server.url, token="", seconds=seconds)
        found = glance.get(["/one", "/never"])
        assert found[1] is None
        if found[0] is not None:
            break
        seconds *= 2
    assert found == [b"[1]", None]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://[", "http://h:port", ""])
def test_nobody_there_is_no_answer_and_no_error(url: str) -> None:
    glance = QuickGet(url, token="", seconds=PATIENCE_S)
    assert glance.get(["/one"]) == [None]
    assert not glance.was_answered


def test_clock_goes_on() -> None:
    glance = QuickGet("", token="", seconds=1)
    assert 0 < glance.now_s <= glance.now_s
