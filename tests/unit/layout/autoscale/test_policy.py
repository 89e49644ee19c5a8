"""Layers of the policy, and the combinations that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Misuse
from magnetar.layout.autoscale.policy import (
    AutoScaleOverride,
    AutoScalePolicy,
    Thresholds,
    check,
    decode_override,
    encode_override,
    overlaid,
)

BASE = AutoScalePolicy()


def test_unset_fields_fall_through_and_topic_wins() -> None:
    namespace = AutoScaleOverride(enabled=False, maxSegments=16, splitMsgRateInThreshold=5)
    topic = AutoScaleOverride(maxSegments=8, mergeMsgRateInThreshold=2)
    policy = overlaid(BASE, namespace, None, topic)
    assert (policy.enabled, policy.max_segments, policy.min_segments) == (False, 8, 1)
    assert policy.split == Thresholds(5, 50_000_000, 50_000, 250_000_000)
    assert policy.merge == Thresholds(2, 5_000_000, 5_000, 25_000_000)


def test_override_survives_its_stored_form() -> None:
    override = AutoScaleOverride(enabled=True, splitMsgRateInThreshold=0.5, paused=False)
    assert decode_override(encode_override(override)) == override
    assert decode_override('{"enabled":false,"later":1}') == AutoScaleOverride(enabled=False)
    assert decode_override(encode_override(None)) is None


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (AutoScaleOverride(maxSegments=-1), "maxSegments must be >= minSegments"),
        (AutoScaleOverride(minSegments=0), "minSegments must be >= 1"),
        (AutoScaleOverride(maxSegments=5_000), "maxSegments must be <= 1024"),
        (AutoScaleOverride(heldSegments=5_000), "maxSegments must be <= 1024"),
        (AutoScaleOverride(maxDagDepth=-1), "maxDagDepth must be >= 0"),
        (AutoScaleOverride(mergeWindowSeconds=-1), "must be >= 0"),
        (AutoScaleOverride(heldUntilMs=-1), "must be >= 0"),
        (AutoScaleOverride(splitMsgRateInThreshold=0), "split threshold of msgRateIn must be > 0"),
        (AutoScaleOverride(mergeBytesRateOutThreshold=-1), "merge threshold of bytesRateOut must be >= 0"),
        (AutoScaleOverride(mergeMsgRateOutThreshold=50_000), "of msgRateOut must be > its merge threshold"),
    ],
)
def test_invalid_combination_is_refused(override: AutoScaleOverride, words: str) -> None:
    check(BASE)
    with pytest.raises(Misuse, match=words):
        check(overlaid(BASE, override))


def test_zero_merge_thresholds_are_valid() -> None:
    check(replace(BASE, merge=Thresholds(0, 0, 0, 0)))


def test_hold_raises_both_bounds_until_its_end() -> None:
    policy = overlaid(BASE, AutoScaleOverride(maxSegments=8, heldSegments=32, heldUntilMs=1_000))
    assert (policy.at(999).min_segments, policy.at(999).max_segments) == (32, 32)
    assert (policy.at(1_000).min_segments, policy.at(1_000).max_segments) == (1, 8)
