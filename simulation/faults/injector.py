"""Injects the faults of a plan into a world: one method for each kind, without decisions of its own.

A timer of the world ends a lasting fault; `heal` ends the rest when the world is healed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magnetar.admin.request import Request
from magnetar.admin.router import handle
from magnetar.base.errors import NotEnoughNodes, TimedOut
from simulation.faults.plan import Fault, FaultKind
from simulation.stores.metadata import MemoryStore
from simulation.world.config import KEPT, ONCE

if TYPE_CHECKING:
    from simulation.world.cluster import ClusterWorld


class FaultInjector:
    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._armed: list[Fault] = []  # wait for a step

    def inject(self, fault: Fault) -> None:
        FAULTS[fault.kind](self, fault)

    def step_taken(self, broker: str, step: str) -> None:
        """Injects the faults that wait for this step of a reshape into the broker that has just taken it."""
        for fault in [fault for fault in self._armed if fault.where[0] == step]:
            self._armed.remove(fault)
            self._world.inject(Fault(self._world.loop.time(), FaultKind[fault.where[1]], (broker,), for_s=fault.for_s))

    def heal(self) -> None:
        self._armed.clear()
        self._world.down_until.clear()
        self._world.network.heal_all()
        for host in self._world.hosts.values():
            host.clock_offset_s = 0.0  # delayed messages are due by the brokers' clocks
        for name in self._world.config.brokers:
            self.mend_disk(name)
            files = self._world.hosts[name].files
            files.crash_at, files.tear_next = None, 0

    def _later(self, fault: Fault, work: Callable[..., None], *args: Any) -> None:
        self._world.loop.call_later(fault.for_s, work, *args)

    def _at_step(self, fault: Fault) -> None:
        self._armed.append(fault)

    def _crash(self, fault: Fault) -> None:
        (name,) = fault.where
        self._world.down_until[name] = self._world.loop.time() + fault.for_s
        if fault.amount:
            files = self._world.hosts[name].files
            files.crash_at = files.calls + round(fault.amount)  # between a write and its sync, or in a start
        else:
            self._world.hosts[name].crash()

    def _kill(self, fault: Fault) -> None:
        (name,) = fault.where
        self._world.down_until[name] = self._world.loop.time() + fault.for_s
        self._world.hosts[name].kill()

    def _client_kill(self, fault: Fault) -> None:
        (name,) = fault.where
        if self._world.hosts[name].alive:
            self._world.hosts[name].kill()
            self._later(fault, self._world.start_clients, name)

    def _restart(self, fault: Fault) -> None:
        (name,) = fault.where
        node = self._world.nodes.get(name)
        if node is not None and node.ready and self._world.hosts[name].alive:
            self._world.down_until[name] = self._world.loop.time() + fault.for_s
            node.stopping.set()

    def _tear(self, fault: Fault) -> None:
        self._world.hosts[fault.where[0]].files.tear_next = round(fault.amount)

    def _pause(self, fault: Fault) -> None:
        """Its session ages during the pause, and it does not notice."""
        (name,) = fault.where
        self._world.hosts[name].pause(fault.for_s)
        store = self._session(name) if name in self._world.config.brokers else None
        if store is not None:
            store.disconnect(noticed=False, seconds=fault.for_s)

    def _jump(self, fault: Fault) -> None:
        self._world.hosts[fault.where[0]].jump_clock(fault.amount)

    def _slow_disk(self, fault: Fault) -> None:
        host = self._world.hosts[fault.where[0]]
        host.slow_disk = fault.amount
        self._later(fault, self.mend_disk, host.name)

    def _full_disk(self, fault: Fault) -> None:
        files = self._world.hosts[fault.where[0]].files
        files.full_after = 0
        self._later(fault, self.mend_disk, fault.where[0])

    def _sync_fails(self, fault: Fault) -> None:
        files = self._world.hosts[fault.where[0]].files
        files.fail_syncs = 1
        self._later(fault, self.mend_disk, fault.where[0])

    def mend_disk(self, name: str) -> None:
        host = self._world.hosts[name]
        host.slow_disk = 1.0
        host.files.full_after = None
        host.files.fail_syncs = 0

    def _cut(self, fault: Fault) -> None:
        self._world.network.cut(*fault.where)
        self._later(fault, self._world.network.heal, *fault.where)

    def _part(self, fault: Fault) -> None:
        broker, other = fault.where
        for ends in ((broker, other), (other, broker)):
            self._world.network.cut(*ends)
            self._later(fault, self._world.network.heal, *ends)

    def _hold(self, fault: Fault) -> None:
        self._world.network.hold(*fault.where)
        self._later(fault, self._world.network.release, *fault.where)

    def _lose(self, fault: Fault) -> None:
        self._world.network.lose(*fault.where)

    def _half_open(self, fault: Fault) -> None:
        self._world.network.half_open(*fault.where)

    def _session(self, name: str) -> MemoryStore | None:
        return self._world.stores.get(name) if self._world.hosts[name].alive else None

    def _disconnect(self, fault: Fault) -> None:
        store = self._session(fault.where[0])
        if store is not None:
            store.disconnect(noticed=fault.for_s < 0.3, seconds=fault.for_s)

    def _expire(self, fault: Fault) -> None:
        store = self._session(fault.where[0])
        if store is not None:
            store.expire(noticed=fault.kind is FaultKind.EXPIRE)

    def _estrange(self, fault: Fault) -> None:
        self._expire(fault)
        self._later(fault, self._world.network.lose, fault.where[1], fault.where[0])

    def _store_out(self, fault: Fault) -> None:
        self._world.store.outage(fault.for_s)

    def _append_fails(self, fault: Fault) -> None:
        ledgers = self._world.ledgers.get(fault.where[0])
        if ledgers is not None:
            if fault.kind is FaultKind.APPEND_FAILS:
                ledgers.fail_append(NotEnoughNodes("too few bookies can be written to"))
            else:
                ledgers.fail_append(TimedOut("too few bookies answered"), landed=bool(fault.amount))

    def _ledgers_out(self, fault: Fault) -> None:
        self._world.ledger_store.outage(fault.for_s)

    def _cut_off(self, fault: Fault) -> None:
        ledgers = self._world.ledgers.get(fault.where[0])
        if ledgers is not None:
            ledgers.cut_off(fault.for_s)

    def _unload(self, fault: Fault) -> None:
        node = self._world.nodes.get(fault.where[0])
        host = self._world.hosts[fault.where[0]]
        if node is None or not node.ready or host.incarnation is None:
            return
        namespace = ONCE if fault.amount else KEPT
        host.do(handle(node, Request("PUT", f"/admin/v2/namespaces/{namespace}/unload")))


FAULTS: dict[FaultKind, Callable[[FaultInjector, Fault], None]] = {
    FaultKind.CRASH: FaultInjector._crash,
    FaultKind.KILL: FaultInjector._kill,
    FaultKind.RESTART: FaultInjector._restart,
    FaultKind.PAUSE: FaultInjector._pause,
    FaultKind.JUMP: FaultInjector._jump,
    FaultKind.SLOW_DISK: FaultInjector._slow_disk,
    FaultKind.FULL_DISK: FaultInjector._full_disk,
    FaultKind.SYNC_FAILS: FaultInjector._sync_fails,
    FaultKind.TEAR: FaultInjector._tear,
    FaultKind.CUT: FaultInjector._cut,
    FaultKind.PART: FaultInjector._part,
    FaultKind.HOLD: FaultInjector._hold,
    FaultKind.LOSE: FaultInjector._lose,
    FaultKind.HALF_OPEN: FaultInjector._half_open,
    FaultKind.DISCONNECT: FaultInjector._disconnect,
    FaultKind.EXPIRE: FaultInjector._expire,
    FaultKind.EXPIRE_UNTOLD: FaultInjector._expire,
    FaultKind.ESTRANGE: FaultInjector._estrange,
    FaultKind.STORE_OUT: FaultInjector._store_out,
    FaultKind.APPEND_FAILS: FaultInjector._append_fails,
    FaultKind.APPEND_UNHEARD: FaultInjector._append_fails,
    FaultKind.LEDGERS_OUT: FaultInjector._ledgers_out,
    FaultKind.LEDGERS_CUT: FaultInjector._cut_off,
    FaultKind.UNLOAD: FaultInjector._unload,
    FaultKind.CLIENT_KILL: FaultInjector._client_kill,
    FaultKind.CLIENT_PAUSE: FaultInjector._pause,
    FaultKind.AT_STEP: FaultInjector._at_step,
}
