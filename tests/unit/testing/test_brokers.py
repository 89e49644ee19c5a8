"""Brokers in this process: up and down without a trace, several at once, killed and back on the same ports."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from magnetar.base.errors import Conflict, Misuse
from magnetar.testing import AsyncBroker, Broker, broker


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Threads and descriptors after a test are those before it."""
    resource_tracker.ensure_running()
    with broker():  # what is loaded or opened once is so now
        pass
    threads, descriptors = _threads(), len(os.listdir("/proc/self/fd"))
    yield
    assert _threads() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_broker_answers_and_is_gone_with_its_directory() -> None:
    with broker() as b:
        assert b.running
        assert _health(b) == "ok"
        assert b.data.is_dir()
    assert not b.running
    assert not b.data.exists()
    assert _refuses(b.url)
    assert _refuses(b.admin_url)


def test_in_async_with_what_waits_is_awaited() -> None:
    async def body() -> AsyncBroker:
        async with broker() as b:
            assert (await b.new_namespace("orders")).startswith("public/orders-")
            one = await b.isolated()
            assert one.topic("t") == f"persistent://{one.namespace}/t"
            assert one.namespace != b.namespace
            url = b.url
            await b.restart()
            await b.kill()
            assert not b.running
            await b.restart()
            assert b.running
            assert (b.url, one.url) == (url, url)
            await b.stop()
            await b.start()
            assert b.admin_url == one.admin_url
            assert b.data == one.data
        return b

    b = asyncio.run(body())
    assert not b.data.exists()


def test_several_at_once_share_nothing() -> None:
    with broker() as one, broker() as two:
        assert len({one.url, two.url, one.admin_url, two.admin_url}) == 4
        assert one.data != two.data
        name = one.new_namespace("only-here")
        one.kill()
        assert _health(two) == "ok"
        assert name not in _namespaces(two)


def test_killed_broker_returns_on_same_ports_with_data() -> None:
    with broker() as b:
        before = (b.url, b.admin_url)
        name = b.new_namespace("kept")
        with _connected(b.url) as peer:
            b.kill()
            assert _hung_up(peer)
        assert not b.running
        assert _refuses(b.url)
        b.start()
        assert (b.url, b.admin_url) == before
        assert name in _namespaces(b)


def test_killed_broker_never_ends_in_order() -> None:
    """Stopping writes the end of its session; a process that dies does not, and neither does `kill`."""
    with broker() as b:
        b.kill()
        with pytest.raises(Misuse, match="not running"):
            b.stop()
        with pytest.raises(Misuse, match="not running"):
            b.kill()
        with pytest.raises(Misuse, match="not running"):
            b.new_namespace()


def test_starting_broker_that_runs_is_refused() -> None:
    with broker() as b, pytest.raises(Misuse, match="running"):
        b.start()


def test_stopped_broker_starts_again_with_its_data() -> None:
    with broker() as b:
        name = b.new_namespace()
        b.stop()
        b.restart()
        assert name in _namespaces(b)


def test_directory_that_was_given_is_left_there_and_carries_over(tmp_path: Path) -> None:
    with broker(data=tmp_path / "mine") as b:
        first = b.new_namespace("orders")
    with broker(data=str(tmp_path / "mine")) as b:
        assert first in _namespaces(b)
        assert b.new_namespace("orders") != first
    assert (tmp_path / "mine" / "metadata.db").exists()


def test_second_broker_on_directory_is_refused_and_first_continues(tmp_path: Path) -> None:
    with broker(data=tmp_path) as one:
        with pytest.raises(Conflict, match="in use"), broker(data=tmp_path):
            pass
        assert _health(one) == "ok"


def test_fast_keeps_its_promises_too() -> None:
    with broker(fast=True) as b:
        name = b.new_namespace()
        b.kill()
        b.start()
        assert name in _namespaces(b)
    assert not b.data.exists()


def test_settings_by_mapping_and_by_keyword() -> None:
    with broker({"clusterName": "elsewhere"}, brokerDeduplicationEnabled=True, maxMessageSize=1000) as b:
        assert httpx2.get(f"{b.admin_url}/admin/v2/clusters").json() == ["elsewhere"]


