"""The README, the page on consumers, the examples and the project of `spark init` work on one broker, in this order.

A new user starts one broker and tries one page after another: no page may find a topic of another kind, or messages of
another form, under the name that it uses.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from magnetar import Client
from magnetar.base.names import topic_name
from magnetar.spark import project
from magnetar.testing import Broker
from tests.examples.test_documents import SCRIPTS, SPARK, STORIES, blocks, check
from tests.examples.test_examples import EXAMPLES, TRIED, TRIED_IN_SPARK, run
from tests.servers.standalone import Standalone

SUITE = "test_orders.py"  # it starts brokers of its own
PLAIN = re.compile(r'(?:subscribe|create_producer|create_reader)\(\s*"([^":]+)"')
SCALABLE = re.compile(r'"(topic://[^"]+)"')


def pages() -> dict[str, str]:
    """The programs of each page and example, in the order in which a new user meets them."""
    names = ("README.md", "docs/START.md", "docs/MOVING_FROM_PULSAR.md", *STORIES)
    found = {name: "\n".join(block for _, block in blocks(name)) for name in names}
    found |= {name: (EXAMPLES / name).read_text(encoding="utf-8") for name in sorted(TRIED | TRIED_IN_SPARK)}
    found["spark init"] = project.files(Path("shop"), url="pulsar://localhost:6650")["app.py"]
    return found


def topics(program: str) -> set[str]:
    return {topic_name(name).local_name for name in [*PLAIN.findall(program), *SCALABLE.findall(program)]}


def test_pages_and_examples_share_no_topic_name() -> None:
    named = {page: topics(text) for page, text in pages().items() if page != SUITE}
    assert all(named.values()), named
    shared = {(one, other): named[one] & named[other] for one, other in combinations(named, 2)}
    assert {pair: names for pair, names in shared.items() if names} == {}


def run_pages(url_owner: Broker | Standalone) -> None:
    scripts = [block for where, block in SCRIPTS if where.startswith("README.md")]
    for script in [*scripts, *("\n".join(block for _, block in blocks(story)) for story in STORIES)]:
        check(script, url_owner)
    for example in sorted(TRIED - {SUITE}):
        assert run(example, url_owner)


def test_pages_and_examples_run_in_order_on_one_broker(magnetar_broker_function: Broker) -> None:
    run_pages(magnetar_broker_function)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_pages_run_on_broker_of_others(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'magnetar[spark]'")
    from tests.examples import test_spark

    assert len(SPARK) == 1
    with Standalone(tmp_path / "broker") as server:
        run_pages(server)
        with Client(server.url) as client:
            test_spark.publish_page_orders(server, client)
        done = test_spark.run(tmp_path, server.url)
        assert done.returncode == 0, done.stderr[-4000:]
        create = ["topic", "create", project.TOPIC, "--admin-url", server.http]
        init = ["spark", "init", "shop", "--url", server.url]
        for words, folder in ((create, "."), (init, "."), (["spark", "run", "app.py", "--url", server.url], "shop")):
            command = [sys.executable, "-m", "magnetar.cli.main", *words]
            ran = subprocess.run(command, cwd=tmp_path / folder, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr[-4000:]
