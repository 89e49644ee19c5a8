"""For Pulsar users: only the address changes. This is the stock client (`pip install pulsar-client`).

magnetar standalone --data data
python examples/stock_client.py [pulsar://localhost:6650]
"""

import sys

import pulsar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"


def main() -> None:
    client = pulsar.Client(URL, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    consumer = client.subscribe("stock-orders", "billing", consumer_type=pulsar.ConsumerType.KeyShared)
    # Key_Shared keeps the order of a key; a batch must then hold one key.
    producer = client.create_producer(
        "stock-orders", batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased, block_if_queue_full=True
    )
    for number in range(10):
        producer.send_async(f"order {number}".encode(), None, partition_key=f"customer-{number % 3}")
    producer.flush()
    for _ in range(10):
        message = consumer.receive(timeout_millis=10_000)
        print(message.partition_key(), message.data().decode())
        consumer.acknowledge(message)
    client.close()


if __name__ == "__main__":
    main()
