"""One broker with its directory: started, stopped, killed and restarted on the same ports.

Each life has its own thread and loop, and leaves no state in the process when it ends. Every method returns a future,
which the blocking and the awaiting wrapper share; only `close` blocks. The host belongs to the process that created it:
in a forked child its methods fail with an explanation.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from magnetar.base.errors import AlreadyExists, Conflict, Misuse
from magnetar.base.limits import (
    TESTING_MEMORY_BYTES_MIN,
    TESTING_PAUSE_S,
    TESTING_PORT_S,
    TESTING_PORT_STEP_S,
    TESTING_WAIT_S,
)
from magnetar.testing.probe import LoopProbe
from magnetar.testing.thread import LoopThread

if TYPE_CHECKING:
    from magnetar.broker.embedded import EmbeddedBroker, OpenEngines
    from magnetar.runtime.files import Files
    from magnetar.runtime.system_runtime import RealRuntime

T = TypeVar("T")
# Linux's file system in memory: a sync there costs nothing.
MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes the folder inside
LOCAL = {"bindAddress": "127.0.0.1", "advertisedAddress": "127.0.0.1", "brokerServicePort": "0", "webServicePort": "0"}


class BrokerHost:
    """`settings` are text values of standalone.conf. `on_long_turn`, if set, is called for turns of the loop that take
    too much processor time.
    """

    on_long_turn: ClassVar[Callable[[float], object] | None] = None

    def __init__(self, settings: Mapping[str, str], *, data: Path | None, fast: bool, clock: bool = False) -> None:
        _check(settings)
        from magnetar.testing.clock import Offset
        from magnetar.testing.faults import Faults

        self.faults = Faults()
        self.offset = Offset() if clock else None
        self._resumed: threading.Event | None = None  # set while it is paused
        self._settings = {**LOCAL, **settings}
        self._own = data is None
        self._pid = os.getpid()
        self._numbers = itertools.count(1)
        self._thread: LoopThread | None = None
        self._hosted: EmbeddedBroker | None = None
        self._probe: LoopProbe | None = None
        self.url = ""
        self.admin_url = ""
        self.data = _temporary(fast=fast) if data is None else data

    @staticmethod
    def checked(settings: Mapping[str, str]) -> Mapping[str, str]:
        """Misuse: a setting is unknown, or a package is missing."""
        _check(settings)
        return settings

    @property
    def held(self) -> bool:
        """Whether a broker must be stopped: it runs, or its disk ended it."""
        return self._hosted is not None

    @property
    def running(self) -> bool:
        return self._hosted is not None and self._hosted.failure is None

    def start(self) -> Future[None]:
        self._refuse_child()
        if self._hosted is not None:
            raise Misuse("the broker is already running", url=self.url)
        self._end_thread()
        thread = self._thread = LoopThread("magnetar-broker", self._make_loop)
        return thread.submit(self._start)

    def stop(self) -> Future[None]:
        return self._submit(self._stop)

    def kill(self) -> Future[None]:
        return self._submit(self._kill)

    def new_namespace(self, hint: str) -> Future[str]:
        word = re.sub(r"[^a-zA-Z0-9]+", "-", hint).strip("-")[:60] or "test"

        async def create() -> str:
            hosted = self._serving()
            while True:
                name = f"public/{word}-{next(self._numbers)}"
                try:
                    await hosted.create_namespace(name)
                except (AlreadyExists, Conflict):  # created by an earlier life of this directory
                    continue
                return name

        return self._submit(create)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """In the broker's thread, after earlier requests."""
        return self._submit(work)

    def cut(self) -> Future[None]:
        async def cut() -> None:
            self.faults.cut()
            await asyncio.sleep(0)  # aborted transports notify their protocols in the next turn

        return self._submit(cut)

    def advance(self, seconds: float) -> Future[None]:
        from magnetar.testing.clock import check_seconds

        offset = self.offset
        if offset is None:
            raise Misuse(
                "the clock of this broker cannot be moved: create it with broker(clock=True), or mark the test"
            )
        check_seconds(seconds)
        return self._submit(lambda: offset.advance(seconds))

    def pause(self) -> None:
        """Blocks its thread until `resume`: sockets stay open, and no data is read or answered."""
        self._refuse_child()
        self._serving()
        assert self._thread is not None
        resumed, reached = threading.Event(), threading.Event()

        def stand_still() -> None:
            reached.set()
            resumed.wait(TESTING_PAUSE_S)

        self._resumed = resumed
        self._thread.call(stand_still)
        reached.wait(TESTING_WAIT_S)

    def resume(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    def close(self) -> None:
        """Stops it in any state, ends its thread, and removes its directory unless the caller passed it. Blocks."""
        if os.getpid() != self._pid:
            return
        self.resume()
        try:
            if self._thread is not None:
                self._thread.submit(self._stop_what_runs).result(TESTING_WAIT_S)
        finally:
            self._end_thread()
            if self._own:
                shutil.rmtree(self.data, ignore_errors=True)

    # In the thread

    async def _start(self) -> None:
        from magnetar.admin.server import WebServer
        from magnetar.broker.embedded import EmbeddedBroker

        engines = self._engines()
        deadline = asyncio.get_running_loop().time() + (TESTING_PORT_S if self.url else 0.0)
        while True:
            try:
                hosted = await EmbeddedBroker.start(engines, self._settings, WebServer, make_runtime=self._make_runtime)
                break
            except Conflict:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
            await asyncio.sleep(TESTING_PORT_STEP_S)
        addresses = hosted.addresses
        self._settings["brokerServicePort"] = str(addresses.port)
        self._settings["webServicePort"] = str(addresses.http_port)
        self.url, self.admin_url = addresses.url, addresses.http_url
        self._hosted = hosted
        if BrokerHost.on_long_turn is not None:
            self._probe = LoopProbe(BrokerHost.on_long_turn)
            self._probe.start()

    def _engines(self) -> OpenEngines:
        from magnetar.broker.embedded import in_directory

        return in_directory(str(self.data))

    async def _stop(self) -> None:
        hosted, self._hosted = self._serving(), None
        self._end_probe()
        await hosted.stop()

    async def _stop_what_runs(self) -> None:
        """Checked in the thread: a start whose caller was cancelled may have run before."""
        if self._hosted is not None:
            await self._stop()

    async def _kill(self) -> None:
        hosted, self._hosted = self._serving(), None
        self._end_probe()
        await hosted.kill()

    def _end_probe(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.stop()

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        from magnetar.testing.loops import make_loop

        return make_loop(self.faults, self.offset)

    def _make_runtime(self, files: Files) -> RealRuntime:
        from magnetar.runtime.system_runtime import RealRuntime
        from magnetar.testing.clock import ClockRuntime
        from magnetar.testing.faults import FaultFiles

        faulty = FaultFiles(files, self.faults)
        return RealRuntime(faulty) if self.offset is None else ClockRuntime(faulty, self.offset)

    # Inside

    def _serving(self) -> EmbeddedBroker:
        if self._hosted is None:
            raise Misuse("the broker is not running: start it first")
        return self._hosted

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        self._refuse_child()
        self._serving()
        if self._resumed is not None:
            raise Misuse("the broker is paused: leave the block of paused() first")
        assert self._thread is not None
        return self._thread.submit(work)

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None and not thread.close(TESTING_WAIT_S):
            raise Conflict("the broker's thread did not end", waited_s=TESTING_WAIT_S)

    def _refuse_child(self) -> None:
        if os.getpid() != self._pid:
            raise Misuse("this broker belongs to another process: create one in this process", pid=self._pid)


def _check(settings: Mapping[str, str]) -> None:
    """Loads the broker in the caller's thread, so that a missing package raises an error at the call."""
    try:
        from magnetar.admin.server import WebServer as _  # noqa: F401
        from magnetar.broker.embedded import known_settings
    except ModuleNotFoundError as error:
        raise Misuse(
            f"the broker cannot start: the package {error.name} is missing, because a plain install brings only "
            "the client; run: pip install 'magnetar[broker]'"
        ) from error
    names = known_settings()
    for key in settings:
        if key not in names:
            near = get_close_matches(key, names, 1)
            raise Misuse(f"no such setting: {key}" + (f"; did you mean {near[0]}?" if near else ""))


def _temporary(*, fast: bool) -> Path:
    return Path(tempfile.mkdtemp(prefix="magnetar-", dir=_memory() if fast else None))


def _memory() -> Path | None:
    """A directory in memory, if this machine has one with enough space."""
    try:
        free = shutil.disk_usage(MEMORY).free
    except OSError:
        return None
    return MEMORY if free >= TESTING_MEMORY_BYTES_MIN and os.access(MEMORY, os.W_OK) else None
