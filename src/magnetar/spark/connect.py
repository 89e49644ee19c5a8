"""Connections from Spark's Python processes to brokers.

A source uses a read-only client, which loads much faster than the complete one: Spark starts a process for every query
and waits for it. Spark forks its workers and pickles its readers, so readers hold no connection, and constructors open
no socket.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from magnetar.base.errors import TopicNotFound
from magnetar.base.names import topic_name
from magnetar.client import process_client
from magnetar.client.batch_read.range_reader import EARLIEST, RangeReader
from magnetar.client.connection.backoff import persist
from magnetar.client.consumer.scalable.namespace.watch import NamespaceWatch
from magnetar.client.read_client import ReadClient
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.spark.process import this_run
from magnetar.spark.source.magnetar_topics import MagnetarTopicInfo
from magnetar.spark.source.multi_query import Fixed, MultiQuery
from magnetar.spark.source.options import SourceOptions, Target
from magnetar.spark.source.pulsar_topics import PulsarTopicInfo
from magnetar.spark.source.query import AnyQuery, Query
from magnetar.spark.source.reachability import missing, reach
from magnetar.spark.source.subscription_claim import Claim
from magnetar.spark.source.topic_info import TopicInfo

T = TypeVar("T")


def run(url: str, call: Callable[[ReadClient], Coroutine[Any, Any, T]]) -> T:
    """Runs the call on this process's client for these brokers, and blocks."""
    return process_client.run(ReadClient, url, call)


def planned(options: SourceOptions, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a request of the planning phase. If the topic does not exist, the error explains it."""

    async def made(client: ReadClient) -> T:
        try:
            return await call()
        except TopicNotFound as error:
            raise await missing(client, options.topic, error) from None

    return run(options.url, made)


def check(url: str, target: Target) -> None:
    """Checks that a broker answers and that the topics exist. Runs once, before any reader is created."""
    run(url, lambda client: reach(client, target.topics, target.namespace))


def query(options: SourceOptions) -> AnyQuery:
    async def made(client: ReadClient) -> AnyQuery:
        number = client.runtime.rng("spark.runs").getrandbits(32)
        claim = Claim(this_run(number, client.runtime.wall()), tell)

        async def one(mine: SourceOptions) -> Query:
            info = await facts(client, mine.topic, mine.subscription, claim)
            return Query(mine, info, client.runtime.monotonic, tell)

        if not options.several:
            return await one(options)
        topics = NamespaceTopics(client, options) if options.namespace else Fixed(options.topics)
        return MultiQuery(options, topics, one, client.runtime.monotonic, tell)

    return run(options.url, made)


class NamespaceTopics:
    """The scalable topics of a namespace; the list follows created and deleted topics."""

    def __init__(self, client: ReadClient, options: SourceOptions) -> None:
        self._members = NamespaceWatch(
            client.lookup, options.namespace, dict(options.properties), changed=lambda gone, come: None
        )
        self._timeout_s = client.operation_timeout_s
        self._started = False

    async def names(self) -> list[str]:
        if not self._started:
            await self._members.start(self._timeout_s)
            self._started = True
        return sorted(self._members.known)

    async def close(self) -> None:
        await self._members.close()


def tell(warning: str) -> None:
    """Prints a warning on the driver's standard error, which users see. They rarely read the log of a task."""
    sys.stderr.write(f"magnetar: {warning}\n")
    sys.stderr.flush()


async def facts(client: ReadClient, topic: str, subscription: str = "", claim: Claim | None = None) -> TopicInfo:
    """As exact as the server allows: a broker with our extensions plans itself, any other server gets the standard
    requests.
    """
    connection = await persist(client.runtime, client.operation_timeout_s, client.lookup.service, what="connecting")
    ours = connection.features.magnetar_extensions > 0 and topic_name(topic).is_scalable
    kind = MagnetarTopicInfo if ours else PulsarTopicInfo
    return kind(client, topic, subscription=subscription, claim=claim)


def entries(url: str, topic: str, start: ReadPosition, end: ReadPosition) -> Iterator[tuple[int, int, bytes]]:
    """Stored entries that may contain rows of a task's range."""
    first = EARLIEST if start == START else start[:2]
    last = None if end == DONE else (end.ledger, end.entry + (end.row > 0))

    async def opened(client: ReadClient) -> RangeReader:
        reader = RangeReader(client.lookup, topic, first, last)
        try:
            await reader.open()
        except BaseException:
            await reader.close()
            raise
        return reader

    reader = run(url, opened)
    try:
        while batch := run(url, lambda _: reader.take()):
            yield from batch
    finally:
        run(url, lambda _: reader.close())
