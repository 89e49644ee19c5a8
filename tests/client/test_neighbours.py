"""Our client in one process with pyarrow, grpcio and pandas, whichever is imported first, forked and spawned.

They are heavy, so they are installed for this test alone, into a folder beside this environment. What is looked for
are crashes, hangs and clashes of native code; each case is a process of its own with a deadline.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.standalone import Standalone

NEIGHBOURS = ["pyarrow", "pandas", "grpcio"]
DEADLINE_S = 120

FIRST = "import magnetar, magnetar.aio; magnetar.Client, magnetar.aio.Client, magnetar.Admin"
THEN = "import pyarrow, pyarrow.compute, pandas, grpc"

# What an application does with them all at once; `work` is at the top so that spawned workers find it.
PROGRAM = """
{imports}
import asyncio, multiprocessing, sys
from concurrent import futures

def work(job):
    url, topic, number = job
    frame = pandas.DataFrame({{"n": [number] * 10}})
    with magnetar.Client(url) as client, client.create_producer(topic) as producer:
        for value in pyarrow.Table.from_pandas(frame)["n"].to_pylist():
            producer.post(b"%d" % value)
    return int(frame["n"].sum())

async def count(url, topic, total):
    async with magnetar.aio.Client(url) as client:
        consumer = await client.subscribe(topic, "s", initial_position=magnetar.InitialPosition.EARLIEST)
        found = pyarrow.array([int((await consumer.receive(30)).data) for _ in range(total)])
        return pyarrow.compute.sum(found).as_py()

def main(url, topic, method):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    port = server.add_insecure_port("localhost:0")
    if method != "fork":  # grpc does not go on in a parent whose threads run while it forks
        server.start()
        channel = grpc.insecure_channel(f"localhost:{{port}}")
        grpc.channel_ready_future(channel).result(30)
    client = magnetar.Client(url)
    producer = client.create_producer(topic)
    producer.send(b"0")
    with multiprocessing.get_context(method).Pool(2) as pool:
        sums = pool.map(work, [(url, topic, number) for number in range(1, 5)])
    producer.send(b"0")
    assert asyncio.run(count(url, topic, 42)) == sum(sums) == 100, sums
    client.close()
    if method != "fork":
        channel.close()
        server.stop(None).wait(30)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("neighbours")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--target", str(folder), *NEIGHBOURS], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("order", ["ours-first", "ours-last"])
def test_neither_order_of_imports_nor_kind_of_pool_matters(neighbours, tmp_path, order, method):
    imports = f"{FIRST}\n{THEN}" if order == "ours-first" else f"{THEN}\n{FIRST}"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(imports=imports))
    environment = os.environ | {"PYTHONPATH": str(neighbours)}
    with Standalone(tmp_path / "broker") as broker:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", str(program), broker.url, f"{order}-{method}", method],
            capture_output=True,
            text=True,
            env=environment,
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
