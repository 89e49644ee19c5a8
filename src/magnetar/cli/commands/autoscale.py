"""`magnetar autoscale`: policies, explanations, history and pauses of automatic scaling, and replays of recorded loads.

`simulate` needs no broker: it replays a trace through the evaluator of the broker and draws the number of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import Misuse, NotFound
from magnetar.cli.options import CHANGE, COMMON, Change, Common
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Duration, Moment, Rate
from magnetar.cli.scalable.session import opened
from magnetar.client.documents.autoscale import AutoScaleOverride, Decision, MeasuredSegment
from magnetar.layout.autoscale.policy import AutoScalePolicy, check, overlaid
from magnetar.layout.autoscale.replay import Step, TracePoint, TraceRange, read_trace, replayed

DECISION_COLUMNS = ("TIME", "DECISION", "SEGMENTS", "REASON", "TIMES", "ELIGIBLE", "WHY")
SEGMENT_COLUMNS = ("SEGMENT", "RANGE", "IN", "OUT", "BACKLOG AGE", "HOTTEST KEY", "SHARE", "COLD SINCE")
STEP_COLUMNS = ("AFTER", "IN", "LOAD", "SEGMENTS", "ACTIONS")
_BAR = 24  # characters


def show(topic: str, /, *, common: Common = COMMON) -> None:
    """Show the effective policy of automatic scaling, and the settings of the topic itself.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar autoscale show topic://public/default/clicks
    """
    with opened(common, topic) as (session, name):
        report = session.admin.scalable.explain_auto_scale(name)
        own = msgspec.to_builtins(session.admin.scalable.auto_scale_policy(name) or AutoScaleOverride())
        rows: list[tuple[Cell, ...]] = [
            (key, value, "topic" if key in own else None) for key, value in msgspec.to_builtins(report.policy).items()
        ]
        document = {"topic": name, "policy": report.policy, "layers": report.layers, "own": own}
        session.show(document, TableData(("SETTING", "VALUE", "SET BY"), rows, optional=frozenset(("SET BY",))))


def set_(topic: str, /, *settings: str, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Set automatic scaling of a topic; settings that are not named stay as they are.

    Parameters
    ----------
    topic
        The scalable topic.
    settings
        Settings as KEY=VALUE, with the names that `autoscale show` lists.

    Examples
    --------
    $ magnetar autoscale set topic://public/default/clicks maxSegments=16 splitMsgRateInThreshold=5000
    $ magnetar autoscale set topic://public/default/clicks enabled=false
    """
    overrides = _settings(settings)
    with opened(common, topic, change) as (session, name):
        before = session.admin.scalable.auto_scale_policy(name) or AutoScaleOverride()
        after = msgspec.structs.replace(before, **overrides)
        what = f"set {', '.join(sorted(overrides))} of the automatic scaling of {name}"
        session.do(what, lambda: session.admin.scalable.set_auto_scale_policy(name, after))


