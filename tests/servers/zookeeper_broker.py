"""A broker of a cluster in a process of its own, on ZooKeeper, with its ledgers in its memory: for the code at its end.

    python -m tests.servers.zookeeper_broker SERVERS ROOT SESSION_S [KEY=VALUE ...]

It prints the line of JSON of `magnetar standalone` when it is ready, and ends as that command does.
"""

from __future__ import annotations

import sys

import uvloop

from magnetar.admin.server import WebServer
from magnetar.base.errors import MagnetarError
from magnetar.broker.standalone import _serve
from magnetar.cli.commands.standalone import broker_ended
from magnetar.metadata.zookeeper.address import Server
from magnetar.policy.settings import Settings
from magnetar.runtime.system_runtime import RealRuntime
from tests.servers.zookeeper_brokers import LOCAL, ZooKeeperStores


async def serve(servers: str, root: str, session_s: float, given: dict[str, str]) -> MagnetarError | None:
    settings = Settings(None, {**LOCAL, **given})
    ports = [int(address.rpartition(":")[2]) for address in servers.split(",")]
    stores = ZooKeeperStores([Server("127.0.0.1", port) for port in ports], root, session_s)
    runtime = RealRuntime()
    try:
        node, _ = await stores.open_node(settings, runtime)
        return await _serve(node, settings, WebServer, say, "")
    finally:
        runtime.close()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(servers: str, root: str, session_s: str, *given: str) -> int:
    failure = uvloop.run(serve(servers, root, float(session_s), dict(pair.split("=", 1) for pair in given)))
    return broker_ended(failure, "the command")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
