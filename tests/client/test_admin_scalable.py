"""The admin client on scalable topics of our broker: life, layout, subscriptions, reshapes; refusals by class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.base.errors import AlreadyExists, Misuse, NotFound, Refused
from magnetar.client.admin.clients import Admin
from tests.servers.standalone import Standalone

X = "topic://public/default/x"


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    with Standalone(tmp_path / "broker") as broker, Admin(broker.http) as made:
        yield made


def active(admin: Admin, name: str = X) -> list[int]:
    return sorted(one.segmentId for one in admin.scalable.metadata(name).segments.values() if one.state == "ACTIVE")


def test_scalable_topic_lives_and_is_reshaped(admin: Admin) -> None:
    scalable = admin.scalable
    scalable.create(X, segments=2, properties={"team": "a", "kind": "b=c, d"})
    scalable.create("topic://public/default/y", properties={"team": "a"})
    assert scalable.names("public/default") == [X, "topic://public/default/y"]
    assert scalable.names("public/default", properties={"team": "a", "kind": "b=c, d"}) == [X]
    found = scalable.metadata("x")  # short names mean the same topic
    assert (found.epoch, found.nextSegmentId, found.properties["team"]) == (0, 2, "a")
    scalable.create_subscription(X, "s")
    scalable.create_subscription(X, "tail", earliest=False)
    assert sorted(scalable.subscriptions(X)) == ["s", "tail"]

    done = scalable.split(X, 0, reason="hot keys")
    assert done is not None
    assert (done.kind, done.phase) == ("SPLIT", "DONE")
    assert scalable.operation(X, done.op).steps == done.steps
    assert scalable.split(X, 2, at=0x1000) is not None
    assert scalable.split(X, 1, into=3) is not None
    assert active(admin) == [3, 4, 5, 6, 7, 8]
    assert scalable.merge(X, [4, 5]) is not None
    assert scalable.merge(X, [8, 6, 7]) is not None
    assert active(admin) == [3, 9, 10]
    kinds = [one.kind for one in scalable.operations(X)]
    assert kinds == ["MERGE", "MERGE", "SPLIT", "SPLIT", "SPLIT"]
    assert scalable.operations(X)[-1].reason == "hot keys"

    stats = scalable.stats(X)
    assert (stats.totalSegments, stats.activeSegments) == (len(stats.segments), 3)
    assert stats.controller == stats.segments["10"].ownerBroker
    assert "s" in scalable.segment_stats(X, 10).subscriptions
    assert scalable.segment_backlog(stats.segments["10"].name, "s") == 0
    scalable.delete_subscription(X, "s")
    scalable.delete_subscription(X, "s")
    assert sorted(scalable.subscriptions(X)) == ["tail"]
    scalable.delete(X)
    assert scalable.names("public/default") == ["topic://public/default/y"]


def test_refusals_are_of_class_that_says_what_to_do(admin: Admin) -> None:
    scalable = admin.scalable
    scalable.create(X)
    with pytest.raises(AlreadyExists):
        scalable.create(X)
    for missing in (lambda: scalable.metadata("y"), lambda: scalable.split("y", 0), lambda: scalable.delete("y")):
        with pytest.raises(NotFound):
            missing()
    with pytest.raises(NotFound):
        scalable.split(X, 9)
    with pytest.raises(NotFound):
        scalable.operation(X, "split-0")
    scalable.split(X, 0)
    with pytest.raises((Refused, Misuse)):
        scalable.split(X, 0)
    with pytest.raises((Refused, Misuse)):
        scalable.merge(X, [1, 1])
    with pytest.raises(Misuse):
        scalable.create("segment://public/default/x/0000-ffff-0")
    with pytest.raises(Misuse):
        scalable.create_segment(X)
