"""Exactly-once publishing in batches: rows are written to stages, a commit chooses them, the broker publishes them.

One `StagedSink` stands for the batches that are counted together: its topic and its own name say which, in whatever
process. A task begins a stage, writes, seals; whoever drives the batch commits the ids of the stages that count, once.
A batch that was committed before is not written again: `begin` answers None, or is refused where another query did it.
Everything may be repeated after an unknown outcome, and is, for long: a job had better wait than fail. A broker that
was never reached is told soon. Only Magnetar's brokers have stages: others are refused with what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from magnetar.base.errors import MagnetarError, Misuse, NotBuilt, StageNotFound
from magnetar.base.limits import CLIENT_STAGE_ASK_S, CLIENT_STAGE_RENEWALS, CLIENT_STAGE_S
from magnetar.base.names import SINK_PREFIX, full_name, topic_name
from magnetar.client.client import Client
from magnetar.client.connection.backoff import persist
from magnetar.client.options import ProducerOptions
from magnetar.client.producer.producer import Producer
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.wire.proto import pb

log = get("client.stages")

_K = pb.BaseCommand
_FOREIGN = (
    "the server at {url} is {server}: it has no stages, which exactly-once publishing needs. Use a Magnetar broker, or "
    "another delivery (option delivery in Spark): at-least-once, or idempotent where a repeated batch gives the same "
    "rows to the same tasks"
)


def single_job() -> str:
    """The name of a sink for one job: no other has it."""
    return f"job-{RealRuntime().rng('client.jobs').getrandbits(128):032x}"


@dataclass(frozen=True, slots=True)
class Commit:
    """`chosen`: by this call; else the batch was committed before. `published`: nothing of the sink is on its way."""

    chosen: bool
    published: bool
    warning: str = ""


class Stage:
    """A stage that is being written. `producer` takes its rows, in order; then `seal`, or `drop`."""

    def __init__(self, sink: StagedSink, id: str, producer: Producer[bytes], lease_s: float) -> None:
        self.id = id
        self.producer = producer
        self._sink = sink
        self._owner = Owner(f"stage {id}", self._failed)
        self._every_s = lease_s / CLIENT_STAGE_RENEWALS
        sink.client.runtime.spawn(self._owner, self._renew())

    async def seal(self) -> int:
        """Everything is stored and nothing more can be; how many messages it holds. StageNotFound: it was dropped."""
        try:
            await self.producer.close()
        finally:
            await self._owner.close()
        return await self._sink.seal(self.id)

    async def drop(self) -> None:
        """Forget it; what cannot be said now is said by the end of its lease."""
        await self._owner.close()
        try:
            await self.producer.close(flush=False)
        finally:
            await self._sink.forget([self.id])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._sink.renew(self.id)
            except StageNotFound as error:
                log.warning("stage gone", stage=self.id, why=error)
                return
            except MagnetarError as error:
                log.info("stage not renewed", stage=self.id, why=error)

    def _failed(self, name: str, error: BaseException) -> None:
        log.crashed("renewing failed", error, stage=self.id)


class StagedSink:
    """`query` is what a checkpoint calls its query, `run` one run of it: a query that would leave out rows because
    another one counts here is refused, two runs that take turns are told so. `once`: the sink of a single job, which
    is forgotten a day after it is published. `warning`: what the broker found odd when it was asked last."""

    def __init__(
        self, client: Client, topic: str, name: str, *, query: str = "", run: str = "", once: bool = False
    ) -> None:
        self.client = client
        self.topic = str(topic_name(full_name(topic)))
        self.name = name
        self.warning = ""
        self._run = f"{query}/{run}" if query else run
        self._once = once

    async def begin(self, batch: int, **options: Any) -> Stage | None:
        """A stage for rows of this batch; None: it is committed, there is nothing to write. Refused: it is, and
        not by this query. `options` are a producer's; chunks would be counted as rows, so there are none."""
        if options.get("chunking"):
            raise Misuse("a stage takes whole messages: leave chunking out", sink=self.name)
        await self._reach()
        reply = await self._ask(_K.BEGIN_STAGE, "beginStage", self._begin(batch), f"begin batch {batch}")
        told = reply.beginStageResponse
        self._warned(told.warning)
        if not told.stage:
            return None
        chosen: ProducerOptions = {"name": f"{SINK_PREFIX}{told.stage}", **options}  # type: ignore[typeddict-item]
        try:
            producer = await self.client.create_producer(told.stage_topic, **chosen)
        except BaseException:
            await self.forget([told.stage])
            raise
        return Stage(self, told.stage, producer, told.lease_ms / 1000)

    async def seal(self, stage: str) -> int:
        reply = await self._ask(_K.SEAL_STAGE, "sealStage", pb.CommandSealStage(request_id=0, stage=stage), "seal")
        return reply.sealStageResponse.messages

    async def commit(self, batch: int, stages: Sequence[str], *, timeout_s: float = CLIENT_STAGE_S) -> Commit:
        """Exactly these stages make up the batch. StageNotFound, Refused: nothing was committed, write it anew.
        TimedOut: nobody knows, ask again; it may be that too many batches are still being published."""
        asked = pb.CommandCommitStages(request_id=0, topic=self.topic, sink=self.name, batch=batch, stages=stages)
        reply = await self._ask(_K.COMMIT_STAGES, "commitStages", asked, f"commit batch {batch}", timeout_s)
        told = reply.commitStagesResponse
        self._warned(told.warning)
        self.client.runtime.mark("sink.committed", topic=self.topic, sink=self.name, batch=batch)
        return Commit(told.committed, told.published, told.warning)

    async def published(self, batch: int, *, timeout_s: float = CLIENT_STAGE_S) -> bool:
        """Until everything up to this batch, which is committed, can be read. False: not yet, and nobody knows when."""
        delay_s = CLIENT_STAGE_ASK_S
        try:
            async with asyncio.timeout(timeout_s):
                while not (await self.commit(batch, ())).published:
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * 1.5, 1.0)
        except (MagnetarError, TimeoutError) as error:
            log.warning("committed and not published yet", sink=self.name, topic=self.topic, batch=batch, why=error)
            return False
        return True

    async def abort(self, stages: Sequence[str]) -> None:
        """Forget those that were not chosen."""
        asked = pb.CommandDropStages(request_id=0, stages=stages)
        await self._ask(_K.DROP_STAGES, "dropStages", asked, "abort")

    async def forget(self, stages: Sequence[str]) -> None:
        """As `abort`; what cannot be said now is said by the end of their leases."""
        try:
            await self.abort(stages)
        except MagnetarError as error:
            log.warning("stages left", sink=self.name, topic=self.topic, stages=len(stages), why=error)

    async def renew(self, stage: str) -> None:
        await self._ask(_K.RENEW_STAGE, "renewStage", pb.CommandRenewStage(request_id=0, stage=stage), "renew")

    def _begin(self, batch: int) -> pb.CommandBeginStage:
        asked = pb.CommandBeginStage(request_id=0, topic=self.topic, sink=self.name, batch=batch)
        if self._run:
            asked.run = self._run
        if self._once:
            asked.once = True
        return asked

    def _warned(self, warning: str) -> None:
        self.warning = warning
        if warning:
            log.warning("sink", sink=self.name, topic=self.topic, why=warning)

    async def _reach(self) -> None:
        """A broker that was there is waited for, as long as a restart may take; a wrong address never answers."""
        if not self.client.pool.reached:
            what = f"no broker was reached at {self.client.url} (option url in Spark): connecting"
            await persist(self.client.runtime, self.client.operation_timeout_s, self.client.lookup.service, what=what)

    async def _ask(
        self, kind: pb.BaseCommand.Type, field: str, asked: Any, what: str, timeout_s: float = CLIENT_STAGE_S
    ) -> pb.BaseCommand:
        async def once() -> pb.BaseCommand:
            connection = await self.client.lookup.service()
            if not connection.features.magnetar_extensions:
                raise NotBuilt(_FOREIGN.format(url=connection.url, server=connection.server_version or "not Magnetar"))
            asked.request_id = connection.next_request_id()
            command = pb.BaseCommand(type=kind)
            getattr(command, field).CopyFrom(asked)
            return await connection.request(command, asked.request_id, timeout_s=self.client.operation_timeout_s)

        return await persist(self.client.runtime, timeout_s, once, what=f"{what} of sink {self.name}")
