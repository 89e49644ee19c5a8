"""The steps of the demo with Spark: a live topic of orders that is split and merged, a PySpark pipeline on it, a kill
of the query, a kill of the broker, and the result from the other topic and from Parquet.

Steps wait for events, not for times, wherever possible: every act but the first waits for written rows.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from magnetar.base.errors import NotReady, Unavailable, Unknown
from magnetar.base.limits import DEMO_DOWN_S, DEMO_DRAIN_S, DEMO_LOOK_S, DEMO_MOMENT_S, DEMO_QUERY_S
from magnetar.cli.demo.broker_process import BrokerProcess
from magnetar.cli.demo.display import Display, NoDisplay
from magnetar.cli.demo.order_check import OrderReport, Orders, Outcome, Row, judge
from magnetar.cli.demo.orders import CUSTOMERS_EACH, PRODUCERS, OrderProducers
from magnetar.cli.demo.parquet import ParquetOutput
from magnetar.cli.demo.reshaper import Reshaper, branches
from magnetar.cli.demo.spark_display import Counts, Lines, Screen
from magnetar.cli.demo.spark_job import LAKE, TAXES
from magnetar.cli.demo.spark_process import SparkProcess, prepared
from magnetar.cli.demo.traffic import administer, connect, together
from magnetar.cli.output.output import KeyValues, TableData

if TYPE_CHECKING:
    from magnetar.client.admin.aio.admin import Admin
    from magnetar.client.client import Client

SOURCE = "topic://public/default/orders"
TARGET = "topic://public/default/orders-taxed"
NAMESPACE = "public/default"
OTHER = "the other topic: "
DRAW_S = 0.125
TURNS_MAX = 10_000  # upper limit of the loop
ACTS = 5  # number of acts in the title
AWAY_S, AWAY_RESHAPES_MAX = 5.0, 4  # interval and maximum of reshapes while the query restarts
PAUSES = 8  # number of pauses that share the seconds
BROKER = {
    "brokerDeduplicationEnabled": "true",  # a message that a producer resends after the kill is stored once
    "defaultRetentionTimeInMinutes": "60",  # Spark may still be starting when the messages have no reader yet
    "defaultRetentionSizeInMB": "1000",
}


async def run(*, seconds: float, rate: int, kill: bool, quiet: bool, colors: bool) -> tuple[Outcome, float]:
    """The result and the duration."""
    environment = await prepared(os.environ)
    counts = Counts()
    began = asyncio.get_running_loop().time()
    shown: Display = NoDisplay() if quiet else Lines(counts)
    if not quiet and sys.stderr.isatty():
        from rich.console import Console

        shown = Screen(counts, Console(stderr=True, no_color=not colors))
    with tempfile.TemporaryDirectory(prefix="magnetar-demo-", ignore_cleanup_errors=True) as name, shown as display:
        folder = Path(name)
        async with BrokerProcess(folder, BROKER) as child:
            settings = {"url": child.url, "source": SOURCE, "target": TARGET}
            async with SparkProcess(folder, settings, environment) as query:
                pipeline = Pipeline(child, query, ParquetOutput(folder / LAKE), counts, display)
                outcome = await pipeline.tell(seconds=seconds, rate=rate, kill=kill)
    return outcome, asyncio.get_running_loop().time() - began


class Pipeline:
    def __init__(
        self, child: BrokerProcess, query: SparkProcess, lake: ParquetOutput, counts: Counts, display: Display
    ) -> None:
        self._child = child
        self._query = query
        self._lake = lake
        self._counts = counts
        self._display = display
        self._orders = Orders()
        self._splits = self._merges = self._broker_kills = 0
        self._over = False

    async def tell(self, *, seconds: float, rate: int, kill: bool) -> Outcome:
        child = self._child
        self._counts.broker = "running"
        async with connect(child.url) as client, administer(child.http) as admin:
            self._say(f"broker {child.pid} serves {child.url}")
            for topic in (SOURCE, TARGET):
                await admin.scalable.create(topic)
            reshapers = [Reshaper(admin, topic) for topic in (SOURCE, TARGET)]
            self._display.tree(branches(await reshapers[0].layout()))
            feed = OrderProducers(client, SOURCE, self._orders, rate=rate)
            acts = self._act(feed, *reshapers, pause_s=seconds / PAUSES, kill=kill)
            await together(self._work(acts, feed), self._look(client), self._draw())
            self._say("everything is processed; reading the written rows")
            await self._published(admin)
            written = await everything(client, TARGET)
            places = [judge(self._orders, "topic", written), judge(self._orders, "parquet", self._lake.rows())]
            return self._outcome(places)

    async def _work(self, acts: Coroutine[None, None, None], feed: OrderProducers) -> None:
        try:
            await together(acts, feed.run(), self._query.tend(self._say))
        finally:
            self._over = True

    async def _act(
        self, feed: OrderProducers, source: Reshaper, target: Reshaper, *, pause_s: float, kill: bool
    ) -> None:
        self._say(
            f"{PRODUCERS} producers send orders of {PRODUCERS * CUSTOMERS_EACH} customers; Spark starts, its pipeline "
            "writes to another topic and to Parquet"
        )
        self._display.progress(1, ACTS)
        await self._split(source, pause_s)
        await self._more("the pipeline has written the first orders")
        self._display.progress(2, ACTS)
        await self._split(source, pause_s)
        await self._split(target, pause_s, of=OTHER)
        await self._split(source, pause_s)
        self._display.progress(3, ACTS)
        if kill:
            await self._kill_query()
        await self._merge(source, pause_s)
        await self._split(source, pause_s)
        if kill:
            await self._reshape_while_away(source)
        await self._more("the query writes rows again" if kill else "the query was not interrupted")
        self._display.progress(4, ACTS)
        if kill:
            await self._kill_broker()
            await self._more("the query continues without a restart")
        self._display.progress(5, ACTS)
        await self._merge(source, pause_s)
        await self._merge(target, pause_s, of=OTHER)
        await feed.stop()
        self._query.drain()
        self._say("producers have stopped; the query processes the remaining orders")

    async def _split(self, reshaper: Reshaper, pause_s: float, *, of: str = "") -> None:
        await asyncio.sleep(pause_s)
        self._say(of + await reshaper.split())
        self._splits += 1
        await self._tree(reshaper, of)

    async def _merge(self, reshaper: Reshaper, pause_s: float, *, of: str = "") -> None:
        await asyncio.sleep(pause_s)
        self._say(of + await reshaper.merge())
        self._merges += 1
        await self._tree(reshaper, of)

    async def _tree(self, reshaper: Reshaper, of: str) -> None:
        if not of:
            self._display.tree(branches(await reshaper.layout()))

    async def _kill_query(self) -> None:
        """Kills in the middle of a batch, if one starts soon: this is the hardest case."""
        query, loop = self._query, asyncio.get_running_loop()
        await self._until(lambda: query.state == "running")
        until = loop.time() + DEMO_MOMENT_S
        while not query.busy(TAXES) and loop.time() < until:  # noqa: ASYNC110  # a glance at files
            await asyncio.sleep(0.01)
        where = "in the middle of a batch" if query.busy(TAXES) else "between two batches"
        query.kill()
        self._say(f"kill -9 of the query, {where}; Spark starts again")

    async def _reshape_while_away(self, source: Reshaper) -> None:
        """Splits and merges the topic while no query reads it. Afterwards, the query must still find every key in
        order.
        """
        for number in range(AWAY_RESHAPES_MAX):
            for _ in range(round(AWAY_S / DRAW_S)):
                if self._query.state == "running":
                    return
                await asyncio.sleep(DRAW_S)
            await (self._merge if number % 2 else self._split)(source, 0, of="")
            self._say("the query is still starting: the topic has no reader now")

    async def _kill_broker(self) -> None:
        child, loop, counts = self._child, asyncio.get_running_loop(), self._counts
        for _ in range(TURNS_MAX):  # kill while orders are in flight, if possible: this is the hardest case
            if self._orders.in_flight:
                break
            await asyncio.sleep(0)
        self._say(f"kill -9 {child.pid}: the broker, with {self._orders.in_flight} orders in flight")
        counts.broker = "killed"
        await child.kill()
        self._broker_kills += 1
        await asyncio.sleep(DEMO_DOWN_S)
        began = loop.time()
        await child.start()
        counts.broker = "running"
        self._say(f"broker {child.pid} is back on the same directory; the start took {loop.time() - began:.2f} s")

    async def _more(self, then: str) -> None:
        """Waits until both outputs contain new rows that were published after this call. Only such rows prove that the
        query works.
        """
        owed = self._orders.acknowledged
        await self._until(lambda: min(self._counts.written, self._counts.stored) > owed)
        self._say(then)

    async def _until(self, happened: Callable[[], bool]) -> None:
        """Raises `NotReady` if the query writes no rows for a long time."""
        loop, counts = asyncio.get_running_loop(), self._counts
        seen, since = (0, 0), loop.time()
        while not happened():
            await asyncio.sleep(DRAW_S)
            now = (counts.written, counts.stored)
            if now != seen:
                seen, since = now, loop.time()
            elif loop.time() - since > DEMO_QUERY_S:
                raise NotReady(f"the query wrote no rows for {DEMO_QUERY_S:.0f} s", said=self._query.last_words())

    async def _published(self, admin: Admin) -> None:
        """Waits until the broker has published all committed rows."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DEMO_QUERY_S
        while any(sink.backlogMessages for sink in await admin.sinks.list(NAMESPACE)):
            if loop.time() > until:
                raise NotReady("the broker did not publish all committed rows", topic=TARGET)
            await asyncio.sleep(DRAW_S)

    async def _look(self, client: Client) -> None:
        """Reads the written rows through the public client."""
        counts = self._counts
        while not self._over:
            try:
                counts.written = await count(client, TARGET)
            except (Unavailable, Unknown):  # the broker is being killed
                pass
            counts.stored = self._lake.count()
            await asyncio.sleep(DEMO_LOOK_S)

    async def _draw(self) -> None:
        while not self._over:
            counts, query = self._counts, self._query
            counts.published, counts.query, counts.batches = self._orders.acknowledged, query.state, query.batches
            self._display.draw(asyncio.get_running_loop().time())
            await asyncio.sleep(DRAW_S)

    def _outcome(self, places: list[OrderReport]) -> Outcome:
        orders, query = self._orders, self._query
        return Outcome(
            orders.sent,
            orders.acknowledged,
            orders.failed,
            splits=self._splits,
            merges=self._merges,
            query_kills=query.kills,
            broker_kills=self._broker_kills,
            restarts=query.restarts,
            places=places,
        )

    def _say(self, step: str) -> None:
        self._display.say(step, asyncio.get_running_loop().time())


