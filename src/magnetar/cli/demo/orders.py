"""The producers of the demo's pipeline: they send orders at a given rate and record the acknowledged ones.

One producer sends all orders of a customer. It uses only the public client. Receipts decide which orders the pipeline
must write; this module does not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import DEMO_IN_FLIGHT_MAX, DEMO_TICK_S
from magnetar.cli.demo.order_check import Orders, cents
from magnetar.cli.demo.traffic import together

if TYPE_CHECKING:
    from magnetar.client.client import Client
    from magnetar.client.producer.producer import Producer

PRODUCERS = 3
CUSTOMERS_EACH = 20


class OrderProducers:
    """Call `run`, then `stop`. Both return after every sent order has a result."""

    def __init__(self, client: Client, topic: str, orders: Orders, *, rate: int) -> None:
        self._client = client
        self._topic = topic
        self._orders = orders
        self._rate = rate
        self._sending = True
        self._ended = asyncio.Event()

    async def stop(self) -> None:
        """Waits until every sent order has a result. No order is published afterwards."""
        self._sending = False
        await self._ended.wait()

    async def run(self) -> None:
        producers = [
            await self._client.create_producer(self._topic, name=f"shop-{number}") for number in range(PRODUCERS)
        ]
        await together(*(self._send(number, producer) for number, producer in enumerate(producers)))
        self._ended.set()

    async def _send(self, number: int, producer: Producer[bytes]) -> None:
        orders, loop = self._orders, asyncio.get_running_loop()
        customers = itertools.cycle(range(number * CUSTOMERS_EACH, (number + 1) * CUSTOMERS_EACH))
        began, done = loop.time(), 0
        while self._sending:
            due = int((loop.time() - began) * self._rate / PRODUCERS) - done
            # after an outage, the producer does not catch up on the missed orders
            if orders.in_flight > DEMO_IN_FLIGHT_MAX:
                began, done, due = loop.time(), 0, 0
            for customer in itertools.islice(customers, due):
                place = orders.sending(customer)
                order = {"customer": customer, "number": place, "cents": cents(customer, place)}
                callback = _told(orders, customer, place)
                await producer.post(msgspec.json.encode(order), callback, key=f"customer-{customer}")
            done += due
            await asyncio.sleep(DEMO_TICK_S)
        await producer.close()


def _told(orders: Orders, customer: int, number: int) -> Callable[[object, MagnetarError | None], None]:
    def told(_: object, error: MagnetarError | None) -> None:
        if error is None:
            orders.receipt(customer, number)
        else:
            orders.failure()

    return told
