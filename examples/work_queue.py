"""Workers share jobs: one worker does each job, a failed job is redelivered, and one that fails too often is set aside.

magnetar standalone --data data
python examples/work_queue.py [pulsar://localhost:6650]
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

import magnetar

URL = sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650"
JOBS = "topic://public/default/jobs"
ASIDE = "topic://public/default/jobs-DLQ"
EARLIEST = magnetar.InitialPosition.EARLIEST


def work(client: magnetar.Client, name: str, done: SimpleQueue[int], over: Event) -> None:
    with client.queue_consumer(
        JOBS,
        "workers",
        name=name,
        initial_position=EARLIEST,
        dead_letters=magnetar.DeadLetters(redeliveries_max=2),
        nack=magnetar.NackBackoff(first_s=0.1, max_s=1),
    ) as consumer:
        while not over.is_set():
            for message in consumer.receive_batch(timeout_s=0.2):
                number = int(message.data)
                if number % 10 == 9:  # this job fails on every delivery
                    consumer.negative_acknowledge(message)
                else:
                    consumer.acknowledge(message)
                    done.put(number)


def main() -> None:
    done: SimpleQueue[int] = SimpleQueue()
    over = Event()
    with magnetar.Client(URL) as client, ThreadPoolExecutor(2) as workers:
        with client.create_producer(JOBS) as producer:
            for number in range(30):
                producer.send(b"%d" % number, key=f"customer-{number % 3}")
        aside = client.queue_consumer(ASIDE, "people", initial_position=EARLIEST)
        working = [workers.submit(work, client, name, done, over) for name in ("one", "two")]
        finished: set[int] = set()
        try:
            while len(finished) < 27:
                finished.add(done.get())
            print("put aside", sorted(int(aside.receive().data) for _ in range(3)))
        finally:
            over.set()
        for one in working:
            one.result()
        print("done", len(finished))


if __name__ == "__main__":
    main()
