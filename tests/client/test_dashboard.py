"""The dashboard in the repository asks only for metrics and labels that a live broker has; backlogs outlive a kill."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import magnetar
from magnetar import InitialPosition
from magnetar.observe.families import FAMILIES
from tests.servers.standalone import Standalone

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "magnetar.json"
TOPIC = "topic://public/default/dashboard"
PLAIN = "persistent://public/default/dashboard-plain"
OF_PROMETHEUS = {"instance", "__name__"}  # labels that a scrape adds
WAIT_S = 90  # the look at all scalable topics comes every thirty seconds
Live = dict[str, set[str]]  # labels by the name of a sample


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


def scrape(server: Standalone) -> str:
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def live(text: str) -> Live:
    found: Live = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, set()).update(one.labels)
    return found


def asked(dashboard: dict[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    variables = [one["query"] for one in dashboard["templating"]["list"]]
    return panels + [one["query"] for one in variables if isinstance(one, dict)]


def names_and_labels(expression: str) -> list[tuple[str, set[str]]]:
    """Of every selector, with the labels that the aggregation around it keeps."""
    kept = {label for some in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", some)}
    kept |= set(re.findall(r", (\w+)\)$", expression)) if expression.startswith("label_values") else set()
    found = []
    for name, inside in re.findall(r"([a-z_]\w*)?\{([^}]*)\}", expression):
        labels = set(re.findall(r'(\w+)=~?"', inside)) | kept
        several = re.findall(r'__name__=~"([^"]*)"', inside)
        found += [(one, labels) for one in (several[0].split("|") if several else [name])]
    bare = re.findall(r"label_values\((\w+),", expression)
    return found + [(one, kept) for one in bare]


def test_dashboard_uses_only_metrics_and_labels_that_exist(server):
    with magnetar.Client(server.url) as client, magnetar.Admin(server.http) as admin:
        admin.scalable.create(TOPIC, segments=1)
        client.hold(TOPIC, "nightly", expires_s=3600)
        client.stream_consumer(TOPIC, "s", initial_position=InitialPosition.EARLIEST).close()
        with client.subscribe(PLAIN, "s"), client.create_producer(PLAIN) as producer:
            producer.send(b"1")
        with client.create_producer(TOPIC) as producer:
            producer.send(b"1", key="k")
        admin.scalable.split(TOPIC, 0)
    wanted = [one for expression in asked(json.loads(DASHBOARD.read_text())) for one in names_and_labels(expression)]
    assert len(wanted) > 40
    deadline = time.monotonic() + WAIT_S
    while missing := {name for name, _ in wanted} - (found := live(scrape(server))).keys():
        assert time.monotonic() < deadline, missing
        time.sleep(0.5)
    for name, labels in wanted:
        assert labels - OF_PROMETHEUS <= found[name] | {"cluster"}, name


def test_every_family_of_live_broker_is_in_table(server):
    for name in live(scrape(server)):
        assert name in FAMILIES or re.sub("_(bucket|sum|count)$", "", name) in FAMILIES, name
    for name in ("process_resident_memory_bytes", "process_open_fds", "magnetar_data_free_bytes"):
        assert re.search(rf"^{name}{{[^}}]*}} [1-9]", scrape(server), re.MULTILINE), name


def test_backlog_is_shown_after_kill_without_clients(server):
    topic = "persistent://public/default/left"
    with magnetar.Client(server.url) as client:
        client.subscribe(topic, "s").close()
        with client.create_producer(topic) as producer:
            for _ in range(5):
                producer.send(b"x")
    server.kill()
    server.start()
    sample = re.compile(rf'^magnetar_subscription_lag_messages{{[^}}]*topic="{topic}"[^}}]*}} 5$', re.MULTILINE)
    deadline = time.monotonic() + WAIT_S
    while not sample.search(scrape(server)):
        assert time.monotonic() < deadline, scrape(server)
        time.sleep(0.5)