def test_unknown_setting_is_refused_with_suggestion() -> None:
    with pytest.raises(Misuse, match="did you mean brokerDeduplicationEnabled"), broker(brokerDeduplicationEnable=True):
        pass


def test_setting_of_wrong_form_is_refused_and_nothing_stays() -> None:
    with pytest.raises(Misuse, match="maxMessageSize"), broker(maxMessageSize="large"):
        pass


def test_namespaces_are_named_after_hint_and_never_twice() -> None:
    with broker() as b:
        names = [b.new_namespace("test_orders[fast-1]") for _ in range(3)]
        assert len(set(names)) == 3
        assert all(name.startswith("public/test-orders-fast-1-") for name in names)
        assert set(names) <= set(_namespaces(b))
        one = b.isolated()
        assert one.topic("t", persistent=False) == f"non-persistent://{one.namespace}/t"
        assert b.topic("t") == "persistent://public/default/t"


def test_test_s_own_error_is_one_that_comes_out() -> None:
    def body() -> None:
        with broker() as b:
            b.kill()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()


@pytest.mark.parametrize("where", ["starting", "inside", "stopping"])
@pytest.mark.real_clock
async def test_cancelled_while_it_starts_runs_or_stops_nothing_stays(where: str) -> None:
    async def use(entered: asyncio.Event) -> None:
        async with broker():
            entered.set()
            if where == "inside":
                await asyncio.Event().wait()

    entered = asyncio.Event()
    task = asyncio.ensure_future(use(entered))
    await asyncio.sleep(0)
    if where != "starting":
        await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # newer Pythons warn of threads beside a fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_process_makes_its_own_and_leaves_parent_s_alone(method: str) -> None:
    context = multiprocessing.get_context(method)
    with broker() as b:
        ours, theirs = context.Pipe()
        child = context.Process(target=_child, args=(theirs, b if method == "fork" else None))
        child.start()
        theirs.close()
        url = ours.recv()
        assert url != b.url
        ours.send("end")
        child.join()
        ours.close()
        assert child.exitcode == 0
        child.close()
        assert _health(b) == "ok"
        assert b.data.is_dir()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # newer Pythons warn of threads beside a fork
def test_forked_child_that_lives_on_hides_neither_kill_nor_stop() -> None:
    """It has copies of every descriptor: peers must hear of the end all the same, and the lock must be free."""
    context = multiprocessing.get_context("fork")
    with broker() as b, _connected(b.url) as first:
        ours, theirs = context.Pipe()
        child = context.Process(target=_idle, args=(theirs,))
        child.start()
        theirs.close()
        b.kill()
        assert _hung_up(first)
        b.start()
        with _connected(b.url) as second:
            b.stop()
            assert _hung_up(second)
        b.start()
        assert _health(b) == "ok"
        ours.send("end")
        child.join()
        ours.close()
        child.close()


def _child(pipe: Connection, inherited: Broker | None) -> None:
    if inherited is not None:
        with pytest.raises(Misuse, match="another process"):
            inherited.new_namespace()
        inherited._host.close()  # what a forked child's leaving of the parent's block comes to: nothing
    with broker() as b:
        assert _health(b) == "ok"
        pipe.send(b.url)
        pipe.recv()


def _idle(pipe: Connection) -> None:
    pipe.recv()


def _threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


def _health(b: Broker) -> str:
    return httpx2.get(f"{b.admin_url}/admin/v2/brokers/health").text


def _namespaces(b: Broker) -> list[str]:
    names: list[str] = httpx2.get(f"{b.admin_url}/admin/v2/namespaces/public").json()
    return names


def _connected(url: str) -> socket.socket:
    found = urlsplit(url)
    assert found.hostname is not None
    return socket.create_connection((found.hostname, found.port or 0), timeout=30)


def _hung_up(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def _refuses(url: str) -> bool:
    try:
        _connected(url).close()
    except ConnectionRefusedError:
        return True
    return False
