"""May a topic be made by using it? Values in, a verdict out."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Refused, TopicNotFound
from magnetar.base.names import topic_name
from magnetar.cluster.creation import CreateTopic, RefuseTopic, decide
from magnetar.policy.policies import AutoTopicCreation, Policies
from magnetar.policy.settings import Settings

PLAIN = "persistent://public/default/t"
PARTITION = "persistent://public/default/t-partition-2"
OFF = Policies(autoTopicCreationOverride=AutoTopicCreation(False))
PARTITIONED = Policies(autoTopicCreationOverride=AutoTopicCreation(True, "partitioned", 4))


@pytest.mark.parametrize(
    ("name", "file", "policies", "base", "expected"),
    [
        (PLAIN, {}, Policies(), 0, CreateTopic(0)),
        (PLAIN, {"allowAutoTopicCreation": "false"}, Policies(), 0, TopicNotFound),
        (PLAIN, {}, OFF, 0, TopicNotFound),
        (
            PLAIN,
            {"allowAutoTopicCreation": "false"},
            Policies(autoTopicCreationOverride=AutoTopicCreation(True)),
            0,
            CreateTopic(0),
        ),
        (PLAIN, {}, PARTITIONED, 0, CreateTopic(4)),
        (
            PLAIN,
            {"allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": "7"},
            Policies(),
            0,
            CreateTopic(7),
        ),
        (PLAIN, {}, None, 0, TopicNotFound),
        (PARTITION, {}, OFF, 3, CreateTopic(0)),
        (PARTITION, {}, Policies(), 2, TopicNotFound),
        (PARTITION, {}, PARTITIONED, 0, CreateTopic(0)),
        (PARTITION, {}, OFF, 0, TopicNotFound),
        ("non-persistent://public/default/t", {}, Policies(), 0, CreateTopic(0)),
        ("non-persistent://public/default/t", {"enableNonPersistentTopics": "false"}, Policies(), 0, Refused),
        (PLAIN, {"enablePersistentTopics": "false"}, Policies(), 0, Refused),
        ("topic://public/default/t", {}, Policies(), 0, Refused),
        ("segment://public/default/t/0000-ffff-0", {}, Policies(), 0, TopicNotFound),
    ],
)
def test_verdict(
    name: str, file: dict[str, str], policies: Policies | None, base: int, expected: CreateTopic | type[Exception]
) -> None:
    verdict = decide(topic_name(name), Settings(file=file), policies, base_partitions=base)
    if isinstance(expected, CreateTopic):
        assert verdict == expected
    else:
        assert isinstance(verdict, RefuseTopic)
        assert type(verdict.error) is expected
