"""The steps of the demo: broker, traffic, splits and merges, a kill in the middle, a restart, the end, and the display
of the result.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from magnetar.base.limits import DEMO_DOWN_S, DEMO_RESUME_S
from magnetar.cli.demo.broker_process import BrokerProcess
from magnetar.cli.demo.delivery_check import DeliveryTally, Verdict
from magnetar.cli.demo.display import Display, NoDisplay, Steps, TrafficDisplay
from magnetar.cli.demo.reshaper import Reshaper, branches
from magnetar.cli.demo.traffic import (
    CONSUMERS,
    KEYS_EACH,
    PRODUCERS,
    SCALABLE,
    Traffic,
    administer,
    connect,
    together,
)
from magnetar.cli.output.output import KeyValues, TableData

DRAW_S = 0.125
TURNS_MAX = 10_000  # upper limit of the loop
BEFORE = ("split", "split", "split")  # reshapes before the kill
AFTER = ("merge", "split", "merge")


async def run(*, seconds: float, rate: int, kill: bool, quiet: bool, colors: bool) -> tuple[Verdict, float]:
    """The result and the duration."""
    tally = DeliveryTally(list(CONSUMERS))
    began = asyncio.get_running_loop().time()
    shown: Display = NoDisplay() if quiet else Steps(tally)
    if not quiet and sys.stderr.isatty():
        from rich.console import Console

        shown = TrafficDisplay(tally, CONSUMERS, Console(stderr=True, no_color=not colors))
    with tempfile.TemporaryDirectory(prefix="magnetar-demo-") as folder, shown as display:
        await Scenario(BrokerProcess(Path(folder)), tally, display).tell(seconds=seconds, rate=rate, kill=kill)
    return tally.verdict(), asyncio.get_running_loop().time() - began


class Scenario:
    def __init__(self, child: BrokerProcess, tally: DeliveryTally, display: Display) -> None:
        self._child = child
        self._tally = tally
        self._display = display
        self._over = False

    async def tell(self, *, seconds: float, rate: int, kill: bool) -> None:
        self._say("starting a broker")
        async with self._child as child, connect(child.url) as client, administer(child.http) as admin:
            self._say(f"broker {child.pid} serves {child.url}")
            traffic = Traffic(client, self._tally, rate=rate)
            await traffic.open()
            reshaper = Reshaper(admin, SCALABLE)
            self._display.tree(branches(await reshaper.layout()))
            self._say(
                f"{PRODUCERS} producers of {PRODUCERS * KEYS_EACH} keys, {sum(CONSUMERS.values())} consumers of "
                f"{len(CONSUMERS)} subscriptions"
            )
            acts = self._act(traffic, reshaper, seconds, kill=kill)
            await together(acts, self._carry(traffic), self._draw())
            self._say("every acknowledged message has arrived" if self._tally.settled() else "no more messages arrive")

    async def _act(self, traffic: Traffic, reshaper: Reshaper, seconds: float, *, kill: bool) -> None:
        pause_s = seconds / (len(BEFORE) + len(AFTER) + 2)
        acts = [*BEFORE, *(["kill"] if kill else []), *AFTER]
        for number, step in enumerate(acts, start=1):
            self._display.progress(number, len(acts) + 1)
            await asyncio.sleep(pause_s)
            if step == "kill":
                await self._kill()
            else:
                await self._reshape(reshaper, step)
        self._display.progress(len(acts) + 1, len(acts) + 1)
        await asyncio.sleep(pause_s)
        traffic.stop_sending()
        self._say("producers stop; consumers receive the remaining messages")

    async def _reshape(self, reshaper: Reshaper, step: str) -> None:
        if step == "split":
            self._say(await reshaper.split())
            self._tally.splits += 1
        else:
            self._say(await reshaper.merge())
            self._tally.merges += 1
        self._display.tree(branches(await reshaper.layout()))

    async def _kill(self) -> None:
        child, loop = self._child, asyncio.get_running_loop()
        for _ in range(TURNS_MAX):  # kill while messages are in flight, if possible: this is the hardest case
            if self._tally.in_flight:
                break
            await asyncio.sleep(0)
        self._say(f"kill -9 {child.pid}, with {self._tally.in_flight} messages in flight")
        await child.kill()
        self._tally.kills += 1
        await asyncio.sleep(DEMO_DOWN_S)
        began = loop.time()
        await child.start()
        self._say(f"broker {child.pid} is back on the same directory; the start took {loop.time() - began:.2f} s")
        before, until = self._tally.acknowledged, loop.time() + DEMO_RESUME_S
        while self._tally.acknowledged == before and loop.time() < until:  # noqa: ASYNC110  # a glance now and then
            await asyncio.sleep(DRAW_S)

    async def _carry(self, traffic: Traffic) -> None:
        try:
            await traffic.run()
        finally:
            self._over = True

    async def _draw(self) -> None:
        while not self._over:
            self._display.draw(asyncio.get_running_loop().time())
            await asyncio.sleep(DRAW_S)

    def _say(self, step: str) -> None:
        self._display.say(step, asyncio.get_running_loop().time())


def parts(verdict: Verdict, took_s: float) -> tuple[TableData, KeyValues]:
    rows = [
        (
            judged.type,
            judged.arrived,
            judged.missing,
            judged.disordered if judged.ordered else None,
            judged.duplicates,
            "ok" if judged.ok else "FAILED",
        )
        for judged in verdict.subscriptions
    ]
    facts = KeyValues(
        {
            "acknowledged": f"{verdict.acknowledged} of {verdict.sent} sent, {verdict.failed} failed",
            "killed": "not at all" if not verdict.kills else "once, in the middle",
            "reshaped": _reshaped(verdict),
            "took": f"{took_s:.1f} s",
            "verdict": ("OK: " if verdict.ok else "FAILED: ") + verdict.sentence(),
        }
    )
    return TableData(("SUBSCRIPTION", "ARRIVED", "MISSING", "DISORDERED", "AGAIN", "VERDICT"), rows), facts


def _reshaped(verdict: Verdict) -> str:
    if not verdict.splits + verdict.merges:
        return "not at all"
    return f"{verdict.splits} splits and {verdict.merges} merges of the scalable topic, under traffic"
