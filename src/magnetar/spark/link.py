"""The way from Spark's Python processes to brokers: one client for a process and a service URL, made when it is first
used.

Spark forks its workers and pickles its readers, so nothing here is kept in them: constructors open no socket, and a
forked child gets a client of its own. Clients live as long as their process, which Spark ends without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from magnetar.base.names import topic_name
from magnetar.client.backoff import persist
from magnetar.client.client import Client
from magnetar.client.ranges import EARLIEST, RangeReader
from magnetar.client.sync.client import Client as BlockingClient
from magnetar.spark.counted import CountedFacts
from magnetar.spark.facts import Facts
from magnetar.spark.frontier import DONE, START, RowPosition
from magnetar.spark.measured import MeasuredFacts
from magnetar.spark.options import SourceOptions
from magnetar.spark.query import Query

T = TypeVar("T")

_clients: dict[str, BlockingClient] = {}


def run(url: str, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """On this process's client of these brokers, blocking."""
    found = _clients.get(url)
    if found is None:
        found = _clients[url] = BlockingClient(url)
    where, client = found.core()
    return where.run(lambda: call(client))


def query(asked: SourceOptions) -> Query:
    async def made(client: Client) -> Query:
        return Query(asked, await facts(client, asked.topic, asked.subscription), client.runtime.monotonic)

    return run(asked.url, made)


async def facts(client: Client, topic: str, subscription: str = "") -> Facts:
    """As exact as the server can: one that announced our extensions plans, any other is asked what it can be asked."""
    made = await persist(client.runtime, client.operation_timeout_s, client.lookup.service, what="connecting")
    ours = made.features.magnetar_extensions > 0 and topic_name(topic).is_scalable
    kind = MeasuredFacts if ours else CountedFacts
    return kind(client, topic, subscription=subscription)


def entries(url: str, topic: str, start: RowPosition, end: RowPosition) -> Iterator[tuple[int, int, bytes]]:
    """Those that a piece of a task may have rows in, as they are stored."""
    first = EARLIEST if start == START else start[:2]
    last = None if end == DONE else (end.ledger, end.entry + (end.row > 0))

    async def opened(client: Client) -> RangeReader:
        reader = RangeReader(client.lookup, topic, first, last)
        try:
            await reader.open()
        except BaseException:
            await reader.close()
            raise
        return reader

    reader = run(url, opened)
    try:
        while found := run(url, lambda _: reader.take()):
            yield from found
    finally:
        run(url, lambda _: reader.close())
