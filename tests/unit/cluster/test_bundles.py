"""Which bundle: as created, and as split later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from magnetar.base.bundles import Bundle, equal_bundles
from magnetar.base.errors import Corrupt, Misuse, NotFound
from magnetar.base.names import namespace_name, topic_name
from magnetar.cluster.bundles import NamespaceBundles, bundles_of, document_of, wanted
from magnetar.metadata import paths
from magnetar.policy.policies import Bundles, Policies
from tests.unit.cluster.world import World

pytestmark = pytest.mark.real_clock

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "bundles.json").read_text())
NS = namespace_name("public/default")


async def test_topic_is_in_bundle_that_vectors_say(world: World) -> None:
    bundles = NamespaceBundles(world.store)
    for count in (4, 16, 64):
        policies = Policies(bundles=document_of(equal_bundles(count)))
        for case in VECTORS["topics"][:40]:
            found = await bundles.find(topic_name(case["topic"]), policies)
            assert str(found) == case[f"bundle_of_{count}"]
    bundles.close()


async def test_split_is_seen_by_all_and_keeps_other_fields(world: World) -> None:
    bundles, others = NamespaceBundles(world.store), NamespaceBundles(world.memory.peer())
    policies = await world.namespaces.get(NS)
    before = await others.get(NS, policies)
    assert len(before) == 4
    await world.store.put(paths.local_policies(NS), b'{"namespaceAntiAffinityGroup":"a"}')
    after = before.split(Bundle(0, 0x40000000))
    await bundles.put(NS, after)
    assert await others.get(NS, policies) == after
    node = await world.store.get(paths.local_policies(NS))
    assert node is not None
    assert json.loads(node.value)["namespaceAntiAffinityGroup"] == "a"


async def test_damaged_bundles_are_corrupt_with_their_path(world: World) -> None:
    await world.store.put(paths.local_policies(NS), b'{"bundles":5}')
    with pytest.raises(Corrupt, match="cannot be read"):
        await NamespaceBundles(world.store).get(NS, await world.namespaces.get(NS))


async def test_no_namespace_no_bundles(world: World) -> None:
    with pytest.raises(NotFound, match="Namespace does not exist"):
        await NamespaceBundles(world.store).get(namespace_name("public/nosuch"), None)


@pytest.mark.parametrize("boundaries", [["0x00000000"], ["0x00000000", "0x1"], ["nonsense"], []])
def test_boundaries_that_cover_nothing_are_refused(boundaries: list[str]) -> None:
    with pytest.raises(Misuse) as refused:
        bundles_of(Bundles(boundaries, 1))
    assert refused.value.http_status == 400


def test_too_many_bundles_are_refused() -> None:
    with pytest.raises(Misuse):
        wanted(Bundles(numBundles=10**9), 4)
    assert wanted(None, 3).numBundles == 3
