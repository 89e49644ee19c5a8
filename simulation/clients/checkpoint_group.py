"""The members of a checkpoint group of a simulated world: real ones, that take, say how far they are, leave and come
back.

What a member says with a checkpoint is what a stream consumer says with an acknowledgement up to a message: everything
it received before is done, the rest comes again to whoever has the segment next, children wait for their parents. So it
writes down the same lines and is judged by the same rules.
"""

from __future__ import annotations

from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.message import Message
from simulation import history as record
from simulation.clients.stream_consumer import Streamer, _place, _segment
from simulation.history import INVOKE, OK
from simulation.world.workload import STREAM


class Grouper(Streamer):
    async def open(self) -> Any:
        plan = self.plan
        self._session = self._book.history.session()
        self._taken.clear()
        facts = {"type": STREAM, "earliest": True}
        self.note(record.SUBSCRIBE, INVOKE, **facts)
        try:
            consumer = await self._client.checkpoint_consumer(
                self.address,
                InitialPosition.EARLIEST,
                group=plan.name,
                name=self.name,
                queue_messages=plan.queue_messages,
            )
        except MagnetarError as error:
            self._failed(record.SUBSCRIBE, error, **facts)
            return None
        self.note(record.SUBSCRIBE, OK, **facts)
        return consumer

    async def _some(self, consumer: Any, taken_before: float) -> None:
        if self.plan.idles and not self._taken:  # of segments that are sealed empty it says that they are done
            try:
                await consumer.checkpoint()
            except MagnetarError:
                pass  # it is asked again, or `receive` raises
        await super()._some(consumer, taken_before)

    async def ack(self, consumer: Any, message: Message[bytes], *, confirm: bool = False) -> None:
        """All that it has."""
        taken, self._taken = self._taken, []
        for _, one in taken:
            self.note(record.ACK, INVOKE, place=_place(one), segment=_segment(one))
        try:
            await consumer.checkpoint()
        except MagnetarError as error:
            self._failed(record.ACK, error, place=_place(message))
