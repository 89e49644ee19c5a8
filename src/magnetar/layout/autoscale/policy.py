"""The policy of automatic scaling: the values of the broker, overlaid by the namespace and then by the topic.

An override is a document with Pulsar's field names; an unset field falls through to the next layer. The last fields
are extensions of Magnetar. The rules for valid combinations and their texts are Pulsar's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from magnetar.base.errors import Misuse
from magnetar.base.limits import SEGMENT_BUCKETS_MAX, SEGMENTS_SCALED_MAX

RATES = ("msgRateIn", "bytesRateIn", "msgRateOut", "bytesRateOut")
_INVALID = "Invalid auto split/merge configuration: "


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Per second and segment."""

    msg_rate_in: float
    bytes_rate_in: float
    msg_rate_out: float
    bytes_rate_out: float

    @property
    def values(self) -> tuple[float, float, float, float]:
        """In the order of `RATES`."""
        return self.msg_rate_in, self.bytes_rate_in, self.msg_rate_out, self.bytes_rate_out


@dataclass(frozen=True, slots=True)
class AutoScalePolicy:
    """The effective policy of one topic. The defaults are Pulsar's."""

    enabled: bool = True
    max_segments: int = 64
    min_segments: int = 1
    max_dag_depth: int = 10
    split_cooldown_s: float = 60
    merge_cooldown_s: float = 300
    merge_window_s: float = 300
    rebucket_cooldown_s: float = 60
    split: Thresholds = field(default=Thresholds(10_000, 50_000_000, 50_000, 250_000_000))
    merge: Thresholds = field(default=Thresholds(1_000, 5_000_000, 5_000, 25_000_000))
    split_vs_rebucket_msg_rate_in: float = 1_000
    buckets_max: int = SEGMENT_BUCKETS_MAX
    backlog_age_s: float = 0  # 0: the age of the backlog splits nothing
    merge_any_adjacent: bool = True
    paused: bool = False
    held_segments: int = 0  # the minimum until `held_until_ms`
    held_until_ms: int = 0

    def at(self, now_ms: int) -> AutoScalePolicy:
        """With the bounds that a hold sets at this time: it wins over the maximum."""
        if now_ms >= self.held_until_ms or self.held_segments <= self.min_segments:
            return self
        return replace(self, min_segments=self.held_segments, max_segments=max(self.max_segments, self.held_segments))