def unset(topic: str, /, *settings: str, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Remove settings of the automatic scaling of a topic: those of the namespace and of the broker apply again.

    Parameters
    ----------
    topic
        The scalable topic.
    settings
        Names of settings. Default: all.

    Examples
    --------
    $ magnetar autoscale unset topic://public/default/clicks maxSegments
    $ magnetar autoscale unset topic://public/default/clicks
    """
    _known(settings)
    with opened(common, topic, change) as (session, name):
        before = session.admin.scalable.auto_scale_policy(name) or AutoScaleOverride()
        after = msgspec.structs.replace(before, **dict.fromkeys(settings)) if settings else AutoScaleOverride()
        what = f"remove {', '.join(settings) or 'all settings'} of the automatic scaling of {name}"
        if after == AutoScaleOverride():
            session.do(what, lambda: session.admin.scalable.remove_auto_scale_policy(name))
        else:
            session.do(what, lambda: session.admin.scalable.set_auto_scale_policy(name, after))


def explain(topic: str, /, *, common: Common = COMMON) -> None:
    """Explain what automatic scaling would do now and why: measured loads, thresholds, and the next eligible time.

    With `--output jsonl` the command prints one line that `autoscale simulate` reads: repeat it to record a trace.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar autoscale explain topic://public/default/clicks
    $ magnetar autoscale explain topic://public/default/clicks -o jsonl
    """
    with opened(common, topic) as (session, name):
        report = session.admin.scalable.explain_auto_scale(name)
        facts: dict[str, Cell] = {"cause": report.cause, "topic": name, "layers": ", ".join(report.layers)}
        for subscription, number in sorted(report.wanted.items()):
            facts[f"wanted consumers of {subscription}"] = f"{number}, now {report.consumers.get(subscription, 0)}"
        ranges = tuple(
            TraceRange(one.start, one.end, one.load)
            for one in report.segments
            if one.load is not None and one.state == "ACTIVE"
        )
        point = TracePoint(atMs=report.atMs, ranges=ranges, consumers=report.consumers)
        session.show(
            session.document,
            KeyValues(facts),
            _decisions(report.decisions),
            TableData(SEGMENT_COLUMNS, [_segment(one) for one in report.segments]),
            lines=[point],
        )


def history(topic: str, /, *, common: Common = COMMON) -> None:
    """List the last automatic decisions about a topic, taken and suppressed, newest first.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar autoscale history topic://public/default/clicks
    """
    with opened(common, topic) as (session, name):
        decisions = session.admin.scalable.auto_scale_history(name)
        session.show(session.document, _decisions(decisions), lines=decisions)


def pause(topic: str, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Suspend automatic splits and merges of a topic; manual ones are still possible.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar autoscale pause topic://public/default/clicks
    """
    with opened(common, topic, change) as (session, name):
        session.do(f"pause the automatic scaling of {name}", lambda: session.admin.scalable.pause_auto_scale(name))


def resume(topic: str, /, *, change: Change = CHANGE, common: Common = COMMON) -> None:
    """Resume automatic splits and merges of a topic.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar autoscale resume topic://public/default/clicks
    """
    with opened(common, topic, change) as (session, name):
        session.do(f"resume the automatic scaling of {name}", lambda: session.admin.scalable.resume_auto_scale(name))


def simulate(
    trace: str,
    /,
    *settings: str,
    segments: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 1,
    interval: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 60.0,
    common: Common = COMMON,
) -> None:
    """Replay a recorded load through the evaluator, and draw the number of segments that a policy would have caused.

    No broker is needed. A line of the trace is a JSON document, as `autoscale explain -o jsonl` prints it.

    Parameters
    ----------
    trace
        File with one point in each line.
    settings
        Settings as KEY=VALUE. Default: those of Pulsar.
    segments
        Number of segments at the start.
    interval
        Seconds between two evaluations.

    Examples
    --------
    $ magnetar autoscale simulate trace.jsonl
    $ magnetar autoscale simulate trace.jsonl maxSegments=8 splitMsgRateInThreshold=2000 --segments 2
    """
    policy = overlaid(AutoScalePolicy(), AutoScaleOverride(**_settings(settings)) if settings else None)
    check(policy)
    try:
        lines = Path(trace).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NotFound(f"the trace cannot be read: {error.strerror}", path=trace) from error
    steps = list(replayed(read_trace(lines), policy, segments=segments, interval_s=interval))
    with common.session() as session:
        first_ms = steps[0].at_ms if steps else 0
        highest = max((step.msg_rate_in for step in steps), default=0.0) or 1.0
        rows = [_step(step, first_ms, highest) for step in _drawn(steps)]
        document = [_document(step) for step in steps]
        session.show(document, TableData(STEP_COLUMNS, rows), lines=document)


def _drawn(steps: Sequence[Step]) -> list[Step]:
    """Every step with an action, and some between them."""
    every = max(1, len(steps) // 40)
    return [step for index, step in enumerate(steps) if step.actions or index % every == 0]


def _step(step: Step, first_ms: int, highest: float) -> tuple[Cell, ...]:
    actions = [f"{one.kind.lower()} {'+'.join(map(str, one.parents))}" for one in step.actions]
    shown = ", ".join(actions[:3]) + (f" and {len(actions) - 3} more" if len(actions) > 3 else "")
    load = "█" * round(_BAR * step.msg_rate_in / highest)
    after = Duration((step.at_ms - first_ms) / 1000)
    return after, Rate(step.msg_rate_in), load or None, f"{'▪' * step.segments} {step.segments}", shown or None


def _document(step: Step) -> dict[str, Any]:
    actions = [
        {"kind": one.kind, "parentIds": list(one.parents), "cuts": list(one.cuts), "reason": one.reason}
        for one in step.actions
    ]
    return {"atMs": step.at_ms, "msgRateIn": step.msg_rate_in, "segments": step.segments, "actions": actions}


def _settings(texts: Sequence[str]) -> dict[str, Any]:
    pairs = [text.partition("=") for text in texts]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise Misuse("expected settings as KEY=VALUE, for example maxSegments=16")
    names = [key for key, _, _ in pairs]
    _known(names)
    try:
        document = {key: value for key, _, value in pairs}
        override = msgspec.convert(document, AutoScaleOverride, strict=False)
    except msgspec.ValidationError as error:
        raise Misuse(f"a setting has the wrong form: {error}") from error
    return {name: getattr(override, name) for name in names}


def _known(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in AutoScaleOverride.__struct_fields__]
    if unknown:
        field_names = ", ".join(AutoScaleOverride.__struct_fields__)
        raise Misuse(f"{unknown[0]} is not a setting of automatic scaling; expected one of: {field_names}")


def _decisions(decisions: Sequence[Decision]) -> TableData:
    rows: list[tuple[Cell, ...]] = [
        (
            Moment(one.atMs),
            f"{one.kind.lower()} {'taken' if one.taken else 'suppressed'}" if one.kind != "NONE" else "none",
            ", ".join(map(str, one.segmentIds)) or None,
            one.reason,
            one.times,
            Moment(one.eligibleMs) if one.eligibleMs else None,
            one.why,
        )
        for one in decisions
    ]
    return TableData(DECISION_COLUMNS, rows, optional=frozenset(("ELIGIBLE",)))


def _segment(segment: MeasuredSegment) -> tuple[Cell, ...]:
    span = f"{segment.start:04x}-{segment.end:04x}"
    load = segment.load
    if load is None:
        return segment.segmentId, span, None, None, None, None, None, None
    hot = load.hot[0] if load.hot else None
    return (
        segment.segmentId,
        span,
        Rate(load.msg_rate_in),
        Rate(load.msg_rate_out),
        Duration(load.backlog_age_s) if load.backlog_age_s else None,
        None if hot is None else hot.key or f"{hot.slot:04x}",
        None if hot is None else f"{hot.share:.0%}",
        Moment(segment.coldSinceMs) if segment.coldSinceMs else None,
    )


VERBS = {
    "show": show,
    "set": set_,
    "unset": unset,
    "explain": explain,
    "history": history,
    "pause": pause,
    "resume": resume,
    "simulate": simulate,
}
