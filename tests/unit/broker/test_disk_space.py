"""Below a floor of free space no message is stored; reading goes on, and publishing too once there is room."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.limits import DISK_LOOK_S
from magnetar.broker.disk_space import MIB, RESERVE, DiskSpace, floor_bytes, is_low, release_reserve
from magnetar.wire.proto import pb
from simulation.environment.disk import SimulatedFiles
from tests.unit.broker.world import TOPIC, Client, World, pass_s

GIB = 1024 * MIB
NON_PERSISTENT = TOPIC.replace("persistent", "non-persistent")


class Disk(SimulatedFiles):
    """Of 100 GiB, with as much free as a test says."""

    free_bytes = 50 * GIB

    def free(self, directory: str) -> int:
        return self.free_bytes

    def capacity(self, directory: str) -> int:
        return 100 * GIB


async def watched(world: World) -> Disk:
    return (await measured(world))[0]


async def measured(world: World) -> tuple[Disk, DiskSpace]:
    disk = Disk()
    files: Any = world.runtime
    files.files = disk
    disk.mkdir("/data")
    space = DiskSpace(world.node, "/data")
    await space.begin()
    return disk, space


async def look() -> None:
    await pass_s(2 * DISK_LOOK_S)


@pytest.mark.parametrize(
    ("asked_mib", "capacity", "expected"),
    [(256, 100 * GIB, 256 * MIB), (256, GIB, GIB // 10), (0, 100 * GIB, 0)],
)
def test_floor_is_tenth_of_small_disk_at_most(asked_mib: int, capacity: int, expected: int) -> None:
    assert floor_bytes(asked_mib, capacity) == expected


def test_low_space_ends_quarter_above_floor() -> None:
    assert not is_low(False, 100, 100)
    assert is_low(False, 99, 100)
    assert is_low(True, 124, 100)
    assert not is_low(True, 125, 100)


async def test_producers_are_closed_and_refused_until_there_is_room(world: World) -> None:
    disk = await watched(world)
    client = world.client()
    await client.produce()
    disk.free_bytes = 255 * MIB
    await look()
    assert len(client.heard.of(pb.BaseCommand.CLOSE_PRODUCER)) == 1
    refused = await client.produce(2)
    assert refused.error.error == pb.ProducerBlockedQuotaExceededError
    assert "almost full: 255 MiB are free, 256 MiB must stay free" in refused.error.message
    assert (await client.produce(3, NON_PERSISTENT)).HasField("producer_success")
    assert (await client.subscribe()).HasField("success")
    disk.free_bytes = 400 * MIB
    await look()
    assert (await client.produce(4)).HasField("producer_success")


async def test_stage_is_neither_begun_nor_written_and_still_committed(world: World) -> None:
    disk = await watched(world)
    client = world.client(feature_flags={"magnetar_extensions": 1})
    prepared, written = [(await begin(client, batch)).beginStageResponse for batch in (1, 2)]
    assert (await client.produce(topic=written.stage_topic)).HasField("producer_success")
    assert (await client.ask("SEAL_STAGE", stage=prepared.stage)).HasField("sealStageResponse")
    disk.free_bytes = 255 * MIB
    await look()
    assert len(client.heard.of(pb.BaseCommand.CLOSE_PRODUCER)) == 1
    for refused in (await begin(client, 3), await client.produce(2, written.stage_topic)):
        assert refused.error.error == pb.ProducerBlockedQuotaExceededError
        assert "almost full: 255 MiB are free" in refused.error.message
    assert (await client.ask("RENEW_STAGE", stage=prepared.stage)).HasField("success")
    committed = pb.BaseCommand(type=pb.BaseCommand.COMMIT_STAGES)
    request = committed.commitStages
    request.request_id, request.topic, request.sink, request.batch = 900, TOPIC, "s", 1
    request.stages.append(prepared.stage)
    client.say(committed)
    await client.ask("RENEW_STAGE", stage=written.stage)
    assert client.answers(900)[-1].commitStagesResponse.committed
    disk.free_bytes = 400 * MIB
    await look()
    assert (await begin(client, 3)).beginStageResponse.stage


async def begin(client: Client, batch: int) -> pb.BaseCommand:
    return await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=batch)


async def test_bytes_written_are_measured_before_timer(world: World) -> None:
    disk, space = await measured(world)
    disk.free_bytes = 255 * MIB
    space.journal_written(31 * MIB)
    await pass_s(DISK_LOOK_S / 10)
    assert world.node.blocked is None, "less than an eighth of the floor was written"
    space.journal_written(MIB)
    await pass_s(DISK_LOOK_S / 10)
    assert world.node.blocked is not None


async def test_broker_that_starts_with_little_room_refuses_producers(world: World) -> None:
    disk = Disk()
    disk.free_bytes = MIB
    files: Any = world.runtime
    files.files = disk
    await DiskSpace(world.node, "/data").begin()
    assert (await world.client().produce()).HasField("error")


@pytest.mark.setup(diskFreeFloorMbytes="0")
async def test_floor_of_zero_refuses_nothing_and_keeps_no_reserve(world: World) -> None:
    disk, space = await measured(world)
    disk.free_bytes = 1
    space.journal_written(MIB)
    assert not space._due.is_set(), "without a floor no batch is a reason to measure"
    await look()
    assert (await world.client().produce()).HasField("producer_success")
    assert not disk.exists(f"/data/{RESERVE}")


async def test_reserve_file_is_released_for_start_on_full_disk(world: World) -> None:
    disk = await watched(world)
    assert not disk.exists(f"/data/{RESERVE}"), "there is room enough"
    disk.free_bytes = 3 * GIB
    await look()
    assert disk.open(f"/data/{RESERVE}").size() == 256 * MIB // 3
    disk.free_bytes = 86 * MIB
    release_reserve(disk, "/data")
    assert disk.exists(f"/data/{RESERVE}"), "there is room without it"
    disk.free_bytes = MIB
    release_reserve(disk, "/data")
    assert not disk.exists(f"/data/{RESERVE}")
