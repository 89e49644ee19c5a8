"""The policy of the broker from its settings, and the times of the last reshapes from the record of a topic.

The newest reshapes are in the history of the record. The active segments show them too, if the history is shorter.
"""

from __future__ import annotations

from magnetar.layout.autoscale.evaluator import LastReshapes
from magnetar.layout.autoscale.policy import AutoScalePolicy, Thresholds
from magnetar.policy.settings import Settings
from magnetar.scalable.record.record import Kind, Outcome, Record


def broker_policy(settings: Settings) -> AutoScalePolicy:
    return AutoScalePolicy(
        enabled=settings.flag("scalableTopicAutoScaleEnabled"),
        max_segments=settings.number("scalableTopicMaxSegments"),
        min_segments=settings.number("scalableTopicMinSegments"),
        max_dag_depth=settings.number("scalableTopicMaxDagDepth"),
        split_cooldown_s=settings.number("scalableTopicSplitCooldownSeconds"),
        merge_cooldown_s=settings.number("scalableTopicMergeCooldownSeconds"),
        merge_window_s=settings.number("scalableTopicMergeWindowSeconds"),
        rebucket_cooldown_s=settings.number("scalableTopicRebucketCooldownSeconds"),
        split=Thresholds(
            settings.number("scalableTopicSplitMsgRateInThreshold"),
            settings.number("scalableTopicSplitBytesRateInThreshold"),
            settings.number("scalableTopicSplitMsgRateOutThreshold"),
            settings.number("scalableTopicSplitBytesRateOutThreshold"),
        ),
        merge=Thresholds(
            settings.number("scalableTopicMergeMsgRateInThreshold"),
            settings.number("scalableTopicMergeBytesRateInThreshold"),
            settings.number("scalableTopicMergeMsgRateOutThreshold"),
            settings.number("scalableTopicMergeBytesRateOutThreshold"),
        ),
        split_vs_rebucket_msg_rate_in=settings.number("scalableTopicSplitVsRebucketMinMsgRateInThreshold"),
        buckets_max=min(AutoScalePolicy().buckets_max, settings.number("scalableTopicEntryBucketMaxPerSegment")),
    )


def last_reshapes(record: Record) -> LastReshapes:
    """Manual reshapes count like automatic ones."""
    latest = dict.fromkeys(Kind, 0)
    for past in record.history:
        if past.outcome is Outcome.DONE:
            latest[past.kind] = max(latest[past.kind], past.at_ms)
    for segment in record.layout.active:
        if len(segment.parents) > 1:
            latest[Kind.MERGE] = max(latest[Kind.MERGE], segment.created_ms)
    return LastReshapes(
        split_ms=max(latest[Kind.SPLIT], latest[Kind.MIGRATE]),
        merge_ms=latest[Kind.MERGE],
        rebucket_ms=latest[Kind.REBUCKET],
    )
