"""A plain topic that is migrated and `kill -9` at every step of it: the broker that comes back finishes it by itself,
and no consumer of before misses anything. Real processes, real files; the proof is counted from the messages.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import magnetar
from magnetar import InitialPosition, SubscriptionType, errors
from tests.process.test_reshape import KEYS, SETTINGS, WAIT_S, Dying, read, send
from tests.support.reshape_steps import SPLIT

EARLIEST = InitialPosition.EARLIEST
TOPIC = "persistent://public/default/t"
STEPS = [
    SPLIT[0],
    "plain.guarded",
    "subscription.write",
    "subscription.cursors",
    "migration.carried",
    *SPLIT[1:],
]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_broker_killed_at_any_migration_step_finishes_after_restart(tmp_path: Path, step: str) -> None:
    with (
        Dying(tmp_path, SETTINGS) as broker,
        magnetar.Client(broker.url) as client,
        magnetar.Admin(broker.http) as admin,
    ):
        admin.topics.create(TOPIC, partitions=2)
        client.subscribe(TOPIC, "old", type=SubscriptionType.SHARED, initial_position=EARLIEST).close()
        consumer = client.stream_consumer(TOPIC, "s", initial_position=EARLIEST)
        with consumer, client.create_producer(TOPIC, name="p", follow=True) as producer:
            send(producer, 0)
            broker.flag.write_text(step, encoding="ascii")
            with pytest.raises(errors.MagnetarError):
                admin.scalable.migrate(TOPIC)
            assert broker.process is not None
            assert broker.process.wait(WAIT_S) == -9, "the step was never reached"
            broker.flag.unlink()
            broker.kill()
            broker.start()
            send(producer, 1)  # it takes messages again
            while not migrated(admin):  # it goes on by itself
                threading.Event().wait(0.05)
            send(producer, 2)
            assert read(consumer, 3) == {key: [0, 1, 2] for key in KEYS}
        kept: set[tuple[str | None, bytes]] = set()
        with client.queue_consumer(TOPIC, "old") as queue:
            while len(kept) < 3 * len(KEYS):
                taken = queue.receive(WAIT_S)
                kept.add((taken.key, taken.data))
                queue.acknowledge(taken)


def migrated(admin: magnetar.Admin) -> bool:
    try:
        found = admin.scalable.metadata(TOPIC).segments.values()
    except errors.NotFound:
        return False  # nobody is shown a topic that is plain
    return [one.state for one in found if one.legacyTopicName is None] == ["ACTIVE"] * 2
