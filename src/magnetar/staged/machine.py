"""Staged publishing, decided from a sink's record alone: the stages, the committed ones, and the remaining work.

Tasks write rows to their own stages, whose numbers are issued here and never reused. A commit is one change of the
record. It is refused if its batch is not above the last one; otherwise exactly the named stages are chosen and all
others up to that batch are dropped. A query identifies itself. It may repeat its own last batch and no earlier one: a
query that asks for an earlier batch has lost its position and is refused, because its rows would be dropped silently.
The leader of the sink publishes the chosen stages, batch after batch. Each stage is published under the name of one of
the sink's producers, with sequence ids that were fixed by the commit. So a stage that is published twice, after a
leader died or by two leaders, is stored once. An abort forgets only stages that were not chosen. Callers pass the time;
this module performs no I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from magnetar.base import validation
from magnetar.base.errors import Busy, LimitExceeded, Misuse, Refused, StageNotFound
from magnetar.base.limits import BATCHES_PUBLISHING_MAX, SINK_PRODUCERS, SINK_RUNS_MAX, SINK_STAGES_MAX

NO_BATCH = -1


class Stage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Being written, or sealed and waiting for the commit."""

    number: int
    batch: int
    lease_ms: int  # when it ends
    sealed: bool = False
    messages: int = 0


class CommittedStage(msgspec.Struct, frozen=True, omit_defaults=True, rename={"producer": "lane"}):
    """A stage to publish, with fixed ids for every attempt and every leader. `first` is the sequence id of its first
    message; `partitions` is that of a partitioned topic at the commit, 0 for any other."""

    number: int
    batch: int
    producer: int  # its number among those of the sink
    first: int
    messages: int
    partitions: int = 0
    published: int = 0  # at least this many messages are stored


class Sink(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, rename={"sequences": "lanes"}):
    """The record. `life` distinguishes our stages from those of an earlier record with this name."""

    topic: str
    name: str
    life: str
    last: int = NO_BATCH  # the batch that was committed last
    issued: int = 0  # stages so far
    stages: tuple[Stage, ...] = ()
    chosen: tuple[CommittedStage, ...] = ()  # in the order of publishing
    dropped: tuple[int, ...] = ()  # stages with topics to delete
    sequences: tuple[int, ...] = (0,) * SINK_PRODUCERS  # the next id of each producer
    committed: tuple[int, ...] = ()  # the stages of the last batch
    query: str = ""  # the query that wrote them, if it identified itself
    run: str = ""  # of the query that began a stage last, behind the query's own id: `<query>/<run>`
    runs: tuple[str, ...] = ()  # those before it
    once: bool = False
    changed_ms: int = 0
    token: str = ""  # of the last writer: without it, equal bytes of two brokers would look like one's own
    extra: tuple[tuple[str, Any], ...] = ()  # fields that a newer version wrote


class StageBegun(msgspec.Struct, frozen=True):
    number: int
    warning: str = ""


class AlreadyCommitted(msgspec.Struct, frozen=True):
    """The batch is committed: there is nothing to write, or nothing more to choose."""

    warning: str = ""


class Committed(msgspec.Struct, frozen=True):
    pass


def begin(
    sink: Sink, batch: int, *, run: str, now_ms: int, lease_ms: int
) -> tuple[Sink, StageBegun | AlreadyCommitted]:
    """A stage for a task of this batch, unless there is nothing left to write. Refused: a query that is counted here
    would not ask for it, its rows were not written."""
    _check(batch)
    if batch <= sink.last:
        if run:
            _check_repeated(sink, batch, run)
        return sink, AlreadyCommitted(_stale(sink, batch))
    if len(sink.stages) + len(sink.chosen) + len(sink.dropped) >= SINK_STAGES_MAX:
        raise LimitExceeded(
            f"the sink has {SINK_STAGES_MAX} stages: use fewer tasks in a batch, or wait for earlier stages",
            sink=sink.name,
        )
    warning, sink = _seen(sink, run)
    stage = Stage(sink.issued, batch, now_ms + lease_ms)
    after = _put(sink, now_ms, issued=sink.issued + 1, stages=(*sink.stages, stage))
    return after, StageBegun(stage.number, warning)


def seal(sink: Sink, number: int, messages: int, *, now_ms: int) -> Sink:
    """Closes the topic of a stage with this many messages. StageNotFound: the stage was dropped."""
    if any(one.number == number for one in sink.chosen):
        return sink  # a late repetition
    stage = _stage(sink, number)
    if stage.sealed:
        return sink
    return _put(sink, now_ms, stages=_with(sink.stages, msgspec.structs.replace(stage, sealed=True, messages=messages)))


