"""The fixtures as their users meet them: whole suites in processes of their own, with the stock client where they need
one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testing.suites import run_suite

TEN_TESTS = """
    import pulsar
    import pytest

    @pytest.fixture
    def client(magnetar_broker):
        client = pulsar.Client(magnetar_broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        yield client
        client.close()

    @pytest.mark.parametrize("number", range(10))
    def test_orders(magnetar_broker, client, number, record_property):
        record_property(f"url-{number}", magnetar_broker.url)
        record_property(f"namespace-{number}", magnetar_broker.namespace)
        topic = magnetar_broker.topic("orders")
        consumer = client.subscribe(topic, "mine")
        producer = client.create_producer(topic)
        producer.send(f"order {number}".encode())
        message = consumer.receive(10_000)
        assert message.data() == f"order {number}".encode()
        consumer.acknowledge(message)
"""


def test_whole_file_of_ten_tests_shares_broker_and_nothing_else(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The same topic name in every test, and each finds its own message alone. How long it took is what --durations
    tells of this test, and is not judged here."""
    outcome = run_suite(tmp_path, {"test_orders.py": TEN_TESTS})
    assert outcome.code == 0, outcome.output
    assert len(outcome.passed) == 10
    assert len({value for key, value in outcome.said.items() if key.startswith("url-")}) == 1
    assert len({value for key, value in outcome.said.items() if key.startswith("namespace-")}) == 10
    assert outcome.left == []
    record_property("took_s", round(outcome.took_s, 2))


SCOPED = """
    def test_one(magnetar_broker, record_property):
        record_property("{name}-one", str(magnetar_broker.data))

    def test_two(magnetar_broker, record_property):
        record_property("{name}-two", str(magnetar_broker.data))
"""


@pytest.mark.parametrize(
    ("options", "distinct"),
    [([], 1), (["-o", "magnetar_broker_scope=module"], 2), (["-o", "magnetar_broker_scope=function"], 4)],
    ids=["session", "module", "function"],
)
def test_ini_option_says_how_long_broker_lives(tmp_path: Path, options: list[str], distinct: int) -> None:
    files = {f"test_{name}.py": SCOPED.format(name=name) for name in ("a", "b")}
    outcome = run_suite(tmp_path, files, *options)
    assert outcome.code == 0, outcome.output
    assert len(outcome.said) == 4
    assert len(set(outcome.said.values())) == distinct
    assert outcome.left == []


def test_mark_chooses_for_module_and_for_test(tmp_path: Path) -> None:
    text = """
        import pytest

        pytestmark = pytest.mark.magnetar(scope="module")

        def test_module(magnetar_broker, magnetar_broker_module, magnetar_broker_session):
            assert magnetar_broker.url == magnetar_broker_module.url != magnetar_broker_session.url

        @pytest.mark.magnetar(scope="session")
        def test_session(magnetar_broker, magnetar_broker_module, magnetar_broker_session):
            assert magnetar_broker.url == magnetar_broker_session.url != magnetar_broker_module.url

        @pytest.mark.magnetar(scope="function")
        def test_function(magnetar_broker, magnetar_broker_function, magnetar_broker_session):
            assert magnetar_broker.url == magnetar_broker_function.url != magnetar_broker_session.url
    """
    outcome = run_suite(tmp_path, {"test_marks.py": text}, "--strict-markers")
    assert outcome.code == 0, outcome.output


def test_settings_of_suite_and_of_one_test(tmp_path: Path) -> None:
    conftest = """
        import pytest

        @pytest.fixture(scope="session")
        def magnetar_broker_settings():
            return {"clusterName": "ours"}
    """
    text = """
        import httpx2
        import pytest

        def clusters(broker):
            return httpx2.get(f"{broker.admin_url}/admin/v2/clusters").json()

        def test_all(magnetar_broker):
            assert clusters(magnetar_broker) == ["ours"]

        @pytest.mark.magnetar(settings={"clusterName": "mine"})
        def test_mine(magnetar_broker, magnetar_broker_session):
            assert clusters(magnetar_broker) == ["mine"]
            assert clusters(magnetar_broker_session) == ["ours"]

        @pytest.mark.magnetar(scope="session", settings={"clusterName": "mine"})
        def test_contradiction(magnetar_broker):
            pass

        @pytest.mark.magnetar(settings={"clusterNam": "mine"})
        def test_misspelt(magnetar_broker):
            pass
    """
    outcome = run_suite(tmp_path, {"conftest.py": conftest, "test_settings.py": text})
    assert sorted(outcome.passed) == ["test_all", "test_mine"], outcome.output
    assert "settings in a magnetar mark requires a broker for one test" in outcome.failed["test_contradiction"]
    assert "did you mean clusterName?" in outcome.failed["test_misspelt"]


def test_test_that_kills_broker_leaves_next_one_running_broker(tmp_path: Path) -> None:
    text = """
        def test_kills(magnetar_broker):
            magnetar_broker.kill()

        def test_stops(magnetar_broker):
            assert magnetar_broker.running
            magnetar_broker.stop()

        def test_goes_on(magnetar_broker, magnetar_broker_session):
            assert magnetar_broker.running
            assert magnetar_broker.url == magnetar_broker_session.url
    """
    outcome = run_suite(tmp_path, {"test_kill.py": text})
    assert outcome.code == 0, outcome.output
    assert outcome.left == []


def test_every_worker_of_xdist_has_its_own_broker(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, {f"test_{n}.py": SCOPED.format(name=n) for n in "abcd"}, "-n", "2")
    assert outcome.code == 0, outcome.output
    assert len(outcome.passed) == 8
    assert 1 <= len(set(outcome.said.values())) <= 2
    assert outcome.left == []


def test_plugin_loads_nothing_until_test_asks_for_it(tmp_path: Path) -> None:
    text = """
        import sys
        import threading

        def test_nothing():
            ours = [name for name in sys.modules if name.startswith("magnetar")]
            assert sorted(ours) == ["magnetar", "magnetar.testing", "magnetar.testing.plugin"]
            assert threading.active_count() == 1
    """
    outcome = run_suite(tmp_path, {"test_unused.py": text})
    assert outcome.code == 0, outcome.output


def test_missing_broker_packages_name_extra_and_other_tests_run(tmp_path: Path) -> None:
    conftest = """
        import sys

        sys.modules["starlette"] = None  # as if it were not installed
    """
    text = """
        def test_other():
            pass

        def test_broker(magnetar_broker):
            pass
    """
    outcome = run_suite(tmp_path, {"conftest.py": conftest, "test_missing.py": text})
    assert outcome.passed == ["test_other"]
    assert "pip install 'magnetar[broker]'" in outcome.failed["test_broker"]
    assert "Traceback" not in outcome.output
    assert outcome.left == []


def test_scope_that_does_not_exist_is_usage_error(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, {"test_x.py": SCOPED.format(name="x")}, "-o", "magnetar_broker_scope=package")
    assert outcome.code == pytest.ExitCode.USAGE_ERROR
    assert "magnetar_broker_scope must be one of session, module, function, not 'package'" in outcome.output


def test_what_fixtures_are_for_is_told_by_pytest_itself(tmp_path: Path) -> None:
    shown = run_suite(tmp_path / "fixtures", {"test_x.py": SCOPED.format(name="x")}, "--fixtures").output
    for name in (
        "magnetar_aio_client",
        "magnetar_admin",
        "magnetar_broker",
        "magnetar_broker_session",
        "magnetar_broker_module",
        "magnetar_broker_function",
    ):
        assert name in shown
    assert (
        "@pytest.mark.magnetar(scope=None, settings=None, clock=False)"
        in run_suite(tmp_path / "markers", {"test_x.py": SCOPED.format(name="x")}, "--markers").output
    )


CLIENTS = """
import asyncio

import pytest


def test_awaits(magnetar_broker, magnetar_aio_client, magnetar_admin):
    topic = magnetar_broker.topic("orders")

    async def body():
        async with magnetar_aio_client as client, client.create_producer(topic) as producer:
            await producer.send(b"x")

    asyncio.run(body())
    assert magnetar_admin.topics.list(magnetar_broker.namespace) == [topic]


@pytest.mark.magnetar(clock=True)
def test_moves_the_clock(magnetar_broker, magnetar_broker_session):
    magnetar_broker.clock.advance(60)
    assert magnetar_broker.url != magnetar_broker_session.url


@pytest.mark.magnetar(clock=True, scope="session")
def test_contradiction(magnetar_broker):
    pass
"""


def test_asyncio_client_admin_and_clock_are_fixtures(tmp_path: Path) -> None:
    outcome = run_suite(tmp_path, {"test_x.py": CLIENTS})
    assert (len(outcome.passed), outcome.code) == (2, pytest.ExitCode.TESTS_FAILED)
    assert "scope must not be 'session'" in outcome.output
