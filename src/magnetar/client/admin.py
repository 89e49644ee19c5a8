"""The typed admin client: `Admin` blocks, `AsyncAdmin` awaits; both have one method for every REST call of a broker.

This is the door: policies and documents that calls take and give are found here too. What it is made of lives in
`administration`. Users know the two as `magnetar.Admin` and `magnetar.aio.Admin`.
"""

from __future__ import annotations

from magnetar.client.administration.aio.admin import Admin as AsyncAdmin
from magnetar.client.administration.answers import Answer
from magnetar.client.administration.peeked import Peeked
from magnetar.client.administration.policy import Policy, Removable, Settable
from magnetar.client.administration.sync.admin import Admin
from magnetar.client.documents.policies import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    DelayedDelivery,
    Policies,
    Retention,
)
from magnetar.client.documents.scalable import Operation, ScalableTopicMetadata, ScalableTopicStats
from magnetar.client.documents.schemas import PostSchema, SchemaInfo
from magnetar.client.documents.stats import ConsumerStats, SubscriptionStats, TopicStats
from magnetar.client.documents.tenants import TenantInfo
from magnetar.client.documents.topics import MessageId

__all__ = [
    "Admin",
    "Answer",
    "AsyncAdmin",
    "AutoSubscriptionCreation",
    "AutoTopicCreation",
    "ConsumerStats",
    "DelayedDelivery",
    "MessageId",
    "Operation",
    "Peeked",
    "Policies",
    "Policy",
    "PostSchema",
    "Removable",
    "Retention",
    "ScalableTopicMetadata",
    "ScalableTopicStats",
    "SchemaInfo",
    "Settable",
    "SubscriptionStats",
    "TenantInfo",
    "TopicStats",
]
