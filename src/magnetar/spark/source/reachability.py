"""Checks that the broker and the topics of a query exist. `load()` runs it once, so that a mistake appears immediately
and in three lines.

Later, the same mistake would end a query after its complete start, below a page of Java output. It sends only reads.
Every error states the problem, the reason, and the remedy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from magnetar.base.errors import MagnetarError, NotReady, TopicNotFound
from magnetar.base.limits import SPARK_REACH_S
from magnetar.base.names import topic_name
from magnetar.client.connection.backoff import persist
from magnetar.client.read_client import ReadClient
from magnetar.spark.environment import Check
from magnetar.spark.source.topic_layout import shapes


async def reach(client: ReadClient, topics: Sequence[str], namespace: str = "") -> None:
    """`NotReady`: no broker answers. `TopicNotFound`: a topic or its namespace is missing."""
    await broker(client)
    if namespace:
        await _there(client, namespace)
    for topic in topics:
        layouts = shapes(client, topic)
        try:
            await layouts.now()
        except TopicNotFound as error:
            raise await missing(client, topic, error) from None
        finally:
            await layouts.close()


async def _there(client: ReadClient, namespace: str) -> None:
    try:
        await client.lookup.topics(namespace)
    except TopicNotFound as error:
        raise TopicNotFound(
            f"option namespace: namespace {namespace} does not exist at {client.url}\n  why: a query follows "
            f"new topics only in an existing namespace; the broker replied: {error}\n  do: create it (magnetar "
            f"namespace create {namespace}), or correct the option"
        ) from None


async def broker_check(url: str) -> Check:
    """The doctor's check whether a broker answers, and its version."""
    try:
        client = ReadClient(url)
    except MagnetarError as error:
        return Check("broker", False, f"{url}: {error}", "set --url, or MAGNETAR_URL")
    try:
        version = await broker(client)
    except MagnetarError as error:
        why = str(error).splitlines()[1].strip().removeprefix("why: ")
        return Check("broker", False, f"none at {url}: {why}", "run magnetar standalone, or set --url")
    finally:
        await client.close()
    return Check("broker", True, f"{version or 'one'} at {url}")


async def broker(client: ReadClient) -> str:
    """The version that the broker announces."""
    try:
        async with asyncio.timeout(SPARK_REACH_S * 2):  # a rejected connection ends the wait earlier, with its reason
            connection = await persist(client.runtime, SPARK_REACH_S, client.lookup.service, what="connecting")
    except TimeoutError:
        raise unreachable(client.url, f"no answer within {SPARK_REACH_S * 2:g} s") from None
    except MagnetarError as error:
        raise unreachable(client.url, str(error.__cause__ or error)) from None
    return connection.server_version


def unreachable(url: str, why: str) -> NotReady:
    return NotReady(
        f"option url: no broker answers at {url}\n  why: {why}\n  do: start a broker (magnetar standalone), or "
        "correct the option; magnetar spark doctor --url checks it again"
    )


async def missing(client: ReadClient, topic: str, error: TopicNotFound) -> TopicNotFound:
    """The error for a missing topic; it names the namespace if that is missing."""
    namespace = str(topic_name(topic).namespace)
    try:
        await client.lookup.topics(namespace)
    except TopicNotFound:
        return TopicNotFound(
            f"option topic: namespace {namespace} of topic {topic} does not exist at {client.url}\n  why: "
            "topics are created in existing namespaces\n  do: create both (magnetar namespace create "
            f"{namespace}; magnetar topic create {topic}), or correct the option"
        )
    except MagnetarError:
        pass  # the first error has enough detail
    return TopicNotFound(
        f"option topic: {topic} does not exist at {client.url}\n  why: a query creates no topic; the broker "
        f"replied: {error}\n  do: create it (magnetar topic create {topic}), or correct the option"
    )
