"""Dynamic overrides of settings: one record for the whole cluster, followed by every broker.

The record is a JSON object of text values by key. A caller that sets a value gets an error if the value is invalid; a
broker that follows the record skips values that it cannot read. This module changes `Settings` and nothing else.
"""

from __future__ import annotations

import msgspec

from magnetar.base.errors import Corrupt, MagnetarError, Refused
from magnetar.metadata.cache import Cache
from magnetar.metadata.paths import CONFIGURATION
from magnetar.metadata.store import Change, Event, MetadataStore, Session
from magnetar.observe import log as logs
from magnetar.policy.settings import Settings
from magnetar.policy.table import KEYS
from magnetar.runtime.runtime import Owner, Runtime

PATH = CONFIGURATION

log = logs.get("policy")


class Dynamic:
    """`start` before the broker serves; `close` with it."""

    def __init__(self, store: MetadataStore, settings: Settings, runtime: Runtime) -> None:
        self._settings = settings
        self._runtime = runtime
        self._owner = Owner("dynamic settings")
        self._cache: Cache[dict[str, str]] = Cache(store, PATH, decode=_decode, encode=msgspec.json.encode)
        self._stops = [store.subscribe(PATH, self._heard), store.on_session(self._heard_session)]

    async def start(self) -> None:
        await self._follow()

    async def set(self, key: str, text: str) -> None:
        self._settings.check_dynamic(key, text)
        await self._cache.update(PATH, lambda before: {**(before or {}), key: text})
        await self._follow()

    async def unset(self, key: str) -> None:
        if key not in KEYS or not KEYS[key].dynamic:
            raise Refused("Can't delete non-dynamic configuration", http_status=412)
        await self._cache.update(
            PATH, lambda before: {name: text for name, text in (before or {}).items() if name != key}
        )
        await self._follow()

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        self._cache.close()
        await self._owner.close()

    async def _follow(self) -> None:
        self._settings.replace_dynamic(await self._cache.get(PATH) or {})

    async def _follow_or_log(self) -> None:
        try:
            await self._follow()
        except MagnetarError as error:
            log.error(
                "dynamic_settings_read_failed", why=error
            )  # the next event or session tries again; what held holds

    def _heard(self, event: Event) -> None:
        if event.change is not Change.CHILDREN_CHANGED and not self._owner.closed:
            self._runtime.spawn(self._owner, self._follow_or_log())

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED) and not self._owner.closed:
            self._runtime.spawn(self._owner, self._follow_or_log())


def _decode(data: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(data, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise Corrupt(f"the dynamic settings cannot be read: {error}", path=PATH) from error
