"""Samples what a world holds, and records each sample beside its limit (invariant 15).

During the faults it samples bytes published and not stored, connections, running requests, and pending messages of
clients. When all clients have closed, all of these must be zero. It only reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from magnetar.base.limits import CONNECTION_PENDING_BYTES_MAX, CONNECTION_REQUESTS_MAX
from simulation import history as record
from simulation.history import OK

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.client.client import Client
    from simulation.world.cluster import ClusterWorld

Sample = tuple[str, int, int]  # what, measured, limit
EVERY_S = 1.0


def sample_limits(world: ClusterWorld) -> None:
    for name, node in world.nodes.items():
        if world.hosts[name].alive:
            _note(world, ((f"{name} {what}", found, limit) for what, found, limit in _node(node)))
    for name, client in world.clients.items():
        _note(world, ((f"{name} {what}", found, limit) for what, found, limit in _client(client)))


def sample_at_rest(world: ClusterWorld) -> None:
    """All clients have closed."""
    for name, node in world.nodes.items():
        left = (
            ("pending bytes at rest", node.pending_bytes),
            ("connections at rest", len(node.connections)),
            ("lookups at rest", node.lookups),
            ("paused connections at rest", len(node.paused)),
        )
        _note(world, ((f"{name} {what}", found, 0) for what, found in left))
    for name, client in world.clients.items():
        _note(world, ((f"{name} {what} at rest", found, 0) for what, found, _ in _client(client)))


def _node(node: Node) -> Iterator[Sample]:
    connections = list(node.connections)
    yield "pending bytes", node.pending_bytes, node.pending_bytes_max + len(connections) * node.frame_bytes_max
    yield "connections", len(connections), node.settings.number("brokerMaxConnections")
    for connection in connections:
        yield "requests of a connection", connection._requests, CONNECTION_REQUESTS_MAX
        most = CONNECTION_PENDING_BYTES_MAX + connection.frame_bytes_max  # the frame that went beyond it
        yield "pending bytes of a connection", connection._pending_bytes, most


def _client(client: Client) -> Iterator[Sample]:
    yield "bytes on their way", client.budget.bytes, client.budget.bytes_max
    yield "messages on their way", client.budget.messages, client.budget.messages_max


def _note(world: ClusterWorld, samples: Iterator[Sample]) -> None:
    """Records only a new maximum."""
    for what, measured, limit in samples:
        if measured > world.peaks.get(what, 0):
            world.peaks[what] = measured
            world.history.note(what, record.SAMPLE, OK, measured=measured, limit=limit)
