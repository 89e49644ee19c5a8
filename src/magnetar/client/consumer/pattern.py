"""Topics by pattern: finds the matching topics and their changes, by periodic lookups and by a watch.

The pattern contains its namespace as literal text, `persistent://tenant/namespace/expression`, and is matched against
the whole name without domain and partition, as brokers do. A watch reports changes immediately if the broker supports
it. It ends with its connection; the lookup every `discovery_s` finds changes that it missed.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from magnetar.base.errors import MagnetarError, Misuse, Refused
from magnetar.base.names import Domain, topic_name
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup, Mode, Topics
from magnetar.client.consumer.multi_topic import TopicConsumers
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.proto import pb

log = get("client.pattern")

_SHAPE = re.compile(r"(?:(?P<domain>[a-z-]+)://)?(?P<tenant>[-=:.\w]+)/(?P<space>[-=:.\w]+)/(?P<rest>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """`expression` is sent to the broker, `matcher` is the same, compiled. `mode`: the domains to look up."""

    namespace: str
    expression: str
    matcher: re.Pattern[str]
    mode: Mode

    @staticmethod
    def of(pattern: re.Pattern[str], *, mode: Mode | None = None) -> TopicPattern:
        text = pattern.pattern
        if "/" not in text:
            text = f"public/default/{text}"
        match = _SHAPE.fullmatch(text)
        if match is None:
            words = "a pattern must name tenant and namespace: persistent://tenant/namespace/expression"
            raise Misuse(words, pattern=text)
        domain = match["domain"] or str(Domain.PERSISTENT)
        if domain not in (Domain.PERSISTENT, Domain.NON_PERSISTENT):
            raise Misuse("the domain of a pattern must be persistent or non-persistent", domain=domain)
        chosen: Mode = "PERSISTENT" if domain == Domain.PERSISTENT else "NON_PERSISTENT"
        namespace = f"{match['tenant']}/{match['space']}"
        expression = f"{re.escape(namespace)}/{match['rest']}"
        return TopicPattern(
            namespace, f"{namespace}/{match['rest']}", re.compile(expression, pattern.flags), mode or chosen
        )

    def matching(self, topics: list[str]) -> set[str]:
        """The matching topic names; a partitioned topic appears once."""
        bases = {topic_name(topic).partitioned_name for topic in topics}
        return {base for base in bases if self.matcher.fullmatch(base.split("://", 1)[1])}


class Discovery:
    """Keeps `parts` equal to the matching topics."""

    def __init__(self, lookup: Lookup, pattern: TopicPattern, parts: TopicConsumers, discovery_s: float) -> None:
        self._lookup = lookup
        self._pattern = pattern
        self._parts = parts
        self._discovery_s = discovery_s
        self._sent = pattern.expression  # "": this broker refuses the pattern (brokers bound its length)
        self._hash = ""
        self._owner = Owner("client.pattern", self._failed)
        self._changed = asyncio.Event()
        self._watched: Connection | None = None
        self._id = lookup.pool.next_id()

    async def start(self, timeout_s: float) -> None:
        topics = await self._ask(timeout_s)
        await self._parts.start(sorted(topics or ()), timeout_s)
        await self._watch()
        self._lookup.pool.runtime.spawn(self._owner, self._follow())

    async def close(self) -> None:
        connection, self._watched = self._watched, None
        await self._owner.close()
        if connection is not None and not connection.closed:
            connection.listeners.remove(pb.BaseCommand.WATCH_TOPIC_UPDATE, self._id)
            command = pb.BaseCommand(type=pb.BaseCommand.WATCH_TOPIC_LIST_CLOSE)
            command.watchTopicListClose.request_id = connection.next_request_id()
            command.watchTopicListClose.watcher_id = self._id
            try:
                await connection.request(
                    command, command.watchTopicListClose.request_id, timeout_s=self._lookup.timeout_s
                )
            except MagnetarError as error:
                log.info("topic_watch_close_failed", why=error)  # it ends with the connection

    async def refresh(self) -> None:
        """Look up the topics now, independently of the watch."""
        topics = await self._ask(self._lookup.timeout_s)
        if topics is not None:
            await self._parts.change(topics, self._lookup.timeout_s)
        await self._parts.grow()

    async def _ask(self, timeout_s: float) -> set[str] | None:
        """The matching topics; None: unchanged since the last lookup."""
        pattern = self._pattern
        try:
            response = await self._list(timeout_s)
        except Refused as error:
            if not self._sent:
                raise
            log.info("pattern_refused", pattern=pattern.expression, why=error, do="match it here")
            self._sent = self._hash = ""
            response = await self._list(timeout_s)
        if not response.changed:
            return None
        self._hash = response.hash
        return pattern.matching(response.names)

    async def _list(self, timeout_s: float) -> Topics:
        return await persist(
            self._lookup.pool.runtime,
            timeout_s,
            lambda: self._lookup.topics(
                self._pattern.namespace, self._pattern.mode, pattern=self._sent, hash=self._hash
            ),
            what="topics of namespace",
        )

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._discovery_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self.refresh()
                await self._watch()
            except MagnetarError as error:
                log.warning("topic_lookup_failed", pattern=self._pattern.expression, why=error)
                self._hash = ""  # a found topic may not be attached: request the whole list again

    async def _watch(self) -> None:
        if self._watched is not None and not self._watched.closed:
            return
        self._watched = None
        if self._pattern.mode != "PERSISTENT" or not self._sent:
            return  # brokers watch only persistent topics, and only patterns that they accept
        try:
            connection = await self._lookup.service()
            if not connection.features.supports_topic_watchers:
                return
            connection.listeners.add(pb.BaseCommand.WATCH_TOPIC_UPDATE, self._id, self._heard)
            command = pb.BaseCommand(type=pb.BaseCommand.WATCH_TOPIC_LIST)
            body = command.watchTopicList
            body.request_id = connection.next_request_id()
            body.watcher_id = self._id
            body.namespace = self._pattern.namespace
            body.topics_pattern = self._pattern.expression
            if self._hash:
                body.topics_hash = self._hash
            with self._lookup.moving_on(connection):
                reply = await connection.request(command, body.request_id, timeout_s=self._lookup.timeout_s)
        except MagnetarError as error:
            log.once("topic_watch_failed", namespace=self._pattern.namespace, why=error, again_s=self._discovery_s)
            return
        self._watched = connection
        if reply.watchTopicListSuccess.topics_hash != self._hash:
            self._changed.set()

    def _heard(self, update: pb.CommandWatchTopicUpdate) -> None:
        log.debug("topics_changed", new=len(update.new_topics), deleted=len(update.deleted_topics))
        self._changed.set()

    def _failed(self, name: str, error: BaseException) -> None:
        log.crashed("topic_discovery_crashed", error)
