"""Ownership among several brokers on one store: the broker that holds the lock of a bundle serves it.

A bundle without an owner is acquired at a lookup, by the broker that every broker would choose or by the one that a
client was redirected to. While the session with the store is lost, this broker acquires and confirms nothing and keeps
all bundles that it holds: silence is not loss. Two brokers may believe for a while that they own a bundle; the fencing
of the ledgers makes that safe, and nothing here prevents it. In a new session the locks of all held bundles are
validated: most of them stay (PIP-57). This module trusts `Locks` to report a loss only when it is certain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from magnetar.base.bundles import Bundle
from magnetar.base.errors import Conflict, MagnetarError, NotReady, Unavailable, Unknown
from magnetar.base.limits import (
    METADATA_RETRY_S_MIN,
    OWNERSHIP_TRIES_MAX,
    OWNERSHIP_WAIT_S,
)
from magnetar.base.names import NamespaceName
from magnetar.cluster.brokers import BrokerLeader, Brokers
from magnetar.cluster.ownership import Broker, Candidate
from magnetar.cluster.registration import member_value, new_process, owner_of, owner_value, process_of
from magnetar.cluster.rendezvous import choose
from magnetar.cluster.session_keeper import SessionKeeper
from magnetar.cluster.session_state import SessionState
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.lock import Lock, Locks
from magnetar.metadata.session_times import session_times
from magnetar.metadata.store import MetadataStore, Session
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("ownership")
T = TypeVar("T")

# Stock clients keep their connection and ask again when they read these words (SC-A3).
_AGAIN = "Failed to acquire ownership, try again"
_UNLOADING = "is being unloaded: look it up again"


@dataclass(frozen=True, slots=True)
class HeldBundle:
    namespace: NamespaceName
    bundle: Bundle
    lock: Lock


class LockOwnership:
    """Calls `lost` with a bundle when another broker certainly holds its lock: its topics belong to that broker.
    `keeper` knows the state of the session; this object closes it."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        me: Broker,
        *,
        lost: Callable[[NamespaceName, Bundle], None],
        keeper: SessionKeeper,
    ) -> None:
        self.me = me
        self.keeper = keeper
        self.bundles_acquired = 0
        self.bundles_lost = 0
        self.bundles_taken_over = 0
        self.validated_s = 0.0  # the time of the last validation of all bundles in a new session
        self._store = store
        self._runtime = runtime
        self._lost = lost
        self._process = new_process(runtime)
        self._validating_since: float | None = None
        self._joined = False
        self._registration: Lock | None = None
        self._held: dict[str, HeldBundle] = {}
        self._taking: dict[str, asyncio.Task[Broker]] = {}
        self._releasing: dict[str, asyncio.Task[None]] = {}
        self._owner = Owner("ownership", _ended)
        self._locks = Locks(store, runtime, "ownership locks", waits=True)
        self._locks.on_validated = self._validated
        self._live = Brokers(store)
        self._leader = BrokerLeader(store, runtime)
        self._elsewhere: set[str] = set()  # bundles that another broker owned when this broker last looked
        self._owners: Cache[Broker] = Cache(store, paths.OWNERSHIP, decode=owner_of, encode=owner_value)
        self._stop = store.on_session(self._heard_session)

    @property
    def steady(self) -> bool:
        return self.keeper.state is SessionState.HERE

    async def start(self, me: Broker) -> None:
        """Conflict: another process uses this address. NotReady: the store does not respond."""
        self.me = me
        wait_s = session_times(self._store).registration_s
        try:
            async with asyncio.timeout(wait_s):
                await self._register()
        except TimeoutError:
            raise NotReady(
                f"{me.id} cannot be registered: the metadata store does not respond for {wait_s:g} s"
            ) from None
        self._joined = True
        self._leader.start(me, self._process.token)

    async def owner(
        self, namespace: NamespaceName, bundle: Bundle, *, authoritative: bool = False
    ) -> Broker | Candidate:
        path = paths.ownership(namespace, str(bundle))
        self._check_joined(path)
        if path in self._held:
            return self.me
        self._check_steady(path)
        return await self._bounded(path, self._find(namespace, bundle, authoritative))

    async def known(self, namespace: NamespaceName, bundle: Bundle) -> Broker | None:
        path = paths.ownership(namespace, str(bundle))
        if path in self._held:
            return self.me
        self._check_steady(path)
        return await self._bounded(path, self._owners.get(path))

    async def minds(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        path = paths.ownership(namespace, str(bundle))
        self._check_steady(path)  # others mind the bundles of a broker that has lost its session
        owner = await self.known(namespace, bundle)
        return await self.is_chosen(path) if owner is None else owner.id == self.me.id

    async def is_chosen(self, key: str) -> bool:
        self._check_steady(key)
        return choose(key, await self._bounded(key, self._live.live())) == self.me.id

    async def owns(self, namespace: NamespaceName, bundle: Bundle) -> bool:
        path = paths.ownership(namespace, str(bundle))
        self._check_joined(path)
        self._check_steady(path)
        return await self._bounded(path, self._confirm(namespace, bundle, path))

    async def release(self, namespace: NamespaceName, bundle: Bundle, empty: Callable[[], Awaitable[None]]) -> None:
        path = paths.ownership(namespace, str(bundle))
        held = self._held.get(path)
        if held is None:
            await empty()
            return
        task = self._releasing.get(path)
        if task is None:
            task = self._releasing[path] = self._work(self._release(path, held, empty))
        await _result(task)

    def held(self) -> list[tuple[NamespaceName, Bundle]]:
        return [(held.namespace, held.bundle) for held in self._held.values()]

    async def brokers(self) -> list[Broker]:
        return list((await self._live.live()).values())

    async def leader(self) -> Broker:
        self._check_steady(paths.LEADER)
        leader = await self._bounded(paths.LEADER, self._leader.leader())
        if leader is None:
            raise NotReady(f"the broker is starting or stopping: {_AGAIN}")
        return leader

    async def leave(self) -> None:
        self._joined = False
        await _quietly(self._leader.close())
        registration, self._registration = self._registration, None
        if registration is not None:
            await _quietly(self._locks.release(registration))

    async def close(self) -> None:
        self._joined = False
        self._stop()
        await _quietly(self._leader.close())
        await self.keeper.close()
        await self._owner.close()
        await _quietly(self._locks.close())
        self._held.clear()
        self._owners.close()
        self._live.close()

    # Finding

    async def _find(self, namespace: NamespaceName, bundle: Bundle, authoritative: bool) -> Broker | Candidate:
        path = paths.ownership(namespace, str(bundle))
        owner = await self._owners.get(path)
        if owner is not None and owner.id != self.me.id:
            self._elsewhere.add(path)
            return owner
        # A record that names us and is not held: an answer was lost, or it is left from an earlier life. It is ours.
        if owner is None and not authoritative:
            live = await self._live.live()
            chosen = choose(path, live)
            if chosen is None:
                raise NotReady(f"no broker is registered: {_AGAIN}", bundle=path)
            if chosen != self.me.id:
                return Candidate(live[chosen])
        return await self._take(namespace, bundle, path)

    async def _confirm(self, namespace: NamespaceName, bundle: Bundle, path: str) -> bool:
        held = self._held.get(path)
        if held is not None:
            return await self._locks.confirm(held.lock) and path not in self._releasing
        owner = await self._owners.get(path)
        if owner is None or owner.id != self.me.id:
            return False
        return (await self._take(namespace, bundle, path)).id == self.me.id

    async def _take(self, namespace: NamespaceName, bundle: Bundle, path: str) -> Broker:
        """One acquisition for all concurrent callers; it continues if the first caller gives up."""
        task = self._taking.get(path)
        if task is None:
            task = self._taking[path] = self._work(self._acquire(namespace, bundle, path))
        return await _result(task)

    async def _acquire(self, namespace: NamespaceName, bundle: Bundle, path: str) -> Broker:
        try:
            for _ in range(OWNERSHIP_TRIES_MAX):
                self._check_joined(path)
                self._check_steady(path)
                try:
                    lock = await self._locks.acquire(path, owner_value(self.me, self._process), self._lock_lost)
                except Conflict:
                    node = await self._store.fresh(path)
                    owner = None if node is None else owner_of(node.value)
                    if owner is not None and owner.id != self.me.id:
                        return owner
                    continue
                self._held[path] = HeldBundle(namespace, bundle, lock)
                self.bundles_acquired += 1
                if path in self._elsewhere:
                    self._elsewhere.discard(path)
                    self.bundles_taken_over += 1
                log.info("bundle_acquired", bundle=path)
                self._runtime.mark("ownership.acquired", bundle=path, broker=self.me.id)
                return self.me
            raise NotReady(f"the owner of the bundle is changing: {_AGAIN}", bundle=path)
        finally:
            del self._taking[path]

    async def _release(self, path: str, held: HeldBundle, empty: Callable[[], Awaitable[None]]) -> None:
        try:
            await empty()
            self._held.pop(path, None)
            # Without an answer the record may still name this broker; the next client that is redirected here makes it
            # acquire the bundle again.
            await _quietly(self._locks.release(held.lock))
            log.info("bundle_released", bundle=path)
            self._runtime.mark("ownership.released", bundle=path, broker=self.me.id)
        finally:
            del self._releasing[path]

    def _lock_lost(self, lock: Lock) -> None:
        held = self._held.pop(lock.path, None)
        self.bundles_lost += 1
        log.warning("bundle_lost", bundle=lock.path)
        self._runtime.mark("ownership.lost", bundle=lock.path, broker=self.me.id)
        if held is not None:
            self._lost(held.namespace, held.bundle)

    # Being known

    async def _register(self) -> None:
        """Conflict: the registration belongs to a process that is alive."""
        wait_s = METADATA_RETRY_S_MIN
        twin_since: float | None = None
        while True:
            times = session_times(self._store)
            try:
                value = member_value(self.me, self._process)
                self._registration = await self._locks.acquire(paths.broker(self.me.id), value, self._unregistered)
                self._runtime.mark("broker.registered", broker=self.me.id)
                return
            except Conflict:
                # An earlier process of this broker, whose session has not ended, or another broker with its address.
                now = self._runtime.monotonic()
                twin_since = now if twin_since is None else twin_since
                await self._check_twin(now - twin_since, times.end_s)
            except (Unknown, Unavailable) as error:
                log.warning("broker_registration_failed", broker=self.me.id, error=str(error))
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, max(times.session_s / 10, METADATA_RETRY_S_MIN))

    async def _check_twin(self, waited_s: float, end_s: float) -> None:
        try:
            node = await self._store.get(paths.broker(self.me.id))
        except (Unknown, Unavailable):
            return
        if node is None:
            return
        words = f"another broker is registered as {self.me.id}: {_process_words(node.value)}"
        log.warning("broker_registration_failed", broker=self.me.id, error=words, waited_s=round(waited_s, 1))
        if waited_s > end_s:
            raise Conflict(
                f"{words}; its session has outlived {end_s:g} s, so it is alive: stop it, or give this broker its own "
                "address (advertisedAddress, webServicePort)"
            )

    def _unregistered(self, lock: Lock) -> None:
        log.error(
            "broker_registration_lost", broker=self.me.id, do="give each broker of the cluster a different address"
        )
        self._runtime.mark("broker.unregistered", broker=self.me.id)
        self._registration = None
        if not self._owner.closed:
            self._work(self._register_again())

    async def _register_again(self) -> None:
        """A broker that serves goes on without a registration, and tries until the other process ends."""
        while True:
            try:
                return await self._register()
            except Conflict as error:
                log.error("broker_registration_refused", broker=self.me.id, error=str(error))

    def _heard_session(self, session: Session) -> None:
        if session is Session.LOST:
            self._runtime.mark("session.lost", broker=self.me.id, bundles=len(self._held))
        elif session is Session.REESTABLISHED:
            self._validating_since = self._runtime.monotonic()
            self._runtime.mark("session.reestablished", broker=self.me.id, bundles=len(self._held))

    def _validated(self) -> None:
        """No lock waits for its validation."""
        since, self._validating_since = self._validating_since, None
        if since is not None:
            self.validated_s = self._runtime.monotonic() - since
            log.info("bundles_validated", bundles=len(self._held), seconds=round(self.validated_s, 3))

    # Refusing

    def _check_joined(self, path: str) -> None:
        if path in self._releasing:
            raise NotReady(f"the bundle {_UNLOADING}", bundle=path)
        if not self._joined:
            raise NotReady(f"the broker is starting or stopping: {_AGAIN}", bundle=path)

    def _check_steady(self, path: str) -> None:
        if not self.steady:
            raise NotReady(f"the broker has no session with the metadata store: {_AGAIN}", bundle=path)

    async def _bounded(self, path: str, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` for at most the time that a client waits. A timeout or an error of the store becomes NotReady,
        because the client may retry."""
        try:
            async with asyncio.timeout(OWNERSHIP_WAIT_S):
                return await work
        except TimeoutError:
            raise NotReady(f"the metadata store does not respond: {_AGAIN}", bundle=path) from None
        except NotReady:
            raise
        except (Unknown, Unavailable) as error:
            raise NotReady(f"the metadata store does not respond ({error.what}): {_AGAIN}", bundle=path) from error

    def _work(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._runtime.spawn(self._owner, work)


async def _result(task: asyncio.Task[T]) -> T:
    """The result of a task that continues if the caller gives up."""
    await asyncio.wait([task])
    if task.cancelled():
        raise NotReady(f"the broker is stopping: {_AGAIN}")
    return task.result()


def _process_words(value: bytes) -> str:
    try:
        return str(process_of(value))
    except (msgspec.MsgspecError, ValueError):
        return "its registration cannot be read"


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Runs `work` without failing the caller if the store does not respond: the end of the session does the same."""
    try:
        async with asyncio.timeout(OWNERSHIP_WAIT_S):
            await work
    except (MagnetarError, TimeoutError) as error:
        log.warning("lock_release_failed", error=str(error))


def _ended(owner: str, error: BaseException) -> None:
    if not isinstance(error, MagnetarError):  # the callers have received those errors
        log.crashed("task_failed", error, owner=owner)
