"""What is no message, no id and no place, given to every kind of consumer: told at once, with what it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

import magnetar
from magnetar import InitialPosition, MessageId, Namespace, SubscriptionType, errors
from tests.servers.standalone import Standalone

NO_MESSAGE = (None, "x", b"\x08\x01", 7, ("1", 2), object())
NO_PLACE = (None, "latest", -1, 1.5, 2**64, object(), datetime(1900, 1, 1, tzinfo=UTC))
PLAIN = "persistent://public/default/slips"
SCALABLE = "topic://public/slips/slips"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("slips")) as running:
        running.admin("PUT", "namespaces/public/slips", {})
        yield running


def consumers(client: magnetar.Client) -> dict[str, Any]:
    first: Any = {"initial_position": InitialPosition.EARLIEST}
    pattern = re.compile("persistent://public/default/slip.*")
    return {
        "plain": client.subscribe(PLAIN, "a", retry=True, type=SubscriptionType.SHARED, **first),
        "ordered": client.subscribe(PLAIN, "b", **first),
        "several": client.subscribe([PLAIN, f"{PLAIN}-2"], "c", **first),
        "pattern": client.subscribe(pattern, "d", **first),
        "queue": client.queue_consumer(SCALABLE, "e", retry=True, **first),
        "stream": client.stream_consumer(SCALABLE, "f", **first),
        "queue of a namespace": client.queue_consumer(Namespace("public/slips"), "g", **first),
        "stream of a namespace": client.stream_consumer(Namespace("public/slips"), "h", **first),
        "queue of a plain topic": client.queue_consumer(PLAIN, "i", **first),
        "stream of a plain topic": client.stream_consumer(PLAIN, "j", **first),
        "checkpoint": client.checkpoint_consumer(SCALABLE),
        "reader": client.create_reader(PLAIN, MessageId.EARLIEST),
    }


def test_invalid_message_or_position_is_misuse_at_every_consumer(server: Standalone) -> None:
    with magnetar.Client(server.url) as client, ExitStack() as stack:
        for topic in (PLAIN, f"{PLAIN}-2", SCALABLE):
            with client.create_producer(topic) as producer:
                producer.send(b"m")
        made = {name: stack.enter_context(one) for name, one in consumers(client).items()}
        received = {name: one.receive(60) for name, one in made.items()}
        for name, one in made.items():
            others = [message for other, message in received.items() if other != name]
            for verb in ("acknowledge", "acknowledge_cumulative", "negative_acknowledge", "reconsume_later"):
                call = getattr(one, verb, None)
                more = [60.0] if verb == "reconsume_later" else []
                for given in (*NO_MESSAGE, *others) if call is not None else ():
                    with pytest.raises(errors.Misuse):
                        call(given, *more)
                for given in elsewhere(name, received) if call is not None and verb.startswith("ack") else ():
                    with pytest.raises(errors.Misuse):
                        call(given, confirm=True)
            for given in NO_PLACE:
                with pytest.raises(errors.Misuse, match="must be"):
                    one.seek(given)
            if name not in ("checkpoint", "reader"):
                done = getattr(one, "acknowledge", None) or one.acknowledge_cumulative
                done(received[name], confirm=True)
        with pytest.raises(errors.Misuse, match=re.escape("its MessageId: MessageId.from_bytes reads stored bytes")):
            made["ordered"].acknowledge(b"\x08\x01")
        with pytest.raises(errors.Misuse, match=r"its MessageId: use message.id \(given=None\)"):
            made["stream"].acknowledge_cumulative(None)


def elsewhere(name: str, received: dict[str, Any]) -> list[MessageId]:
    """Ids of messages of other topics, of which they say that they are."""
    mine = received[name].topic.split("/")[3]
    return [one.id for one in received.values() if one.topic.split("/")[3] != mine]


def test_id_of_another_topic_acknowledges_nothing_although_place_is_there(server: Standalone) -> None:
    topics = [f"topic://public/default/elsewhere-{number}" for number in (1, 2)]
    with magnetar.Client(server.url) as client, ExitStack() as stack:
        for topic in topics:
            with client.create_producer(topic) as producer:
                producer.send(b"m")
        for make in (client.queue_consumer, client.stream_consumer):
            here, there = (
                stack.enter_context(make(topic, make.__name__, initial_position=InitialPosition.EARLIEST))
                for topic in topics
            )
            id, mine = here.receive(60).id, there.receive(60).id
            done: Any = getattr(there, "acknowledge", None) or there.acknowledge_cumulative  # type: ignore[union-attr]
            with pytest.raises(errors.Misuse, match="a topic that this consumer does not read"):
                done(id, confirm=True)
            done(mine, confirm=True)
            done(MessageId.from_bytes(mine.to_bytes()), confirm=True)  # says no topic: it is believed
