"""Whether what a query names is there: `load()` asks once, so that a mistake is told at once and in three lines.

Later the same mistake ends a query after its whole machinery has started, below a page of Java. Asks the broker and
changes nothing. Every error says what is wrong, why, and what to do.
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
    """`NotReady`: no broker answers. `TopicNotFound`: a topic is missing, or its namespace."""
    await broker(client)
    if namespace:
        await _there(client, namespace)
    for topic in topics:
        known = shapes(client, topic)
        try:
            await known.now()
        except TopicNotFound as error:
            raise await missing(client, topic, error) from None
        finally:
            await known.close()


async def _there(client: ReadClient, namespace: str) -> None:
    try:
        await client.lookup.topics(namespace)
    except TopicNotFound as error:
        raise TopicNotFound(
            f"option namespace: there is no namespace {namespace} at {client.url}\n"
            f"  why: a query reads the topics that come, in a namespace that exists; the broker said: {error}\n"
            f"  do: create it (magnetar namespace create {namespace}), or correct the option"
        ) from None


async def broker_check(url: str) -> Check:
    """For the doctor: does a broker answer there, and which?"""
    try:
        client = ReadClient(url)
    except MagnetarError as error:
        return Check("broker", False, f"{url}: {error}", "give --url, or set MAGNETAR_URL")
    try:
        version = await broker(client)
    except MagnetarError as error:
        why = str(error).splitlines()[1].strip().removeprefix("why: ")
        return Check("broker", False, f"none at {url}: {why}", "magnetar standalone, or give --url")
    finally:
        await client.close()
    return Check("broker", True, f"{version or 'one'} at {url}")


async def broker(client: ReadClient) -> str:
    """The version that the broker announces."""
    try:
        async with asyncio.timeout(SPARK_REACH_S * 2):  # a refusal ends it before, and says why
            made = await persist(client.runtime, SPARK_REACH_S, client.lookup.service, what="connecting")
    except TimeoutError:
        raise unreachable(client.url, f"nothing answered within {SPARK_REACH_S * 2:g} s") from None
    except MagnetarError as error:
        raise unreachable(client.url, str(error.__cause__ or error)) from None
    return made.server_version


def unreachable(url: str, why: str) -> NotReady:
    return NotReady(
        f"option url: no broker answers at {url}\n"
        f"  why: {why}\n"
        "  do: start a broker (magnetar standalone), or correct the option; magnetar spark doctor --url asks again"
    )


async def missing(client: ReadClient, topic: str, told: TopicNotFound) -> TopicNotFound:
    """What to say of a topic that is not there; its namespace may be what is missing."""
    namespace = str(topic_name(topic).namespace)
    try:
        await client.lookup.topics(namespace)
    except TopicNotFound:
        return TopicNotFound(
            f"option topic: there is no namespace {namespace} at {client.url}, which {topic} would be in\n"
            "  why: topics are created in namespaces that exist\n"
            f"  do: create both (magnetar namespace create {namespace}; magnetar topic create {topic}), or correct the "
            "option"
        )
    except MagnetarError:
        pass  # it told enough before
    return TopicNotFound(
        f"option topic: there is no {topic} at {client.url}\n"
        f"  why: a query reads what is there and creates no topic; the broker said: {told}\n"
        f"  do: create it (magnetar topic create {topic}), or correct the option"
    )
