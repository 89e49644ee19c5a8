"""Exactly-once publishing in batches: rows are written to stages, a commit chooses them, the broker publishes them.

One `StagedSink` represents the batches that are numbered together: its topic and its name identify it in every process.
A task begins a stage, writes and seals it; the driver of the batch commits the ids of the chosen stages, once. A batch
that is already committed is not written again: `begin` returns None, or is refused if another query committed it. Every
call may be repeated after an unknown outcome. The sink retries for a long time, because waiting is better than a failed
job, but fails soon if no broker was ever reached. Only Magnetar's brokers have stages: the error for another broker
names the alternatives.
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

log = get("client.staged_sink")

_K = pb.BaseCommand
_FOREIGN = (
    "the server at {url} is {server}: it does not support stages, which exactly-once publishing requires. Use a "
    "Magnetar broker, or another delivery (option delivery in Spark): at-least-once, or idempotent. With idempotent, "
    "a repeated batch must give the same rows to the same tasks"
)


def single_job() -> str:
    """A unique sink name for one job."""
    return f"job-{RealRuntime().rng('client.jobs').getrandbits(128):032x}"


@dataclass(frozen=True, slots=True)
class Commit:
    """`chosen`: this call committed the batch; if False, an earlier one did. `published`: all batches are published."""

    chosen: bool
    published: bool
    warning: str = ""


class Stage:
    """A stage that accepts rows. Write them to `producer`, in order; then call `seal` or `drop`."""

    def __init__(self, sink: StagedSink, id: str, producer: Producer[bytes], lease_s: float) -> None:
        self.id = id
        self.producer = producer
        self._sink = sink
        self._owner = Owner(f"stage {id}", self._failed)
        self._every_s = lease_s / CLIENT_STAGE_RENEWALS
        sink.client.runtime.spawn(self._owner, self._renew())

    async def seal(self) -> int:
        """Seal the stage once everything is stored; returns its number of messages. StageNotFound: it was dropped."""
        try:
            await self.producer.close()
        finally:
            await self._owner.close()
        return await self._sink.seal(self.id)

    async def drop(self) -> None:
        """Drop the stage. If the broker cannot be reached, the stage expires with its lease."""
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
                log.warning("stage_lost", stage=self.id, why=error)
                return
            except MagnetarError as error:
                log.info("stage_renewal_failed", stage=self.id, why=error)

    def _failed(self, name: str, error: BaseException) -> None:
        log.crashed("stage_renewal_crashed", error, stage=self.id)


class StagedSink:
    """`query` is the query name of a checkpoint, `run` one run of it. The broker refuses a query whose rows would be
    left out because another query uses the same batch numbers, and warns two runs that alternate. `once`: the sink of a
    single job, which the broker forgets one day after publishing. `warning`: the broker's last warning."""

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
        """A stage for rows of this batch; None: the batch is committed, skip it. Refused: another query committed it.
        `options` are those of a producer, without chunking: chunks would be counted as rows."""
        if options.get("chunking"):
            raise Misuse("chunking is not supported in a stage: each row is one whole message", sink=self.name)
        await self._reach()
        reply = await self._ask(_K.BEGIN_STAGE, "beginStage", self._begin(batch), f"begin batch {batch}")
        response = reply.beginStageResponse
        self._warned(response.warning)
        if not response.stage:
            return None
        chosen: ProducerOptions = {"name": f"{SINK_PREFIX}{response.stage}", **options}  # type: ignore[typeddict-item]
        try:
            producer = await self.client.create_producer(response.stage_topic, **chosen)
        except BaseException:
            await self.forget([response.stage])
            raise
        return Stage(self, response.stage, producer, response.lease_ms / 1000)

    async def seal(self, stage: str) -> int:
        reply = await self._ask(_K.SEAL_STAGE, "sealStage", pb.CommandSealStage(request_id=0, stage=stage), "seal")
        return reply.sealStageResponse.messages

    async def commit(self, batch: int, stages: Sequence[str], *, timeout_s: float = CLIENT_STAGE_S) -> Commit:
        """Exactly these stages make up the batch. StageNotFound, Refused: nothing was committed, write the batch again.
        TimedOut: the outcome is unknown, call again; the cause may be too many batches that are still being
        published."""
        request = pb.CommandCommitStages(request_id=0, topic=self.topic, sink=self.name, batch=batch, stages=stages)
        reply = await self._ask(_K.COMMIT_STAGES, "commitStages", request, f"commit batch {batch}", timeout_s)
        response = reply.commitStagesResponse
        self._warned(response.warning)
        self.client.runtime.mark("sink.committed", topic=self.topic, sink=self.name, batch=batch)
        return Commit(response.committed, response.published, response.warning)

    async def published(self, batch: int, *, timeout_s: float = CLIENT_STAGE_S) -> bool:
        """Wait until every batch up to this committed one is readable. False: not yet, with no estimate."""
        delay_s = CLIENT_STAGE_ASK_S
        try:
            async with asyncio.timeout(timeout_s):
                while not (await self.commit(batch, ())).published:
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * 1.5, 1.0)
        except (MagnetarError, TimeoutError) as error:
            log.warning("batch_not_yet_published", sink=self.name, topic=self.topic, batch=batch, why=error)
            return False
        return True

    async def abort(self, stages: Sequence[str]) -> None:
        """Drop the stages that were not chosen."""
        request = pb.CommandDropStages(request_id=0, stages=stages)
        await self._ask(_K.DROP_STAGES, "dropStages", request, "abort")

    async def forget(self, stages: Sequence[str]) -> None:
        """As `abort`, without errors: stages that cannot be dropped now expire with their leases."""
        try:
            await self.abort(stages)
        except MagnetarError as error:
            log.warning("stages_drop_failed", sink=self.name, topic=self.topic, stages=len(stages), why=error)

    async def renew(self, stage: str) -> None:
        await self._ask(_K.RENEW_STAGE, "renewStage", pb.CommandRenewStage(request_id=0, stage=stage), "renew")

    def _begin(self, batch: int) -> pb.CommandBeginStage:
        request = pb.CommandBeginStage(request_id=0, topic=self.topic, sink=self.name, batch=batch)
        if self._run:
            request.run = self._run
        if self._once:
            request.once = True
        return request

    def _warned(self, warning: str) -> None:
        self.warning = warning
        if warning:
            log.warning("sink_warning_received", sink=self.name, topic=self.topic, why=warning)

    async def _reach(self) -> None:
        """Fail soon if no broker was ever reached: a wrong address never answers. Otherwise a broker may be
        restarting."""
        if not self.client.pool.reached:
            what = f"no broker was reached at {self.client.url} (option url in Spark): connecting"
            await persist(self.client.runtime, self.client.operation_timeout_s, self.client.lookup.service, what=what)

    async def _ask(
        self, kind: pb.BaseCommand.Type, field: str, request: Any, what: str, timeout_s: float = CLIENT_STAGE_S
    ) -> pb.BaseCommand:
        async def once() -> pb.BaseCommand:
            connection = await self.client.lookup.service()
            if not connection.features.magnetar_extensions:
                raise NotBuilt(_FOREIGN.format(url=connection.url, server=connection.server_version or "not Magnetar"))
            request.request_id = connection.next_request_id()
            command = pb.BaseCommand(type=kind)
            getattr(command, field).CopyFrom(request)
            with self.client.lookup.moving_on(connection):
                return await connection.request(command, request.request_id, timeout_s=self.client.operation_timeout_s)

        return await persist(self.client.runtime, timeout_s, once, what=f"{what} of sink {self.name}")
