"""The way from Spark's Python processes to brokers.

A source has a client that only reads, which is there much sooner than a whole one: Spark starts a process for every
query and waits for it. Spark forks its workers and pickles its readers, so nothing here is kept in them: constructors
open no socket.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from magnetar.base.errors import TopicNotFound
from magnetar.base.names import topic_name
from magnetar.client import process
from magnetar.client.backoff import persist
from magnetar.client.ranges import EARLIEST, RangeReader
from magnetar.client.reads import Reads
from magnetar.layout.stretch import DONE, START, Place
from magnetar.spark.counted import CountedFacts
from magnetar.spark.facts import Facts
from magnetar.spark.measured import MeasuredFacts
from magnetar.spark.options import SourceOptions
from magnetar.spark.query import Query

T = TypeVar("T")


def run(url: str, call: Callable[[Reads], Coroutine[Any, Any, T]]) -> T:
    """On this process's way to these brokers, blocking."""
    return process.run(Reads, url, call)


def planned(asked: SourceOptions, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a query asks before it reads anything: here it turns out that its topic is not there."""
    try:
        return run(asked.url, lambda _: call())
    except TopicNotFound as error:
        raise TopicNotFound(
            f"option topic: there is no {asked.topic} at {asked.url}: make it (magnetar topic create {asked.topic}), "
            "or mend the option",
            told=str(error),
        ) from None


def query(asked: SourceOptions) -> Query:
    async def made(client: Reads) -> Query:
        return Query(asked, await facts(client, asked.topic, asked.subscription), client.runtime.monotonic)

    return run(asked.url, made)


async def facts(client: Reads, topic: str, subscription: str = "") -> Facts:
    """As exact as the server can: one that announced our extensions plans, any other is asked what it can be asked."""
    made = await persist(client.runtime, client.operation_timeout_s, client.lookup.service, what="connecting")
    ours = made.features.magnetar_extensions > 0 and topic_name(topic).is_scalable
    kind = MeasuredFacts if ours else CountedFacts
    return kind(client, topic, subscription=subscription)


def entries(url: str, topic: str, start: Place, end: Place) -> Iterator[tuple[int, int, bytes]]:
    """Those that a piece of a task may have rows in, as they are stored."""
    first = EARLIEST if start == START else start[:2]
    last = None if end == DONE else (end.ledger, end.entry + (end.row > 0))

    async def opened(client: Reads) -> RangeReader:
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
