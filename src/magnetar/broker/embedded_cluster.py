"""The stores of a cluster inside one process, and a node of it.

The brokers share a metadata store and a ledger store in memory. Each broker runs in its own thread, as
`broker/embedded.py` describes. The stores belong to the cluster: the end of a broker, with or without notice, leaves
its data to the others, and the data ends with the last reference to `Stores`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from magnetar.base.names import topic_name
from magnetar.broker.node import Node
from magnetar.broker.peers.destination import destination
from magnetar.ledger.memory import MemoryLedgerStore, SharedLedgers
from magnetar.metadata.memory.records import SharedMetadata
from magnetar.metadata.memory.store import MemoryMetadataStore
from magnetar.policy.settings import Settings
from magnetar.runtime.files import Lock
from magnetar.runtime.system_runtime import RealRuntime


class NoLock:
    """A broker without a directory locks none."""

    def release(self) -> None:
        pass


class Stores:
    """`session_s`: the timeout of the sessions with the metadata store. `make_lock` makes a lock of threads."""

    def __init__(self, session_s: float, make_lock: Callable[[], AbstractContextManager[object]]) -> None:
        self.metadata = SharedMetadata(session_s, make_lock())
        self.ledgers = SharedLedgers(make_lock())

    async def open_node(self, settings: Settings, runtime: RealRuntime) -> tuple[Node, Lock]:
        """A node of the cluster on the running loop, not serving yet."""
        metadata = MemoryMetadataStore(self.metadata, runtime)
        try:
            ledgers = MemoryLedgerStore(self.ledgers)
            return Node(runtime=runtime, metadata=metadata, ledgers=ledgers, settings=settings, cluster=True), NoLock()
        except BaseException:
            await metadata.close()
            raise

    def set_available(self, available: bool) -> None:
        """Whether the metadata store answers."""
        with self.metadata.lock:
            if available and not self.metadata.available:
                self.metadata.refresh_sessions()
            self.metadata.available = available

    def end_session(self, session: str) -> None:
        with self.metadata.lock:
            self.metadata.end_session(session)


async def owner_id(node: Node, topic: str) -> str:
    """The id of the broker that serves the topic."""
    return (await destination(node, topic_name(topic))).id
