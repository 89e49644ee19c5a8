"""Writes tests/vectors/data-1: the data directory of a broker of the current version, and what it contains.

`python -m tools.stored_data` is run once for each format of the data directory: an existing archive is evidence of what
an earlier version wrote, so this module refuses to replace it. The namespace keeps acknowledged messages without limit,
so that the content does not depend on the day on which it is opened.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from magnetar import Admin, Batching, Client, InitialPosition, SubscriptionType
from magnetar.client.admin import policy
from magnetar.client.documents.policies import Retention
from magnetar.testing import broker

FOLDER = Path(__file__).parents[1] / "tests" / "vectors" / "data-1"
ARCHIVE, CONTENT = "data.tar.xz", "content.json"
PLAIN, PARTITIONED, BATCHED = (f"persistent://public/default/{name}" for name in ("plain", "partitioned", "batched"))
SCALABLE = "topic://public/default/scalable"
HOLD, HOLD_S = "nightly", 400 * 86_400
MESSAGES = 20  # of each topic; the scalable topic has as many before the split and after it
EARLIEST = InitialPosition.EARLIEST
SETTINGS = {"managedLedgerMaxEntriesPerLedger": 8, "managedLedgerMinLedgerRolloverTimeMinutes": 0}  # several ledgers


def main() -> int:
    if (FOLDER / ARCHIVE).exists():
        sys.stderr.write(f"{FOLDER / ARCHIVE} exists: it stays as it was written\n")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with broker(SETTINGS, data=data) as running, Client(running.url) as client:
            content = written(client, Admin(running.admin_url))
        with tarfile.open(FOLDER / ARCHIVE, "w:xz") as archive:
            for path in sorted(data.rglob("*")):
                if path.is_file() and path.name not in ("lock", "reserve"):
                    archive.add(path, path.relative_to(data).as_posix(), filter=_nobody)
    (FOLDER / CONTENT).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def written(client: Client, admin: Admin) -> dict[str, Any]:
    """The content by topic: all messages, and those that each subscription has not acknowledged."""
    admin.namespaces.set_policy("public/default", policy.RETENTION, Retention(-1, -1))
    admin.topics.create(PARTITIONED, partitions=2)
    admin.scalable.create(SCALABLE)
    return {
        PLAIN: _plain(client, PLAIN, None),
        PARTITIONED: _plain(client, PARTITIONED, None),
        BATCHED: _plain(client, BATCHED, Batching(delay_s=60, linger=True)),
        SCALABLE: _scalable(client, admin),
    }


def _plain(client: Client, topic: str, batching: Batching | None) -> dict[str, Any]:
    """A subscription that acknowledged each third message, and one that acknowledged none."""
    shared = client.subscribe(
        topic, "shared", type=SubscriptionType.SHARED, initial_position=EARLIEST, ack_batch_index=True
    )
    client.subscribe(topic, "untouched", initial_position=EARLIEST).close()
    texts = _send(client, topic, range(MESSAGES), batching)
    left = list(texts)
    for number in range(MESSAGES):
        message = shared.receive(60)
        if number % 3 == 0:
            shared.acknowledge(message, confirm=True)
            left.remove(message.data.decode())
    shared.close()
    return {"messages": texts, "subscriptions": {"shared": left, "untouched": texts}}


def _scalable(client: Client, admin: Admin) -> dict[str, Any]:
    """A stream that acknowledged five messages, a queue that acknowledged each third, a hold, and a split."""
    stream = client.stream_consumer(SCALABLE, "stream", initial_position=EARLIEST)
    queue = client.queue_consumer(SCALABLE, "queue", initial_position=EARLIEST)
    client.hold(SCALABLE, HOLD, owner="tools.stored_data", expires_s=HOLD_S)
    texts = _send(client, SCALABLE, range(MESSAGES), None)
    for _ in range(5):
        message = stream.receive(60)
    stream.acknowledge_cumulative(message)
    stream.close()
    queued = list(texts)
    for number in range(MESSAGES):
        message = queue.receive(60)
        if number % 3 == 0:
            queue.acknowledge(message, confirm=True)
            queued.remove(message.data.decode())
    queue.close()
    admin.scalable.split(SCALABLE, 0)
    later = _send(client, SCALABLE, range(MESSAGES, 2 * MESSAGES), None)
    subscriptions = {"stream": texts[5:] + later, "queue": queued + later}
    return {"messages": texts + later, "subscriptions": subscriptions}


def _send(client: Client, topic: str, numbers: range, batching: Batching | None) -> list[str]:
    texts = [f"message {number}" for number in numbers]
    with client.create_producer(topic, batching=batching) as producer:
        for number, text in zip(numbers, texts, strict=True):
            producer.post(text.encode(), key=f"key {number % 5}", properties={"number": str(number)})
    return texts


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Owner and times of the machine that wrote it are no part of the content."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


if __name__ == "__main__":
    sys.exit(main())
