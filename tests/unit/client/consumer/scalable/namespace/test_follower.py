"""Which topics of a namespace a consumer asks for. How they come and go is tried with the consumers of one."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import Misuse
from magnetar.client.consumer.scalable.namespace.follower import Namespace


@pytest.mark.parametrize("properties", [{"a": 1}, {1: "a"}, ["a"], "a", None])
def test_impossible_properties_are_refused_before_request(properties: Any) -> None:
    with pytest.raises(Misuse, match="must map text to text"):
        Namespace("public/default", properties)


def test_properties_are_names_and_values() -> None:
    assert Namespace("public/default", {"a": "1"}).properties == {"a": "1"}
