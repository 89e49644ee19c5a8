"""The typed admin client: `Admin` blocks, `AsyncAdmin` awaits; both have one method for every REST call of a broker.

This is the door: policies and documents that calls take and give are found here too. What it is made of lives in
`client/admin`. Users know the two as `magnetar.Admin` and `magnetar.aio.Admin`.
"""

from __future__ import annotations

from magnetar.client.admin.aio.admin import Admin as AsyncAdmin
from magnetar.client.admin.messages import PeekedMessage
from magnetar.client.admin.policy import Policy, Removable, Settable
from magnetar.client.admin.responses import RestResponse
from magnetar.client.admin.sync.admin import Admin
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
    "AsyncAdmin",
    "AutoSubscriptionCreation",
    "AutoTopicCreation",
    "ConsumerStats",
    "DelayedDelivery",
    "MessageId",
    "Operation",
    "PeekedMessage",
    "Policies",
    "Policy",
    "PostSchema",
    "Removable",
    "RestResponse",
    "Retention",
    "ScalableTopicMetadata",
    "ScalableTopicStats",
    "SchemaInfo",
    "Settable",
    "SubscriptionStats",
    "TenantInfo",
    "TopicStats",
]
