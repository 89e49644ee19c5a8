"""Patterns name their namespace and match whole names without domain and partition."""

from __future__ import annotations

import re

import pytest

from magnetar.base.errors import Misuse
from magnetar.client.consumer.pattern import TopicPattern


def test_short_and_long_forms():
    short = TopicPattern.of(re.compile("log-.*"))
    assert (short.namespace, short.expression, short.mode) == ("public/default", "public/default/log-.*", "PERSISTENT")
    long = TopicPattern.of(re.compile("non-persistent://a/b.c/x.*"))
    assert (long.namespace, long.mode) == ("a/b.c", "NON_PERSISTENT")


def test_partitions_count_once_and_only_whole_names_match():
    pattern = TopicPattern.of(re.compile("persistent://a/b.c/x-\\d+"))
    found = pattern.matching(
        [
            "persistent://a/b.c/x-1",
            "persistent://a/b.c/x-2-partition-0",
            "persistent://a/b.c/x-2-partition-1",
            "persistent://a/b.c/x-33a",
            "persistent://a/bXc/x-4",
            "persistent://a/b.c/yx-5",
        ]
    )
    assert found == {"persistent://a/b.c/x-1", "persistent://a/b.c/x-2"}


def test_flags_of_pattern_hold():
    pattern = TopicPattern.of(re.compile("public/default/LOG.*", re.IGNORECASE))
    assert pattern.matching(["persistent://public/default/log1"]) == {"persistent://public/default/log1"}


@pytest.mark.parametrize("wrong", ["topic://a/b/x", "a/.*/x", "a/b"])
def test_namespace_that_is_no_name_is_refused(wrong):
    with pytest.raises(Misuse):
        TopicPattern.of(re.compile(wrong))
