"""Contexts against a real broker: commands go where the context says, and a test of one says what answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from magnetar import __version__
from tests.cli.conftest import Run
from tests.cli.test_contract import NOWHERE
from tests.servers.standalone import Standalone

SECRET = "very-secret-token"


@pytest.fixture
def silent(magnetar: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command with an environment that names no broker."""
    monkeypatch.delenv("MAGNETAR_URL")
    monkeypatch.delenv("MAGNETAR_ADMIN_URL")
    return magnetar


@pytest.fixture
def here(silent: Run, broker: Standalone) -> None:
    assert silent("context", "add", "here", "--url", broker.url, "--admin-url", broker.http).code == 0


def test_command_goes_where_its_context_says(silent: Run, here: None, topic: str) -> None:
    assert silent("context", "add", "nowhere", "--url", "pulsar://localhost:1", "--admin-url", NOWHERE).code == 0
    assert silent("--context", "here", "topic", "show", topic).code == 0
    assert silent("message", "produce", topic, "x", "--context", "here").code == 0
    ran = silent("topic", "show", topic, "--context", "nowhere")
    assert (ran.code, ran.out) == (1, "")
    assert NOWHERE in ran.err
    assert silent("context", "use", "here").code == 0
    assert silent("topic", "show", topic).code == 0


def test_flag_and_environment_win_over_context(
    silent: Run, here: None, broker: Standalone, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent("context", "add", "nowhere", "--admin-url", NOWHERE, "--use")
    assert silent("topic", "show", topic, "--admin-url", broker.http).code == 0
    monkeypatch.setenv("MAGNETAR_ADMIN_URL", broker.http)
    assert silent("topic", "show", topic).code == 0


def test_client_conf_is_enough(silent: Run, broker: Standalone, topic: str, own_home: Path) -> None:
    path = own_home / "client.conf"
    path.write_text(f"webServiceUrl={broker.http}/\nbrokerServiceUrl={broker.url}/\nauthPlugin=\nauthParams=\n")
    assert silent("topic", "show", topic, "--client-conf", str(path)).code == 0
    assert silent("message", "produce", topic, "x", "--client-conf", str(path)).code == 0


def test_command_with_dead_first_host_asks_next(silent: Run, broker: Standalone, topic: str) -> None:
    hosts = {"--url": broker.url, "--admin-url": broker.http}
    hosts = {flag: url.replace("://", "://localhost:1,") for flag, url in hosts.items()}
    flags = [word for pair in hosts.items() for word in pair]
    assert silent("context", "add", "several", *flags, "--use").code == 0
    assert silent("topic", "show", topic).code == 0
    assert silent("message", "produce", topic, "x").code == 0


def test_several_binary_ports_as_admin_url_are_named(silent: Run, broker: Standalone, topic: str) -> None:
    wrong = broker.url.replace("pulsar://", "http://localhost:1,")
    ran = silent("topic", "show", topic, "--admin-url", wrong)
    assert ran.code == 2
    assert "--admin-url must not name the port of the binary protocol" in ran.err


class Strict(BaseHTTPRequestHandler):
    """Lets in who has the token."""

    def do_GET(self) -> None:
        is_known = self.headers["authorization"] == f"Bearer {SECRET}"
        body = b'["public"]' if is_known else b'{"reason": "who are you"}'
        self.send_response(200 if is_known else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        return


def test_token_of_context_is_sent_and_never_told(silent: Run, own_home: Path) -> None:
    (own_home / "token").write_text(f"{SECRET}\n")
    (own_home / "client.conf").write_text(f"authPlugin=token\nauthParams=file://{own_home}/token\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Strict) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        silent("context", "add", "none", "--admin-url", url)
        silent("context", "add", "inside", "--admin-url", url, "--token", SECRET)
        silent("context", "add", "held", "--admin-url", url, "--token-file", str(own_home / "token"))
        assert silent("tenant", "list", "--context", "none").code == 5
        for arguments in (["inside"], ["held"], ["none", "--client-conf", str(own_home / "client.conf")]):
            ran = silent("tenant", "list", "--context", *arguments)
            assert ran.code == 0, ran.err
            assert SECRET not in ran.out + ran.err
        ran = silent("tenant", "list", "--context", "inside", "--token", "another")
        assert ran.code == 5
        assert "another" not in ran.err
        server.shutdown()


def test_both_ports_are_tried_and_say_who_they_are(silent: Run, here: None, broker: Standalone) -> None:
    ran = silent("context", "test", "here", "-o", "json")
    assert ran.code == 0
    rest, wire = sorted(ran.json, key=lambda one: str(one["what"]))
    assert (wire["what"], wire["url"], wire["ok"], wire["why"]) == ("broker", broker.url, True, None)
    assert (rest["what"], rest["url"], rest["ok"], rest["why"]) == ("REST", broker.http, True, None)
    assert __version__ in wire["version"]
    assert rest["version"]
    assert wire["latencyMs"] > 0
    assert rest["latencyMs"] > 0
    table = silent("context", "test", "here").out.splitlines()
    assert table[0].split() == ["WHAT", "URL", "STATE", "VERSION", "LATENCY"]


def test_port_without_answer_fails_test_and_names_other_port(silent: Run, broker: Standalone) -> None:
    silent("context", "add", "half", "--url", "pulsar://localhost:1", "--admin-url", broker.http)
    ran = silent("context", "test", "half", "-o", "json")
    assert ran.code == 7
    assert [(one["what"], one["ok"]) for one in ran.json] == [("broker", False), ("REST", True)]
    assert "broker did not answer" in ran.err
    assert "REST did not" not in ran.err
    silent("context", "add", "swapped", "--url", broker.http.replace("http", "pulsar"), "--admin-url", NOWHERE)
    ran = silent("context", "test", "swapped", "--timeout", "5", "-o", "json")
    assert ran.code == 7
    assert all(one["why"] and not one["ok"] for one in ran.json)


def test_removing_asks_for_name_on_terminal(silent: Run, here: None, terminal: Callable[..., tuple[int, str]]) -> None:
    code, seen = terminal("context", "remove", "here", typed="there")
    assert code == 2
    assert "not confirmed" in seen
    code, _ = terminal("context", "remove", "here", typed="here")
    assert code == 0
    assert silent("context", "list", "-o", "json").json == []