class AutoScaleOverride(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The automatic scaling that a namespace or a topic sets; None leaves a field to the next layer.

    The field names are Pulsar's, up to `splitVsRebucketMinMsgRateInThreshold`. `splitBacklogAgeSecondsThreshold` 0
    means that the age of the backlog splits nothing. `mergeAnyAdjacent` false merges only segments that a split made.
    `paused` suspends all automatic operations. `heldSegments` is a minimum until the time `heldUntilMs`.
    """

    enabled: bool | None = None
    maxSegments: int | None = None
    minSegments: int | None = None
    maxDagDepth: int | None = None
    splitCooldownSeconds: int | None = None
    mergeCooldownSeconds: int | None = None
    mergeWindowSeconds: int | None = None
    splitMsgRateInThreshold: float | None = None
    splitBytesRateInThreshold: float | None = None
    splitMsgRateOutThreshold: float | None = None
    splitBytesRateOutThreshold: float | None = None
    mergeMsgRateInThreshold: float | None = None
    mergeBytesRateInThreshold: float | None = None
    mergeMsgRateOutThreshold: float | None = None
    mergeBytesRateOutThreshold: float | None = None
    rebucketCooldownSeconds: int | None = None
    splitVsRebucketMinMsgRateInThreshold: float | None = None
    splitBacklogAgeSecondsThreshold: float | None = None
    mergeAnyAdjacent: bool | None = None
    paused: bool | None = None
    heldSegments: int | None = None
    heldUntilMs: int | None = None


_FIELDS = {
    "enabled": "enabled",
    "maxSegments": "max_segments",
    "minSegments": "min_segments",
    "maxDagDepth": "max_dag_depth",
    "splitCooldownSeconds": "split_cooldown_s",
    "mergeCooldownSeconds": "merge_cooldown_s",
    "mergeWindowSeconds": "merge_window_s",
    "rebucketCooldownSeconds": "rebucket_cooldown_s",
    "splitVsRebucketMinMsgRateInThreshold": "split_vs_rebucket_msg_rate_in",
    "splitBacklogAgeSecondsThreshold": "backlog_age_s",
    "mergeAnyAdjacent": "merge_any_adjacent",
    "paused": "paused",
    "heldSegments": "held_segments",
    "heldUntilMs": "held_until_ms",
}


def overlaid(base: AutoScalePolicy, *overrides: AutoScaleOverride | None) -> AutoScalePolicy:
    """The policy under these overrides, the strongest last. It may be invalid: see `check`."""
    policy = base
    for override in overrides:
        if override is not None:
            policy = _overlaid(policy, override)
    return policy


def _overlaid(policy: AutoScalePolicy, override: AutoScaleOverride) -> AutoScalePolicy:
    changed: dict[str, Any] = {}
    for name, own in _FIELDS.items():
        value = getattr(override, name)
        if value is not None:
            changed[own] = value
    for verb in ("split", "merge"):
        before: Thresholds = getattr(policy, verb)
        thresholds = [getattr(override, f"{verb}{rate[0].upper()}{rate[1:]}Threshold") for rate in RATES]
        values = [old if new is None else new for old, new in zip(before.values, thresholds, strict=True)]
        changed[verb] = Thresholds(*values)
    return replace(policy, **changed)


def as_override(policy: AutoScalePolicy) -> AutoScaleOverride:
    """All fields of an effective policy by Pulsar's names."""
    fields: dict[str, Any] = {name: getattr(policy, own) for name, own in _FIELDS.items()}
    for verb in ("split", "merge"):
        thresholds: Thresholds = getattr(policy, verb)
        for rate, value in zip(RATES, thresholds.values, strict=True):
            fields[f"{verb}{rate[0].upper()}{rate[1:]}Threshold"] = value
    return AutoScaleOverride(**fields)


def check(policy: AutoScalePolicy) -> None:
    """Misuse: the combination is invalid."""
    durations = (
        policy.split_cooldown_s,
        policy.merge_cooldown_s,
        policy.merge_window_s,
        policy.rebucket_cooldown_s,
        policy.backlog_age_s,
        policy.split_vs_rebucket_msg_rate_in,
    )
    if policy.max_segments < policy.min_segments:
        raise Misuse(f"{_INVALID}maxSegments must be >= minSegments")
    if policy.min_segments < 1:
        raise Misuse(f"{_INVALID}minSegments must be >= 1")
    if max(policy.max_segments, policy.held_segments) > SEGMENTS_SCALED_MAX:
        raise Misuse(f"{_INVALID}maxSegments must be <= {SEGMENTS_SCALED_MAX}")
    if policy.max_dag_depth < 0:
        raise Misuse(f"{_INVALID}maxDagDepth must be >= 0")
    if min(durations) < 0:
        raise Misuse(f"{_INVALID}cooldowns, windows and ages must be >= 0")
    if policy.held_segments < 0 or policy.held_until_ms < 0:
        raise Misuse(f"{_INVALID}heldSegments and heldUntilMs must be >= 0")
    for rate, split, merge in zip(RATES, policy.split.values, policy.merge.values, strict=True):
        if split <= 0:
            raise Misuse(f"{_INVALID}the split threshold of {rate} must be > 0")
        if merge < 0:
            raise Misuse(f"{_INVALID}the merge threshold of {rate} must be >= 0")
        if split <= merge:
            raise Misuse(f"{_INVALID}the split threshold of {rate} must be > its merge threshold")


def decode_override(text: str) -> AutoScaleOverride | None:
    """As a record stores it; "" is None. Fields of later versions are ignored."""
    return msgspec.json.decode(text, type=AutoScaleOverride) if text else None


def encode_override(override: AutoScaleOverride | None) -> str:
    return "" if override is None else msgspec.json.encode(override).decode()
