"""A batch reader of a world that stays away until its hold expires.

While present it renews its hold. When it returns, the broker reports whether the hold has ended and whether messages
behind its position are deleted. Then it records a gap (GAP) and begins again at the remaining messages, as another
reader with a new hold, because holds do not move back. Otherwise it continues at its position, and nothing may be
missing. A batch that differs from its plan counts as a gap too: the checkers know when the hold ended, and decide
whether a gap was legal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from magnetar.base.errors import MagnetarError, NoSuchEntry
from magnetar.base.ids import SegmentId
from magnetar.client.batch_read.hold import Hold
from magnetar.client.batch_read.plan import Plan
from simulation import history as record
from simulation.clients.batch_reader import LIMITS, BatchReaderProcess, Places
from simulation.clients.consumer import SETTLING_POLL_S
from simulation.history import OK

EXPIRES_S = (1, 5, 10)  # announced a tenth of that before; brokers look every 30 seconds
AWAY_S_MAX = 120.0


class ExpiringReaderProcess(BatchReaderProcess):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._expires_s = self._chance.choice(EXPIRES_S)
        self._reader = ""
        self._firsts: Places = {}
        self._anew()

    async def open(self) -> Any:
        self._session = self._context.history.session()
        try:
            if self._heed(await self._hold()):
                await self._hold()
            if not self._stands[-1][1]:
                plan = await self._client.plan(self.address, {}, start="earliest")
                self._firsts = {id: stretch.start for id, stretch in plan.stretches.items()}
        except MagnetarError as error:
            self._failed(record.READ_FROM, error, checkpoint=self._stands[-1][0])
            return None
        name, places = self._stands[-1]
        self.note(record.READ_FROM, OK, checkpoint=name)
        return places

    def note(self, operation: str, phase: str, **more: Any) -> None:
        self._context.history.note(
            self.name, operation, phase, self._topic, session=self._session, reader=self._reader, **more
        )

    async def _stint(self, places: Any) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._chance.expovariate(1 / self.plan.stint_s)
        while not self._context.over and (self._context.settling or loop.time() < until):
            places = await self._batch(places, self._chance.choice(LIMITS))
            if places != self._stands[-1][1]:
                name = f"{self.name}@{self._session}.{len(self._context.history.lines)}"
                self.note(record.KEPT, OK, checkpoint=name)
                self._stands = [(name, places)]
            if self._heed(await self._hold()):
                return
            await asyncio.sleep(SETTLING_POLL_S if self._context.settling else self._chance.random() + 0.2)

    async def _leave(self, places: Any) -> None:
        if not self._context.over and not self._context.settling:
            away_s = self._chance.random() * AWAY_S_MAX
            for _ in range(int(away_s)):
                if self._context.settling or self._context.over:
                    return
                await asyncio.sleep(1.0)

    async def _planned(self, places: Places, limit: int) -> Plan:
        """Messages deleted before its start are no loss, also in later segments."""
        return await self._client.plan(self.address, {**self._firsts, **places}, messages_max=limit)

    async def _batch(self, places: Places, limit: int) -> Places:
        try:
            return await super()._batch(places, limit)
        except AssertionError as error:
            self._told(())
            raise NoSuchEntry(f"to be begun anew: {error}") from error

    def _gone(self, segment: SegmentId) -> None:
        self._told((segment,))
        raise NoSuchEntry("messages behind its place are gone", segment=segment)

    async def _hold(self) -> Hold:
        """Holds at its positions. The answer names what is deleted, and nothing more is deleted from then on."""
        places = self._stands[-1][1]
        return await self._client.hold(self.address, self._reader, places, expires_s=self._expires_s, owner="a world")

    def _heed(self, hold: Hold) -> bool:
        """Whether there is a gap. A reader that has read nothing yet begins again whenever its hold has ended."""
        if not (hold.lost if self._stands[-1][1] else hold.expired):
            return False
        self._told(hold.lost)
        return True

    def _told(self, segments: Iterable[SegmentId]) -> None:
        self.note(record.GAP, OK, hold=self._reader, segments=list(segments))
        self._anew()

    def _anew(self) -> None:
        """Continues as another reader: its sequence begins here."""
        self._reader = f"{self.name}.{self._context.history.session()}"
        self._stands = [("", {})]
