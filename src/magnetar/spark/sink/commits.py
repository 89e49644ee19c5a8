"""The driver's side of a batch: commits the rows of its tasks once, topic by topic, or discards them.

Spark passes one message per task. A commit names the chosen stages. Topics that already have the batch from an earlier
run stay unchanged. This module rejects no commit: the broker decides whether a stage exists and whether a batch is new.
Warnings go to the driver's standard error.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from magnetar.base.errors import StageNotFound
from magnetar.base.limits import SPARK_TARGETS_AT_ONCE_MAX
from magnetar.client.client import Client
from magnetar.client.process_client import run
from magnetar.client.staged_sink import StagedSink
from magnetar.spark.sink.options import Delivery, SinkOptions
from magnetar.spark.sink.targets import check_count

T = TypeVar("T")


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
    """The result of one task. `stages`: its stage for each topic with rows; "": the topic already has the batch. Empty:
    the task had no rows, or they are not staged. `warnings` are for the driver.
    """

    sink: str
    batch: int
    stages: tuple[tuple[str, str], ...] = ()
    rows: int = 0
    once: bool = False
    warnings: tuple[str, ...] = ()


def commit(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int, *, wait: bool = False
) -> None:
    """Commits the stages of the chosen tasks once. `wait`: until readers can see the rows, as users of a batch write
    expect.
    """
    written = _told(messages)
    if options.delivery is not Delivery.EXACTLY_ONCE or not written:
        return
    for warning in sorted({warning for one in written for warning in one.warnings}):
        _tell(warning)
    stages = _by_topic(options, written)
    check_count(set(stages))

    async def committed(client: Client) -> None:
        sinks = [StagedSink(client, topic, written[0].sink, once=written[0].once) for topic in stages]

        async def commit_one(sink: StagedSink) -> None:
            result = await sink.commit(batch, stages[sink.topic])
            if result.warning:
                _tell(result.warning)

        # A topic from a column without stages already has the batch.
        ordered = [sink for sink in await _doubtful_first(sinks, stages) if stages[sink.topic] or options.topic]
        for sink in ordered[:1]:  # first topic alone: if its commit is rejected, no other topic has the batch
            await commit_one(sink)
        await all_of([partial(commit_one, sink) for sink in ordered[1:]])
        for sink in sinks if wait else ():
            if not await sink.published(batch):  # the commit is final: if the job failed now, Spark would run it again
                _tell(
                    f"batch {batch} of sink {sink.name} is committed, but not readable yet; the broker "
                    "continues to publish it. Run magnetar sink show for the remaining messages and the "
                    f"reason: topic {sink.topic}"
                )

    if any(stages.values()) or options.batch >= 0 or not wait:
        run(Client, options.url, committed)


async def _doubtful_first(sinks: Sequence[StagedSink], stages: Mapping[str, Sequence[str]]) -> list[StagedSink]:
    """Each topic has its own commit. If a stage is gone, either the batch was committed before, or its topic cannot be
    committed. Checking these topics first ends a failing commit before any topic has the batch.
    """
    if len(sinks) < 2:
        return list(sinks)
    doubtful: list[StagedSink] = []

    async def looked(sink: StagedSink) -> None:
        try:
            await sink.renew(stages[sink.topic][0])
        except StageNotFound:
            doubtful.append(sink)

    await all_of([partial(looked, sink) for sink in sinks if stages[sink.topic]])
    return [*doubtful, *(sink for sink in sinks if sink not in doubtful)]


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Discards the stages of an aborted batch. Stages that cannot be deleted now expire with their lease."""
    written = _told(messages)
    stages = {topic: mine for topic, mine in _by_topic(options, written).items() if mine}

    async def forgotten(client: Client) -> None:
        for topic, mine in stages.items():
            await StagedSink(client, topic, written[0].sink).forget(mine)

    if stages:
        run(Client, options.url, forgotten)


def _by_topic(options: SinkOptions, written: Sequence[TaskCommit]) -> dict[str, list[str]]:
    """In the order of topic names. The topic of the option gets the batch even if no task has rows for it."""
    stages: dict[str, list[str]] = {options.topic: []} if options.topic else {}
    for topic, stage in sorted(pair for one in written for pair in one.stages):
        stages.setdefault(topic, []).extend([stage] if stage else [])
    return stages


def _tell(warning: str) -> None:
    sys.stderr.write(f"magnetar: {warning}\n")


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    return [one for one in messages if isinstance(one, TaskCommit)]


async def all_of(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Runs many calls concurrently and waits for all of them; then raises the first error."""
    room = asyncio.Semaphore(SPARK_TARGETS_AT_ONCE_MAX)

    async def one(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with room:
            return await call()

    done = await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in done if not isinstance(outcome, BaseException)]
