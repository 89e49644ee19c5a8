"""The producer process of a world: it sends through the real client and records the results.

It opens one producer after another: each sends for a while and is then flushed and closed, or closed without a flush.
The client's callbacks give the result of each message, also of those that the client dropped. A process that `resends`
starts each producer with the messages of unknown outcome, in order, under the same sequence ids. That is safe only with
deduplication, without batches (other batch boundaries would overlap half of an old batch) and without a send timeout (a
message that times out in the middle would count as a duplicate of the later ones that were stored).
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.client.client import Client
from magnetar.client.message import MessageId
from magnetar.client.options import ProducerOptions
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.producer import MessageOptions, Producer
from simulation import history as record
from simulation.clients.consumer import RETRY_S, ClientContext, place_of
from simulation.history import INVOKE, KEYLESS, OK, Value
from simulation.world.workload import ProducerPlan, TopicPlan

DELAY_S_MAX = 2.0  # of a delayed message
OVERSIZED_BYTES = 3_000
FLUSH_S = 120.0  # how long a producer waits for its last receipts


class ProducerProcess:
    """One producer process: it opens one producer after another until the world stops sending."""

    def __init__(
        self,
        context: ClientContext,
        client: Client,
        topic: TopicPlan,
        plan: ProducerPlan,
        chance: random.Random,
        numbers: dict[str, int] | None = None,
    ) -> None:
        """`numbers`: the next number of each producer, which the application keeps across its processes."""
        self._context = context
        self._client = client
        self._topic = topic
        self._plan = plan
        self._chance = chance
        self._numbers = {} if numbers is None else numbers
        self._unknown: dict[Value, None] = {}  # of one that resends: not known to be stored, in order
        self._session = 0

    async def run(self) -> None:
        while self._context.sending or self._unknown:
            try:
                producer = await self._client.create_producer(self._topic.address, **self._options())
            except MagnetarError:
                if not self._context.sending:
                    return
                await asyncio.sleep(RETRY_S + self._chance.random())
                continue
            self._session = self._context.history.session()
            patience_s = 0.0
            try:
                await self._stint(producer)
                patience_s = FLUSH_S if self._chance.random() < 0.7 or not self._context.sending else 0.01
                async with asyncio.timeout(patience_s):
                    await producer.flush()
            except TimeoutError:
                if patience_s == FLUSH_S:  # far longer than chaos lasts
                    raise AssertionError(f"{self._plan.name}: no answer in {FLUSH_S:g} s of a healed world") from None
            except MagnetarError:
                pass  # `_done` got the result of its messages
            await producer.close(flush=False)
            if not self._context.sending:
                return

    def _options(self) -> ProducerOptions:
        plan = self._plan
        batching = None
        if plan.batch_messages > 1:
            batching = Batching(messages_max=plan.batch_messages, delay_s=0.02, by_key=plan.by_key, linger=True)
        options = ProducerOptions(batching=batching, send_timeout_s=plan.send_timeout_s)
        if plan.named:
            options["name"] = plan.name
        if plan.chunking:
            options["chunking"] = True
        if self._topic.regular:
            options["follow"] = True
        return options

    async def _stint(self, producer: Producer[bytes]) -> None:
        for value in list(self._unknown):
            self._send(producer, value)
        left = max(1, round(self._chance.expovariate(1 / self._plan.stint_messages)))
        while left > 0 and self._context.sending:
            for _ in range(self._chance.randint(1, self._plan.burst)):
                number = self._numbers.get(self._plan.name, 0)
                self._numbers[self._plan.name] = number + 1
                key = (
                    f"{KEYLESS}{self._plan.name}-{number}"
                    if self._plan.keyless
                    else self._chance.choice(self._topic.keys)
                )
                self._send(producer, Value(self._plan.name, key, number))
                left -= 1
            await asyncio.sleep(self._chance.expovariate(1 / self._plan.pause_s))

    def _send(self, producer: Producer[bytes], value: Value) -> None:
        plan = self._plan
        facts: dict[str, Any] = {"name": plan.name, "sequence": value.number} if plan.named else {}
        if plan.by_key and plan.batch_messages > 1:
            facts["by_key"] = True
        if plan.resends:
            self._unknown[value] = None
        options = MessageOptions(key=value.sent_key)
        if plan.delays and self._chance.random() < plan.delays:
            delay_s = options["deliver_after_s"] = self._chance.uniform(0.05, DELAY_S_MAX)
            facts["due"] = asyncio.get_running_loop().time() + delay_s
        if plan.named:
            options["sequence_id"] = value.number
        self._note(INVOKE, value, producer, **facts)
        session = self._session

        def done(id: MessageId | None, error: MagnetarError | None) -> None:
            self._done(producer, session, value, id, error)

        large = plan.oversized and self._chance.random() < plan.oversized
        try:
            producer.send_nowait(value.padded(OVERSIZED_BYTES if large else plan.padding_bytes), done, **options)
        except MagnetarError as error:
            self._done(producer, session, value, None, error)
            raise

    def _done(
        self,
        producer: Producer[bytes],
        session: int,
        value: Value,
        id: MessageId | None,
        error: MagnetarError | None,
    ) -> None:
        epoch = producer.counters[0].reattached
        where: dict[str, Any] = {}
        if error is None:
            assert id is not None
            self._unknown.pop(value, None)
            if self._topic.scalable:
                where["segment"] = id.segment
            self._context.history.note(
                self._plan.name,
                record.SEND,
                OK,
                self._topic.topic,
                value=value,
                place=place_of(id),
                session=session,
                epoch=epoch,
                **where,
            )
        else:
            self._context.history.failed(
                self._plan.name, record.SEND, error, self._topic.topic, value=value, session=session, epoch=epoch
            )

    def _note(self, phase: str, value: Value, producer: Producer[bytes], **facts: Any) -> None:
        self._context.history.note(
            self._plan.name,
            record.SEND,
            phase,
            self._topic.topic,
            value=value,
            session=self._session,
            epoch=producer.counters[0].reattached,
            **facts,
        )
