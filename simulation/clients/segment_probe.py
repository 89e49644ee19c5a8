"""Sends one message to every active segment of a scalable topic in a healed world: each range must be writable.

The messages are like all others: consumers get them, and checkers judge them. One that is not stored in time is a
finding of invariant 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.base.errors import MagnetarError
from magnetar.client.client import Client
from magnetar.layout.routing import DEFAULT, segment_hash
from simulation import history as record
from simulation.clients.consumer import place_of
from simulation.history import FAIL, INVOKE, OK, History, Value
from simulation.world.workload import TopicPlan

WAIT_S = 100.0
KEYS_MAX = 100_000


async def probe_segments(
    history: History,
    client: Client,
    topic: TopicPlan,
    actives: Sequence[tuple[int, int, int]],
    numbers: dict[str, int],
) -> None:
    name = f"{topic.topic.rsplit('/', 1)[-1]}-probe"
    try:
        producer = await client.create_producer(topic.address, send_timeout_s=WAIT_S, follow=topic.regular)
    except MagnetarError as error:
        history.note(name, record.PROBE, FAIL, topic.topic, error=type(error).__name__)
        return
    session = history.session()
    for segment, start, end in actives:
        number = numbers[name] = numbers.get(name, -1) + 1
        value = Value(name, _key(start, end), number)
        history.note(name, record.SEND, INVOKE, topic.topic, value=value, session=session)
        try:
            id = await producer.send(value.payload, key=value.key)
        except MagnetarError as error:
            history.failed(name, record.SEND, error, topic.topic, value=value, session=session)
            history.note(name, record.PROBE, FAIL, topic.topic, segment=segment, error=type(error).__name__)
            continue
        history.note(
            name,
            record.SEND,
            OK,
            topic.topic,
            value=value,
            place=place_of(id),
            session=session,
            segment=id.segment,
        )
        history.note(name, record.PROBE, OK, topic.topic, segment=id.segment)
    await producer.close()


def _key(start: int, end: int) -> str:
    """A key that belongs to the range."""
    return next(key for key in map(str, range(KEYS_MAX)) if start <= segment_hash(key, DEFAULT) <= end)