def renew(sink: Sink, number: int, *, now_ms: int, lease_ms: int) -> Sink:
    """A task still works on the batch: stages that wait for the last of its tasks stay too."""
    if any(one.number == number for one in sink.chosen):
        return sink
    batch = _stage(sink, number).batch
    until = now_ms + lease_ms
    stages = tuple(
        msgspec.structs.replace(one, lease_ms=max(one.lease_ms, until)) if one.batch == batch else one
        for one in sink.stages
    )
    return _put(sink, now_ms, stages=stages)


def commit(
    sink: Sink, batch: int, numbers: tuple[int, ...], *, partitions: int, now_ms: int
) -> tuple[Sink, Committed | AlreadyCommitted]:
    """The one step that publishes a batch. Busy: too many batches are being published, try again. StageNotFound,
    Refused: a stage was dropped, is not sealed or belongs to another batch; nothing was chosen, and the client must
    write the batch again."""
    _check(batch)
    named = tuple(sorted(set(numbers)))
    if batch <= sink.last:
        mine = batch == sink.last and named == sink.committed
        return sink, AlreadyCommitted("" if mine or not named else _others(sink, batch))
    stages = [_stage(sink, number) for number in named]
    for stage in stages:
        if not stage.sealed or stage.batch != batch:
            why = "is not sealed" if not stage.sealed else f"belongs to batch {stage.batch}"
            raise Refused(f"stage {stage.number} {why}: nothing was committed, write the batch again", batch=batch)
    if len({one.batch for one in sink.chosen}) >= BATCHES_PUBLISHING_MAX:
        raise Busy("too many batches are still being published: try again", batches_max=BATCHES_PUBLISHING_MAX)
    sequences, chosen = list(sink.sequences), list(sink.chosen)
    for index, stage in enumerate(one for one in stages if one.messages):
        producer = index % len(sequences)
        chosen.append(CommittedStage(stage.number, batch, producer, sequences[producer], stage.messages, partitions))
        sequences[producer] += stage.messages
    kept = tuple(one for one in sink.stages if one.batch > batch)
    over = [one.number for one in sink.stages if one.batch <= batch and (one.number not in named or not one.messages)]
    after = _put(
        sink,
        now_ms,
        last=batch,
        committed=named,
        query=_query(sink.run) if named else sink.query,
        stages=kept,
        chosen=tuple(chosen),
        sequences=tuple(sequences),
        dropped=(*sink.dropped, *over),
    )
    return after, Committed()


def drop(sink: Sink, numbers: tuple[int, ...], *, now_ms: int) -> Sink:
    """Abort: forget these if they were not chosen. Those that are unknown are forgotten already."""
    going = [one.number for one in sink.stages if one.number in numbers]
    return _dropped(sink, going, now_ms)


def expire(sink: Sink, *, now_ms: int) -> Sink:
    """Drops stages whose lease expired: their task died, or their driver never returned."""
    return _dropped(sink, [one.number for one in sink.stages if one.lease_ms <= now_ms], now_ms)


def published(sink: Sink, number: int, messages: int, *, now_ms: int) -> Sink:
    """`messages` of a stage are stored in the sink's topic; after the last one the stage's topic is deleted."""
    pending = next((one for one in sink.chosen if one.number == number), None)
    if pending is None or messages <= pending.published:
        return sink  # another leader was faster
    if messages >= pending.messages:
        chosen = tuple(one for one in sink.chosen if one.number != number)
        return _put(sink, now_ms, chosen=chosen, dropped=(*sink.dropped, number))
    step = msgspec.structs.replace(pending, published=messages)
    return _put(sink, now_ms, chosen=tuple(step if one.number == number else one for one in sink.chosen))


def deleted(sink: Sink, numbers: tuple[int, ...], *, now_ms: int) -> Sink:
    """Their topics are gone."""
    return _put(sink, now_ms, dropped=tuple(one for one in sink.dropped if one not in numbers))


def due(sink: Sink) -> tuple[CommittedStage, ...]:
    """What may be published now: of the oldest batch, the first stage of each producer. A batch waits for the one
    before it, so that a key's rows come in the order of the batches."""
    if not sink.chosen:
        return ()
    batch = sink.chosen[0].batch
    first: dict[int, CommittedStage] = {}
    for chosen in sink.chosen:
        if chosen.batch == batch:
            first.setdefault(chosen.producer, chosen)
    return tuple(first[producer] for producer in sorted(first))


