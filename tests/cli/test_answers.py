"""What a command makes of a broker that answers late, never, with a refusal, or with nonsense."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import PATIENCE_S, Run


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server that gives every request this answer; None: it never answers."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            if answer is None:
                over.wait(PATIENCE_S)
            else:
                self.request.sendall(answer)

    over = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        over.set()
        server.shutdown()


def refusal(status: str, reason: str) -> bytes:
    body = json.dumps({"reason": reason}).encode()
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


def test_no_answer_in_time_exits_6_with_unknown_outcome(magnetar: Run) -> None:
    with answering(None) as url:
        ran = magnetar("topic", "create", "x", "--admin-url", url, "--timeout", "0.3")
        assert (ran.code, ran.out) == (6, "")
        assert "the operation may have happened" in ran.err
        ran = magnetar("topic", "list", "--admin-url", url, "--timeout", "0.3")
        assert ran.code == 6
        assert "may have happened" not in ran.err


def operation(phase: str, error: str = "") -> bytes:
    """Of a broker that never gets further than this."""
    steps = [{"name": "intended", "atMs": 1_000}]
    told = {"op": "split-1", "kind": "SPLIT", "phase": phase, "steps": steps, "error": error}
    body = json.dumps(told).encode()
    return f"HTTP/1.1 202 Accepted\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


def test_split_longer_than_wait_exits_6_and_goes_on(magnetar: Run) -> None:
    arguments = ["topic", "split", "topic://public/default/x", "0", "--timeout", "0.2"]
    with answering(operation("PROVISION")) as url:
        ran = magnetar(*arguments, "--admin-url", url)
        assert (ran.code, ran.out) == (6, "")
        assert "split-1 has not finished after 0.2 s: the broker continues it" in ran.err
        assert "run: magnetar segment history topic://public/default/x --watch" in ran.err
        ran = magnetar(*arguments, "--admin-url", url, "--no-wait", "-o", "name")
        assert (ran.code, ran.out) == (0, "split-1\n")


def test_split_that_is_taken_back_is_4_and_says_why(magnetar: Run) -> None:
    with answering(operation("ABORTED", "a child could not be made")) as url:
        ran = magnetar("topic", "split", "topic://public/default/x", "0", "--admin-url", url, "-o", "jsonl")
    assert ran.code == 4
    assert [line["step"] for line in ran.lines] == ["intended", "aborted"]
    assert "a child could not be made" in ran.err


@pytest.mark.parametrize(
    ("status", "code"),
    [("401 Unauthorized", 5), ("403 Forbidden", 5), ("409 Conflict", 4), ("500 Oops", 1), ("503 Starting", 1)],
)
def test_what_broker_refuses_has_its_exit_code(magnetar: Run, status: str, code: int) -> None:
    with answering(refusal(status, "because")) as url:
        ran = magnetar("topic", "create", "x", "--admin-url", url)
    assert (ran.code, ran.out) == (code, "")
    assert "because" in ran.err


def test_answer_that_makes_no_sense_is_told_without_traceback(magnetar: Run) -> None:
    for answer in (b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>"):
        with answering(answer) as url:
            ran = magnetar("tenant", "list", "--admin-url", url)
        assert (ran.code, ran.out) == (1, "")
        assert "Traceback" not in ran.err


@contextmanager
def apache_pulsar() -> Iterator[str]:
    """A server that knows a list of topics and nothing of Magnetar's own."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            path = self.request.recv(65536).split()[1].decode().partition("?")[0]
            listed = ["persistent://public/default/a", "persistent://public/default/b-partition-0"]
            known = {"/admin/v2/persistent/public/default": listed, "/admin/v2/brokers/version": "4.2.4"}
            body = json.dumps(known.get(path)).encode()
            status = "200 OK" if path in known else "404 Not Found"
            head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.request.sendall(head.encode() + body)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_list_of_apache_pulsar_has_names_without_counts(
    magnetar: Run, terminal: Callable[..., tuple[int, str]]
) -> None:
    with apache_pulsar() as url:
        ran = magnetar("topic", "list", "--long", "--admin-url", url)
        assert (ran.code, ran.out.splitlines()) == (
            0,
            ["persistent://public/default/a", "persistent://public/default/b"],
        )
        code, seen = terminal("topic", "list", "--admin-url", url, env={"NO_COLOR": "1"})
        assert code == 0, seen
        assert "persistent://public/default/b" in seen
        assert "PARTITIONS" in seen
