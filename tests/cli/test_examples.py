"""Every example of every help text does what it says, its words cut as a shell cuts them, against a real broker."""

from __future__ import annotations

import itertools
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from magnetar.cli.main import NOUNS, SINGLE, examples
from tests.cli.conftest import Run
from tests.servers.standalone import Standalone

_numbers = itertools.count()


def all_examples() -> list[str]:
    found: list[str] = []
    for noun in NOUNS:
        for verb, function in import_module(f"magnetar.cli.{noun}").VERBS.items():
            shown = examples(function.__doc__)
            assert shown, f"magnetar {noun} {verb} shows no example"
            assert all(line.startswith(f"magnetar {noun} {verb}") for line in shown)
            found += shown
    for name in ("api", "completion"):
        found += examples(getattr(import_module(f"magnetar.cli.{name}"), name).__doc__)
    return found


@pytest.fixture
def prepared(broker: Standalone) -> None:
    for path in ("persistent/public/default/orders", "persistent/public/default/payments/partitions"):
        broker.ask("DELETE", f"/admin/v2/{path}", force="true")
    broker.ask("DELETE", "/admin/v2/scalable/public/default/visits", force="true")
    for path in ("namespaces/public/shop", "namespaces/public/archive", "tenants/acme"):
        broker.ask("DELETE", f"/admin/v2/{path}", force="true")


@pytest.mark.parametrize("line", all_examples())
def test_every_example_works(
    magnetar: Run, broker: Standalone, prepared: None, own_home: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    words = shlex.split(line)
    home = "/admin/v2/persistent/public/default/orders"
    if "orders" in words and words[1:3] != ["topic", "create"]:
        broker.ask("PUT", home)
        creates = words[1:3] == ["subscription", "create"]
        if "billing" in words and not creates:
            broker.ask("PUT", f"{home}/subscription/billing", "earliest")
        magnetar("message", "produce", "orders", "first", "second")
    if any(word.endswith("/clicks") for word in words):
        own = f"clicks-{next(_numbers)}"  # a name that was used before goes on counting its segments
        words = [word.replace("/clicks", f"/{own}") for word in words]
        segments = "2" if "merge" in words else "1"
        broker.ask("PUT", f"/admin/v2/scalable/public/default/{own}", {}, numInitialSegments=segments)
    if words[1:3] == ["namespace", "delete"]:
        broker.ask("PUT", "/admin/v2/namespaces/public/shop", {})
    if words[1:3] == ["tenant", "delete"]:
        broker.ask("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
    if words[1] == "context":
        monkeypatch.chdir(own_home)
        Path("conf").mkdir()
        Path("conf/client.conf").write_text(f"webServiceUrl={broker.http}\n")
        if words[2] not in ("add", "import-client-conf"):
            magnetar("context", "add", "prod", "--url", broker.url, "--admin-url", broker.http, "--use")
    ran = magnetar(*words[1:])
    assert ran.code == 0, f"{line}\n{ran.err}"
    assert "Traceback" not in ran.err


def test_every_single_command_says_what_it_is_for() -> None:
    for name in SINGLE:
        assert getattr(import_module(f"magnetar.cli.{name}"), name).__doc__