async def count(client: Client, topic: str) -> int:
    """The number of messages in a topic."""
    plan = await client.plan(topic, {}, start="earliest")
    return sum(stretch.messages for stretch in plan.stretches.values())


async def everything(client: Client, topic: str) -> list[Row]:
    """All messages of a topic, each key in order. Raises `NotReady` if the topic cannot be read."""
    rows: list[Row] = []
    owed = await count(client, topic)
    loop = asyncio.get_running_loop()
    consumer = await client.checkpoint_consumer(topic)
    try:
        since = loop.time()
        while len(rows) < owed:
            batch = await consumer.receive_batch(timeout_s=DEMO_LOOK_S)
            for message in batch:
                order = msgspec.json.decode(message.value, type=Order)
                rows.append((order.customer, order.number, order.gross))
            if batch:
                since = loop.time()
            elif loop.time() - since > DEMO_DRAIN_S:
                raise NotReady(f"{owed - len(rows)} of {owed} messages cannot be read", topic=topic)
    finally:
        await consumer.close()
    return rows


class Order(msgspec.Struct, frozen=True):
    """An order as the pipeline writes it."""

    customer: int
    number: int
    gross: int


def parts(outcome: Outcome, took_s: float) -> tuple[TableData, KeyValues]:
    rows = [
        (one.place, one.rows, one.lost, one.twice, one.disordered, one.invented, "ok" if one.ok else "FAILED")
        for one in outcome.places
    ]
    killed = f"the query {_times(outcome.query_kills)}, the broker {_times(outcome.broker_kills)}"
    if outcome.restarts:
        killed += f"; the query failed {_times(outcome.restarts)} and was restarted"
    facts = KeyValues(
        {
            "acknowledged": f"{outcome.acknowledged} of {outcome.sent} orders sent, {outcome.failed} failed",
            "killed": killed,
            "reshaped": f"{outcome.splits} splits and {outcome.merges} merges of the two topics, under traffic",
            "took": f"{took_s:.1f} s",
            "verdict": ("OK: " if outcome.ok else "FAILED: ") + outcome.sentence(),
        }
    )
    return TableData(("WRITTEN TO", "ROWS", "LOST", "TWICE", "DISORDERED", "INVENTED", "VERDICT"), rows), facts


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
