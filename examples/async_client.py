"""For Python developers: asyncio, types and your own classes as messages.

magnetar standalone --data data
python examples/async_client.py [pulsar://localhost:6650]
"""

import asyncio
import sys
from dataclasses import dataclass

import magnetar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"


@dataclass
class Order:
    customer: str
    amount: int


ORDERS = magnetar.Json(Order)


async def produce(client: magnetar.aio.Client) -> None:
    # Key_Shared keeps the order of a key; a batch must then hold one key.
    async with await client.create_producer(
        "async-orders", schema=ORDERS, batching=magnetar.Batching(by_key=True)
    ) as producer:
        for number in range(10):
            order = Order(customer=f"customer-{number % 3}", amount=number)
            await producer.post(order, key=order.customer)  # waits for room; leaving the block waits for receipts


async def consume(client: magnetar.aio.Client, count: int) -> None:
    consumer = await client.subscribe(
        "async-orders",
        "billing",
        schema=ORDERS,
        type=magnetar.SubscriptionType.KEY_SHARED,
        initial_position=magnetar.InitialPosition.EARLIEST,
    )
    async with consumer:
        for _ in range(count):
            message = await consumer.receive(timeout_s=10)
            print(message.key, message.value)
            await consumer.acknowledge(message)


async def main() -> None:
    async with magnetar.aio.Client(URL) as client:
        await asyncio.gather(produce(client), consume(client, 10))


if __name__ == "__main__":
    asyncio.run(main())
