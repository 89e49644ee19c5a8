"""The overrides that a namespace and a topic store. Corrupt: a stored one cannot be read."""

from __future__ import annotations

import msgspec

from magnetar.base.errors import Corrupt
from magnetar.layout.autoscale.policy import AutoScaleOverride, decode_override
from magnetar.policy.policies import Policies
from magnetar.scalable.record.record import Record


def namespace_override(policies: Policies | None) -> AutoScaleOverride | None:
    document = None if policies is None else policies.scalableTopicAutoScalePolicy
    try:
        return None if document is None else msgspec.convert(document, AutoScaleOverride)
    except msgspec.ValidationError as error:
        raise Corrupt("the scalableTopicAutoScalePolicy of the namespace is invalid", why=str(error)) from error


def topic_override(record: Record) -> AutoScaleOverride | None:
    try:
        return decode_override(record.autoscale)
    except msgspec.DecodeError as error:
        raise Corrupt("the autoScalePolicy of the topic is invalid", why=str(error)) from error
