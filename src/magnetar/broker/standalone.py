"""A whole broker in one process on one directory: the embedded engines, one node, and a REST server from the caller.

It runs until SIGTERM, SIGINT or a failure of the disk, and then stops in order. When it is ready it prints one line of
JSON with its addresses on standard output, for scripts that start it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from magnetar import __version__
from magnetar.base.errors import Conflict, MagnetarError, Misuse
from magnetar.base.hashes import has_fast_crc
from magnetar.base.hosts import is_loopback
from magnetar.base.limits import MAINTENANCE_S
from magnetar.base.names import forget_names
from magnetar.broker.connection.limits import allowed, shared_out
from magnetar.broker.disk_space import DiskSpace, release_reserve
from magnetar.broker.end_reason import end_reason
from magnetar.broker.memory_policy import MemoryReturnPolicy
from magnetar.broker.metrics.host import HostMetrics
from magnetar.broker.node import Node
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.metadata.embedded import EmbeddedStore
from magnetar.observe import log as logs
from magnetar.policy.settings import Settings
from magnetar.policy.table import KEYS
from magnetar.runtime.descriptors import as_many_as_allowed
from magnetar.runtime.files import Files, Lock
from magnetar.runtime.memory import give_back, machine_bytes, settle
from magnetar.runtime.system_runtime import Marked, RealRuntime

log = logs.get("standalone")


class Web(Protocol):
    """The REST server, which the caller provides."""

    def __init__(self, node: Node) -> None: ...

    async def start(self, host: str, port: int) -> int: ...

    async def stop(self) -> None: ...


async def run(
    data: str,
    configuration: Mapping[str, str],
    conf: str | None,
    web: type[Web] | Callable[[Node], Web],
    say: Callable[[str], None],
    *,
    files: Files | None = None,
    marks: Sequence[Marked] = (),
) -> MagnetarError | None:
    """Returns after a clean stop: None, or the storage failure that caused it. `files`: a replacement for the file
    system. `marks` receive every passed mark: hold points of tests."""
    form = os.environ.get("MAGNETAR_LOG", "text")
    if form not in ("text", "json"):
        raise Misuse(f"MAGNETAR_LOG must be text or json, got {form}")
    logs.configure(json=form == "json", level=os.environ.get("MAGNETAR_LOG_LEVEL", "info"))
    settings = Settings.load(conf, configuration) if conf is not None else Settings(None, configuration)
    if settings.number("brokerServicePort") == settings.number("webServicePort") != 0:
        raise Misuse(
            "brokerServicePort and webServicePort must be different",
            port=settings.number("brokerServicePort"),
        )
    if not has_fast_crc():
        log.warning(
            "slow_checksum_used",
            why="google-crc32c runs without its C extension, a thousand times slower",
            do="install a wheel of google-crc32c for this platform",
        )
    sockets = shared_out(as_many_as_allowed())
    runtime = RealRuntime(files)
    runtime.marks.extend(marks)
    try:
        node, lock = await open_node(data, settings, runtime)
        node.sockets_max = replace(sockets, memory=node.sockets_max.memory)
        log.info("connection_limit_computed", **allowed(node.sockets_max, settings))
        HostMetrics(node).start()
        disk = DiskSpace(node, data)
        await disk.begin()
        if isinstance(node.ledgers, LocalLedgers):
            node.ledgers.journal.on_written = disk.journal_written
        try:
            failure = await _serve(node, settings, web, say, data)
        finally:
            lock.release()
    finally:
        runtime.close()
    return failure


async def open_node(data: str, settings: Settings, runtime: RealRuntime) -> tuple[Node, Lock]:
    """The engines on this directory and a node on them, not serving yet. Conflict names the process that uses the
    directory."""
    files = runtime.files
    holder = f"magnetar {__version__}"

    def prepare() -> Lock:
        try:
            files.mkdir(data)
        except Misuse:
            raise
        except MagnetarError as error:
            why = getattr(error.__cause__, "strerror", None) or error.what
            words = f"the data folder {data} cannot be created: {why}; choose another folder or change the permissions"
            raise Misuse(words) from error
        release_reserve(files, data)
        lock = files.lock(os.path.join(data, "lock"), holder)
        try:
            for suffix in ("", "-wal", "-shm"):  # sqlite would make them readable to everybody
                path = os.path.join(data, f"metadata.db{suffix}")
                if not suffix or files.exists(path):
                    files.open(path, create=True).close()
        except BaseException:
            lock.release()
            raise
        return lock

    try:
        lock = await runtime.offload(prepare, "journal")
    except Conflict as error:
        raise Conflict(f"{data} is in use: {error.what}") from error
    try:
        metadata = await EmbeddedStore.open(os.path.join(data, "metadata.db"), runtime)
        try:
            ledgers = await LocalLedgers.start(os.path.join(data, "ledgers"), runtime, metadata, holder=holder)
        except BaseException:
            await metadata.close()
            raise
    except BaseException:
        lock.release()
        raise
    memory = await runtime.offload(machine_bytes, "journal")
    node = Node(runtime=runtime, metadata=metadata, ledgers=ledgers, settings=settings, machine_bytes=memory)
    metadata.on_failure.append(node.fail)
    ledgers.journal.on_failure.append(node.fail)
    return node, lock


async def _serve(
    node: Node, settings: Settings, web: type[Web] | Callable[[Node], Web], say: Callable[[str], None], data: str
) -> MagnetarError | None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stopping.set)
    host = settings.text("bindAddress")
    if not is_loopback(host):
        log.warning(
            "unauthenticated_broker_exposed",
            bind=host,
            why="no authentication; set bindAddress=127.0.0.1 to accept local connections only",
        )
    skin = web(node)
    try:
        await node.start(host, settings.number("brokerServicePort"), host_shown=settings.text("advertisedAddress"))
        await node.serve(await skin.start(host, settings.number("webServicePort")))
        settle()
        say(msgspec.json.encode(_ready(node, settings, data)).decode())
        node.runtime.spawn(node.owner, _return_memory(node))
        await node.stopping.wait()
        log.info("broker_stop_started", why="requested" if node.failure is None else end_reason(node.failure))
    finally:
        await skin.stop()
        await node.stop()
    return node.failure


def _ready(node: Node, settings: Settings, data: str) -> dict[str, object]:
    """The ready message for scripts that started the broker; the command line prints it for people."""
    return {
        "ready": True,
        "url": node.addresses.url,
        "http": node.addresses.http_url,
        "pid": os.getpid(),
        "version": __version__,
        "data": os.path.abspath(data),
        "bind": settings.text("bindAddress"),
        "authentication": KEYS["authenticationEnabled"].honoured and settings.flag("authenticationEnabled"),
    }


async def _return_memory(node: Node) -> None:
    """Returns memory to the system after thousands of topics were unloaded, and logs the suppressed log lines."""
    departures = MemoryReturnPolicy()
    while True:
        await asyncio.sleep(MAINTENANCE_S)
        logs.settle(node.runtime.wall() / 1000)
        if departures.look(node.topics.departed, len(node.topics)):
            # Remembered names lie between the topics they were read with: one of them keeps a megabyte from going.
            forget_names()
            node.catalogue.forget()
            await node.runtime.offload(give_back, "metadata")
