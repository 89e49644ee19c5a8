"""Records of clusters, with the words that Pulsar's REST uses."""

from __future__ import annotations

import pytest

from magnetar.base.errors import AlreadyExists, Misuse, NotFound
from tests.unit.cluster.world import World

pytestmark = pytest.mark.real_clock


async def test_cluster_is_created_changed_and_deleted(world: World) -> None:
    clusters = world.clusters
    await clusters.create("other", {"serviceUrl": "http://other:8080", "unknown": 1})
    shown = await clusters.get("other")
    assert shown["unknown"] == 1
    assert shown["brokerClientTlsEnabled"] is False
    with pytest.raises(AlreadyExists, match="Cluster already exists"):
        await clusters.create("other", {})
    await clusters.update("other", {"serviceUrl": "http://other2:8080"})
    assert (await clusters.get("other"))["serviceUrl"] == "http://other2:8080"
    assert await clusters.names() == ["other", "standalone"]
    await clusters.delete("other")
    for attempt in (clusters.get("other"), clusters.delete("other"), clusters.update("other", {})):
        with pytest.raises(NotFound, match="Cluster does not exist"):
            await attempt


async def test_wrong_names_and_urls_are_refused(world: World) -> None:
    with pytest.raises(Misuse, match="Cluster name is not valid"):
        await world.clusters.create("bad name", {})
    with pytest.raises(Misuse, match="Illegal service url, example") as refused:
        await world.clusters.create("bad", {"serviceUrl": "nonsense"})
    assert refused.value.http_status == 400
    with pytest.raises(Misuse, match="Illegal broker service url"):
        await world.clusters.create("bad", {"brokerServiceUrl": "http://x:1"})
