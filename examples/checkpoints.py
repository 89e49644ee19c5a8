"""Totals that count every order once: one transaction stores the totals together with their checkpoint.

magnetar standalone --data data
python examples/checkpoints.py [pulsar://localhost:6650]
"""

import sqlite3
import sys

import magnetar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"
ORDERS = "topic://public/default/checkpoint-orders"


def read(client: magnetar.Client, store: sqlite3.Connection, count: int) -> None:
    """Reads `count` orders from the stored checkpoint. A process that is killed before the end stores none of them."""
    found = store.execute("SELECT bytes FROM place").fetchone()
    start = magnetar.Checkpoint.EARLIEST if found is None else found[0]
    with client.checkpoint_consumer(ORDERS, start) as consumer, store:
        for _ in range(count):
            message = consumer.receive()
            add = "INSERT INTO total VALUES (?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"
            store.execute(add, (message.key, int(message.data)))
        store.execute("DELETE FROM place")
        store.execute("INSERT INTO place VALUES (?)", (consumer.checkpoint().to_bytes(),))


def main() -> None:
    store = sqlite3.connect(":memory:")
    store.execute("CREATE TABLE total (customer TEXT PRIMARY KEY, amount INTEGER)")
    store.execute("CREATE TABLE place (bytes BLOB)")
    with magnetar.Client(URL) as client:
        with client.create_producer(ORDERS) as producer:
            for number in range(30):
                producer.send(b"%d" % number, key=f"customer-{number % 3}")
        read(client, store, 20)
        read(client, store, 10)  # as after a restart: it continues where the totals end
    for customer, amount in store.execute("SELECT customer, amount FROM total ORDER BY customer"):
        print(customer, amount)
    store.close()


if __name__ == "__main__":
    main()
