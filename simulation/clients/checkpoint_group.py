"""The members of a checkpoint group of a world: they receive, report their positions, leave and come back.

A checkpoint of a member means the same as a cumulative acknowledgement of a stream consumer: everything received before
is done, the rest comes again to the next owner of the segment, and children wait for their parents. So a member records
the same lines, and the same rules judge it.
"""

from __future__ import annotations

from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.message import Message
from simulation import history as record
from simulation.clients.stream_consumer import StreamConsumerProcess, message_place, message_segment
from simulation.history import INVOKE, OK
from simulation.world.workload import STREAM


class GroupMemberProcess(StreamConsumerProcess):
    async def open(self) -> Any:
        plan = self.plan
        self._session = self._context.history.session()
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
        """Reports everything that it has received."""
        taken, self._taken = self._taken, []
        for _, pending in taken:
            self.note(record.ACK, INVOKE, place=message_place(pending), segment=message_segment(pending))
        try:
            await consumer.checkpoint()
        except MagnetarError as error:
            self._failed(record.ACK, error, place=message_place(message))