def works(sink: Sink, *, now_ms: int) -> bool:
    """True if the leader of the sink has work."""
    return bool(sink.chosen or sink.dropped or any(one.lease_ms <= now_ms for one in sink.stages))


def lists(sink: Sink, number: int) -> bool:
    """May the topic of this stage exist?"""
    return any(one.number == number for one in sink.stages) or any(one.number == number for one in sink.chosen)


def _check(batch: int) -> None:
    if not 0 <= batch < 1 << 63:
        raise Misuse("the number of a batch must be 0 or greater", batch=batch)


def _stage(sink: Sink, number: int) -> Stage:
    for stage in sink.stages:
        if stage.number == number:
            return stage
    raise StageNotFound(
        f"stage {number} is gone: its lease ended, it was dropped, or its batch was committed without it",
        sink=sink.name,
    )


def _with(stages: tuple[Stage, ...], changed: Stage) -> tuple[Stage, ...]:
    return tuple(changed if one.number == changed.number else one for one in stages)


def _dropped(sink: Sink, going: list[int], now_ms: int) -> Sink:
    if not going:
        return sink
    stages = tuple(one for one in sink.stages if one.number not in going)
    return _put(sink, now_ms, stages=stages, dropped=(*sink.dropped, *going))


def _put(sink: Sink, now_ms: int, **changes: Any) -> Sink:
    after = msgspec.structs.replace(sink, changed_ms=now_ms, **changes)
    if validation.enabled:
        validate(after)
    return after


def validate(sink: Sink) -> None:
    numbers = [one.number for one in sink.stages] + [one.number for one in sink.chosen] + list(sink.dropped)
    assert len(set(numbers)) == len(numbers), "a stage is open, chosen or dropped, and only one of them"
    assert all(number < sink.issued for number in numbers), "stages have the numbers that were issued"
    assert all(one.batch > sink.last for one in sink.stages), "a commit leaves no stage of its batch open"
    assert [one.batch for one in sink.chosen] == sorted(one.batch for one in sink.chosen), "batches come in order"
    assert all(0 <= one.published < one.messages for one in sink.chosen), "a published stage is dropped"
    ends: dict[int, int] = {}
    for chosen in sink.chosen:
        assert ends.get(chosen.producer, chosen.first) == chosen.first, f"producer {chosen.producer} has no gap"
        ends[chosen.producer] = chosen.first + chosen.messages
    assert all(sink.sequences[producer] == end for producer, end in ends.items()), "ids go on after the last stage"


def _seen(sink: Sink, run: str) -> tuple[str, Sink]:
    """Two runs that alternate are two queries alive at the same time; a restarted query has a new run instead."""
    if not run or run == sink.run:
        return "", sink
    warning = ""
    if run in sink.runs:
        warning = (
            f"two queries write to sink {sink.name} alternately: only one of two batches with one number is kept. "
            "A copied checkpoint uses the same sink: give each query its own sinkId"
        )
    runs = (*(one for one in sink.runs if one != run), *((sink.run,) if sink.run else ()))
    return warning, msgspec.structs.replace(sink, run=run, runs=runs[-SINK_RUNS_MAX:])


def _query(run: str) -> str:
    """The id that a checkpoint gives to its query; empty if the client sent none."""
    query, separator, _ = run.partition("/")
    return query if separator else ""


def _check_repeated(sink: Sink, batch: int, run: str) -> None:
    """A restarted query may repeat only the last batch, and only one that it committed itself. A task of an ended run
    may ask for others: no query waits for it."""
    asks = _query(run)
    another = bool(asks and sink.query and asks != sink.query)
    if batch == sink.last and not another:
        return
    by = " by a query with another checkpoint" if another else ""
    raise Refused(
        f"batch {batch} of sink {sink.name} was already committed{by}, and the last one is {sink.last}. A query may "
        "repeat only its own last batch. The checkpoint of this query is new, copied or restored, and its rows would "
        "be lost. Give the query its own sink (option sinkId in Spark), which writes all rows, or the checkpoint "
        "that belongs to this sink (option checkpointLocation)",
        topic=sink.topic,
    )


def _stale(sink: Sink, batch: int) -> str:
    if batch < sink.last:
        return _others(sink, batch)
    if sink.committed:
        return ""
    return f"batch {batch} of sink {sink.name} was already committed without rows: its present rows are not written"


def _others(sink: Sink, batch: int) -> str:
    return (
        f"batch {batch} of sink {sink.name} was already committed, the last one is {sink.last}: its rows are not "
        "written again. If its rows differ from the committed ones (a copied or restored checkpoint, a reused number), "
        "give the query its own sink. Set option sinkId of a stream, or txnAppId of a batch write"
    )
