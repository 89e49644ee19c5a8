"""The typed admin client: `Admin` blocks, `AsyncAdmin` awaits; both have one method for every REST call of a broker.

This module is the public entry, with the policies and documents that calls take and return. `client/admin` contains the
implementation. Users import the two as `magnetar.Admin` and `magnetar.aio.Admin`.
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
