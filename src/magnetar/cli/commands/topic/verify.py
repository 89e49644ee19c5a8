"""`magnetar topic verify-order`: sends traffic, reshapes the topic, and checks the order of all messages.

It works with any cluster that has scalable topics, Magnetar or Apache Pulsar 5. Exit code 7 reports a violation.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from magnetar.cli import connect
from magnetar.cli.exit_codes import Exit
from magnetar.cli.options import COMMON, TRAFFIC, Common, Traffic
from magnetar.cli.output.output import KeyValues, Output, TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.scalable.tree import layout_of, scalable_name

if TYPE_CHECKING:
    from magnetar.cli.traffic.load import LoadConfig, Workload
    from magnetar.client.admin.aio.admin import Admin

SEGMENTS_MAX = 8  # upper limit of reshapes: more segments only spread the same traffic

Positive = Annotated[int, Parameter(validator=validators.Number(gte=1))]
Seconds = Annotated[float, Parameter(name=["--seconds", "-t"], validator=validators.Number(gt=0))]
Pause = Annotated[float, Parameter(validator=validators.Number(gte=0))]


def verify_order(
    topic: str = "topic://public/default/verify-order",
    /,
    *,
    seconds: Seconds = 10.0,
    rate: Annotated[float, Parameter(name=["--rate", "-r"], validator=validators.Number(gte=0))] = 2000.0,
    producers: Positive = 8,
    consumers: Positive = 4,
    reshape: Pause = 1.0,
    churn: Pause = 0.0,
    late: Annotated[bool, Parameter(negative="--no-late")] = True,
    change: Traffic = TRAFFIC,
    common: Common = COMMON,
) -> Exit:
    """Verify that a scalable topic keeps every key in order while it is split and merged under load.

    The messages of every key have a counter. The command checks that no message is lost, invented or stored twice, and
    that every key is in order. If deduplication is off, a failing broker may store a message twice, and the command
    reports it.

    Parameters
    ----------
    topic
        The scalable topic. It is created if it does not exist.
    seconds
        Seconds for which messages are sent.
    rate
        Messages per second of all producers together; 0 means as fast as possible.
    producers
        Number of producers, each with its own keys.
    consumers
        Number of stream consumers that share the topic.
    reshape
        Seconds between splits and merges; 0 disables them.
    churn
        Seconds after which another consumer replaces a consumer; 0 keeps all consumers.
    late
        Read all messages again through a second subscription, from its first message on.

    Examples
    --------
    $ magnetar topic verify-order topic://public/default/clicks --seconds 1 --rate 500
    $ magnetar topic verify-order --seconds 1 --rate 500 --churn 0.5 --no-late -o json
    """
    from magnetar.cli.traffic.load import LoadConfig

    name = str(scalable_name(topic))
    load = LoadConfig(
        name, producers=producers, consumers=consumers, rate=rate, reshape_s=reshape, churn_s=churn, drain_s=90.0
    )
    output = common.out
    if change.dry_run:
        output.show(asdict(load), KeyValues(asdict(load), title="Would run:"))
        return Exit.OK
    return connect.run(_verify(load, seconds, late, common, output))


async def _verify(load: LoadConfig, seconds: float, late: bool, common: Common, output: Output) -> Exit:
    from magnetar.cli.traffic.load import Workload
    from magnetar.client.admin.aio.admin import Admin

    async with (
        connect.connected(common) as client,
        Admin(common.admin_url, token=common.token, timeout_s=common.timeout) as admin,
    ):
        unique = f"{client.runtime.rng('cli.verify').getrandbits(32):08x}"
        reshaper = _Reshaper(admin, load.topic, client.runtime.rng("cli.verify.reshape"), quiet=common.quiet)
        work = Workload(
            client,
            _renamed(load, unique),
            reshape=reshaper.reshape if load.reshape_s else None,
            name=f"verify-{unique}",
        )
        after = f"verify-late-{unique}"
        if late:
            await _hold(admin, load.topic, after)
        ordering = await work.run(seconds)
        again = await work.again(after, consumers=2) if late else None
    findings = [*ordering.findings, *(again.findings if again is not None else [])]
    document: dict[str, Any] = {
        "topic": load.topic,
        "kept": not findings,
        "keys": ordering.keys,
        "sent": ordering.sent,
        "outcomes": {outcome.value: count for outcome, count in ordering.outcomes.items()},
        "received": ordering.received,
        "redelivered": ordering.redelivered,
        "receivedLate": None if again is None else again.received,
        "redeliveredLate": None if again is None else again.redelivered,
        "reshapes": work.reshapes,
        "reshapesRefused": work.refused,
        "consumers": work.joined,
        "findings": [asdict(one) for one in findings],
    }
    output.show(document, *_parts(document, work), names=[load.topic])
    return Exit.OK if not findings else Exit.CHECK_FAILED


async def _hold(admin: Admin, topic: str, subscription: str) -> None:
    """Creates a subscription without a consumer, so that the topic keeps acknowledged messages for it."""
    from magnetar.base.errors import AlreadyExists, NotFound

    try:
        await admin.scalable.create_subscription(topic, subscription)
    except NotFound:
        try:
            await admin.scalable.create(topic)
        except AlreadyExists:
            pass  # another client has created it
        await admin.scalable.create_subscription(topic, subscription)


def _renamed(load: LoadConfig, unique: str) -> LoadConfig:
    """Uses a subscription of this run only, so that messages of earlier runs do not count."""
    from dataclasses import replace

    return replace(load, subscription=f"verify-{unique}")


def _parts(document: dict[str, Any], work: Workload) -> list[KeyValues | TableData]:
    outcomes = document["outcomes"]
    facts: dict[str, Cell] = {
        "order": "kept" if document["kept"] else "BROKEN",
        "keys": document["keys"],
        "sent": document["sent"],
        "stored": outcomes["stored"],
        "unknown": outcomes["unknown"],
        "not stored": outcomes["failed"],
        "received": document["received"],
        "received again": document["redelivered"],
        "by late reader": document["receivedLate"],
        "reshapes": document["reshapes"],
        "reshapes refused": document["reshapesRefused"],
        "why refused": "" if work.last_refusal is None else str(work.last_refusal),
        "consumers": document["consumers"],
    }
    shown: list[KeyValues | TableData] = [KeyValues(facts, optional=frozenset(("by late reader", "why refused")))]
    if document["findings"]:
        rows = [(one["kind"], one["key"], one["number"], one["text"]) for one in document["findings"]]
        shown.append(TableData(("FOUND", "KEY", "NUMBER", "WHAT"), rows))
    return shown


class _Reshaper:
    """Splits and merges at random, between two and eight segments."""

    def __init__(self, admin: Any, topic: str, chance: Any, *, quiet: bool) -> None:
        self._admin = admin
        self._topic = topic
        self._chance = chance
        self._quiet = quiet

    async def reshape(self) -> None:
        layout = layout_of(await self._admin.scalable.metadata(self._topic))
        active = [one.id for one in layout.active]
        if len(active) < 3 or (len(active) < SEGMENTS_MAX and self._chance.random() < 0.5):
            chosen = self._chance.choice(active)
            await self._admin.scalable.split(self._topic, chosen, reason="verify-order")
            self._say(f"split {chosen}")
        else:
            lower = self._chance.randrange(len(active) - 1)
            pair = active[lower : lower + 2]
            await self._admin.scalable.merge(self._topic, pair, reason="verify-order")
            self._say(f"merged {pair[0]} and {pair[1]}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            sys.stderr.write(line + "\n")
