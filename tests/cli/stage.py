"""What the examples of help texts speak of: orders with a subscription billing, clicks, a shop, a tenant acme."""

from __future__ import annotations

import asyncio
import itertools
import shlex
from pathlib import Path

import pytest

from magnetar import Client, aio
from magnetar.client.staged_sink import StagedSink
from tests.cli.conftest import Run
from tests.servers.standalone import Standalone

_numbers = itertools.count()


def staged(line: str, magnetar: Run, broker: Standalone, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of an example, and everything there that it needs and nothing that is in its way."""
    for path in ("scalable/public/default/visits", "scalable/public/default/orders"):  # that one after a migration
        broker.ask("DELETE", f"/admin/v2/{path}", force="true")
    for path in ("persistent/public/default/orders", "persistent/public/default/payments/partitions"):
        broker.ask("DELETE", f"/admin/v2/{path}", force="true")
    for path in ("namespaces/public/shop", "namespaces/public/archive", "tenants/acme"):
        broker.ask("DELETE", f"/admin/v2/{path}", force="true")
    words = [word for word in shlex.split(line) if not word.startswith("--watch")]  # it would not end by itself
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
        if "billing" in words:
            broker.ask("PUT", f"/admin/v2/scalable/public/default/{own}/subscriptions/billing", type="STREAM")
        if words[1:3] == ["message", "consume"]:
            magnetar("message", "produce", f"topic://public/default/{own}", "click")
        for hold in ("nightly", "readers"):
            if words[1] == "hold" and hold in words:
                with Client(broker.url) as client:
                    client.hold(f"topic://public/default/{own}", hold)
        if words[1] == "sink":
            asyncio.run(_sink(broker.url, f"topic://public/default/{own}", "nightly"))
    if words[1:3] in (["namespace", "delete"], ["namespace", "set"]):
        broker.ask("PUT", "/admin/v2/namespaces/public/shop", {})
    if words[1:3] == ["tenant", "delete"]:
        broker.ask("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
    if words[1] == "schema":
        broker.ask(
            "POST", "/admin/v2/schemas/public/default/orders/schema", {"type": "STRING", "schema": "", "properties": {}}
        )
    if words[1:3] == ["autoscale", "simulate"]:
        monkeypatch.chdir(own_home)
        broker.ask("PUT", "/admin/v2/scalable/public/default/traced", {}, numInitialSegments="1")
        explained = magnetar("autoscale", "explain", "topic://public/default/traced", "-o", "jsonl")
        Path("trace.jsonl").write_text(explained.out)
    if words[1] == "spark":
        monkeypatch.chdir(own_home)
        own = f"read-{next(_numbers)}"
        broker.ask("PUT", f"/admin/v2/scalable/public/default/{own}", {}, numInitialSegments="1")
        Path("checkpoint/offsets").mkdir(parents=True, exist_ok=True)
        offset = f'{{"epoch":0,"seg":{{"0":"-1:-1"}},"topic":"topic://public/default/{own}","v":1}}'
        Path("checkpoint/offsets/0").write_text(f"v1\n{{}}\n{offset}\n")
    if words[1] == "context":
        monkeypatch.chdir(own_home)
        Path("conf").mkdir(exist_ok=True)
        Path("conf/client.conf").write_text(f"webServiceUrl={broker.http}\n")
        if words[2] not in ("add", "import-client-conf"):
            magnetar("context", "add", "prod", "--url", broker.url, "--admin-url", broker.http, "--use")
    return words


async def _sink(url: str, topic: str, name: str) -> None:
    async with aio.Client(url) as client:
        sink = StagedSink(client, topic, name)
        stage = await sink.begin(0)
        assert stage is not None
        await stage.producer.send(b"row")
        await stage.seal()
        await sink.commit(0, [stage.id])
