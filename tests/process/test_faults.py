"""What a machine does to a broker besides killing it: full and failing disks, damaged and foreign files, a second
process, a polite stop.

Each ends in a clean state and in a sentence that says what to do, and nothing that was acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count, takewhile
from pathlib import Path

import google_crc32c
import httpx2
import pytest

import magnetar
from magnetar import errors
from magnetar.ledger.local.segment import SEGMENT_MAGIC
from simulation.crash.frame_clients import ack_each, ack_some
from simulation.crash.frame_connection import FrameConnection
from tests.process.swarm import Swarm, until
from tests.servers.standalone import Standalone

SEED = int(os.environ.get("MAGNETAR_SEED", random.randrange(1 << 30)))
TOPIC, OTHER = "persistent://public/default/one", "persistent://public/default/other"
ENDED_S = 60.0
READ_S = 3.0  # what did not come by then does not come
DISK_BYTES = 32 * 1024 * 1024
LARGER_DISK_BYTES = 400 * 1024 * 1024  # one file of the journal is 64 MiB
LARGE_BYTES = 500_000
NO_FLOOR = {"diskFreeFloorMbytes": 0}  # written until the disk takes nothing more


class FailingDisk(Standalone):
    program = ["tests.servers.failing"]  # noqa: RUF012


# Disks


def _mounted(folder: Path, size: int) -> bool:
    return not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    ).returncode


def _enlarge(folder: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,size={16 * DISK_BYTES}", str(folder)], check=True)


def _can_mount() -> bool:
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        if not _mounted(Path(folder), 4096):
            return False
        subprocess.run(["umount", folder], check=True)
        return True


@contextmanager
def a_small_disk(folder: Path, size: int = DISK_BYTES) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
    """A file system of its own: (what to do to a running broker, how to make room)."""
    folder.mkdir()
    assert _mounted(folder, size)
    try:
        yield lambda pid: None, partial(_enlarge, folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def a_small_file_limit(folder: Path) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
    """Files may not grow past a size: what a quota or an old file system does, and what needs no rights."""

    def limit(pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (DISK_BYTES // 8, DISK_BYTES // 8))

    yield limit, lambda: None


@pytest.mark.parametrize("small", [a_small_file_limit, *([a_small_disk] if _can_mount() else [])])
def test_full_disk_stops_broker_and_room_brings_everything_back(small: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with small(folder) as (confine, make_room):
        broker = Standalone(folder, NO_FLOOR)
        with broker:
            confine(broker.pid)
            asyncio.run(filled_up(broker, make_room, said="restart the broker; acknowledged messages are safe"))


@pytest.mark.skipif(not _can_mount(), reason="needs the right to mount a file system")
def test_almost_full_disk_is_drained_and_written_again(tmp_path: Path) -> None:
    """Messages are refused before the disk is full. Consumers make room, also after a start on a disk without any."""
    disk = tmp_path / "disk"
    broker = Standalone(tmp_path / "broker")
    broker.data = disk / "data"
    with a_small_disk(disk, LARGER_DISK_BYTES), broker, magnetar.Client(broker.url) as client:
        with (disk / "other").open("wb") as other:
            os.posix_fallocate(other.fileno(), 0, LARGER_DISK_BYTES * 5 // 8)
        consumer = client.subscribe(TOPIC, "s", initial_position=magnetar.InitialPosition.EARLIEST)
        stored = _sent_until_refused(client)
        assert stored > LARGER_DISK_BYTES // 8 // LARGE_BYTES
        with pytest.raises(magnetar.MagnetarError, match="almost full"):
            client.create_producer(TOPIC)
        broker.stop()
        _fill(disk / "filling")
        broker.start()
        for number in range(stored):
            message = consumer.receive(ENDED_S)
            assert int(message.data) == number
            consumer.acknowledge(message)
        consumer.close()
        (disk / "filling").unlink()
        asyncio.run(until(partial(_may_produce, client), 0.2))
        assert broker.log(500).count("disk_floor_reached") == 2


def _sent_until_refused(client: magnetar.Client) -> int:
    """How many of them have a receipt."""
    with client.create_producer(TOPIC, send_timeout_s=2, batching=None) as producer:
        for number in count():
            try:
                producer.send(b"%d" % number + b" " * LARGE_BYTES)
            except magnetar.MagnetarError:
                return number
    raise AssertionError


def _fill(path: Path) -> None:
    """Nothing is left of the disk."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def _may_produce(client: magnetar.Client) -> bool:
    try:
        client.create_producer(TOPIC).close()
    except errors.QuotaExceeded:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("small", [a_small_file_limit, *([a_small_disk] if _can_mount() else [])])
def test_full_metadata_disk_stops_broker_until_space_returns(small: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with small(folder) as (confine, make_room):
        broker = Standalone(folder, NO_FLOOR)
        with broker:
            confine(broker.pid)
            made = [f"persistent://public/default/t{number}" for number in range(1_500)]
            kept = list(takewhile(partial(_made, broker), made))
            assert 0 < len(kept) < len(made), "the disk was never full"
            assert broker.process is not None
            assert broker.process.wait(ENDED_S) == 1
            assert "restart the broker; acknowledged messages are safe" in broker.log()
            broker.kill()
            make_room()
            broker.start()
            found = set(broker.admin("GET", "persistent/public/default"))
            assert found.issuperset(kept)
            assert len(found) <= len(kept) + 1, "made, and told otherwise"


def _made(broker: Standalone, topic: str) -> bool:
    path = topic.replace("://", "/")
    try:
        broker.admin("PUT", path, {"filling": "x" * 60_000})
    except (AssertionError, httpx2.HTTPError):
        return False
    return True


def test_disk_that_fails_to_sync_stops_broker_and_loses_nothing(tmp_path: Path) -> None:
    broker = FailingDisk(tmp_path)
    flag = tmp_path / "fail"
    with broker:
        asyncio.run(filled_up(broker, flag.unlink, said="check the disk and its file system", start=flag.touch))


async def filled_up(
    broker: Standalone, make_room: Callable[[], None], *, said: str, start: Callable[[], None] | None = None
) -> None:
    """Publish until the broker gives up by itself; then it is given room and must have everything."""
    swarm = Swarm(broker.port, SEED)
    for name in "pq":
        swarm.publisher(TOPIC, name, padding=20_000)
    swarm.subscriber(TOPIC, "some", "Shared", ack_some)
    await swarm.subscribe_first()
    swarm.start()
    try:
        async with asyncio.timeout(ENDED_S):
            if start is not None:
                await until(lambda: len(swarm.history.deliveries) > 50)
                start()
            await until(lambda: broker.process is None or broker.process.poll() is not None)
        assert broker.stop() == 1
        assert said in broker.log(200)
        assert "Traceback" not in broker.log(2000)
        await swarm.gone()
        swarm.history.next_life()
        make_room()
        broker.start()
        await swarm.at_rest("after room was made")
    finally:
        await swarm.stop()


# Stops, and two at once


def test_polite_stop_answers_everything_and_forgets_nothing(tmp_path: Path) -> None:
    with Standalone(tmp_path) as broker:
        asyncio.run(stopped_under_load(broker))


async def stopped_under_load(broker: Standalone) -> None:
    swarm = Swarm(broker.port, SEED)
    for name in "pq":
        swarm.publisher(TOPIC, name)
    swarm.subscriber(TOPIC, "each", "Exclusive", ack_each)
    swarm.subscriber(TOPIC, "some", "Shared", ack_some)
    await swarm.subscribe_first()
    swarm.start()
    try:
        for stop in range(3):
            seen = len(swarm.history.deliveries)
            await swarm.owed(f"stop {stop}")
            await until(lambda seen=seen: len(swarm.history.deliveries) > seen + 100)
            code = await asyncio.to_thread(broker.stop)  # clients go on meanwhile: they are sent away, and come again
            assert code == 0, broker.log()
            await swarm.gone()
            swarm.history.next_life()
            broker.start()
        await swarm.at_rest("after three stops")
    finally:
        await swarm.stop()


def test_second_broker_on_folder_is_told_who_holds_it(tmp_path: Path) -> None:
    with Standalone(tmp_path / "first") as first:
        second = Standalone(tmp_path / "second")
        second.data = first.data
        with pytest.raises(AssertionError, match=r"exit code [1-9]") as refused:
            second.start()
        assert f"process {first.pid}" in str(refused.value)
        assert "choose another directory" in str(refused.value)
        assert "Traceback" not in str(refused.value)
        assert first.ask("GET", "/admin/v2/brokers/health").status_code == 200


def said_by(*arguments: str) -> str:
    """What a broker that cannot start says on standard error."""
    command = [sys.executable, "-m", "magnetar.cli.main", "standalone", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_one_port_for_both_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    told = said_by("--data", str(tmp_path / "data"), "--port", "7070", "--http-port", "7070")
    assert "webServicePort must be different" in told
    assert not (tmp_path / "data").exists()


def test_misspelt_setting_is_warned_of_and_bad_value_stops_start(tmp_path: Path) -> None:
    conf = tmp_path / "standalone.conf"
    conf.write_text("brokerDeduplicationEnable=true\nbrokerDeduplicationEnabled=maybe\n")
    told = said_by("--data", str(tmp_path / "data"), "--conf", str(conf))
    assert "near=brokerDeduplicationEnabled" in told
    assert "brokerDeduplicationEnabled must be true or false" in told
    assert "value=maybe" in told


# Files that changed


def published(broker: Standalone, topic: str, name: str, count: int) -> None:
    async def body() -> None:
        swarm = Swarm(broker.port, SEED)
        publisher = swarm.publisher(topic, name)
        wire = await FrameConnection.open("localhost", broker.port)
        await publisher.attach(wire)
        for _ in range(count):
            publisher.publish(["k"])
            await publisher.settled()
        wire.close()

    asyncio.run(body())


def read(broker: Standalone, topic: str, count: int) -> list[int]:
    """The numbers of the messages that come, up to so many, in order."""

    async def body() -> list[int]:
        swarm = Swarm(broker.port, SEED)
        subscriber = swarm.subscriber(topic, "reader", "Exclusive", ack_each)
        wire = await FrameConnection.open("localhost", broker.port)
        try:
            await subscriber.attach(wire)
            async with asyncio.timeout(READ_S):
                await until(lambda: len(swarm.history.deliveries) >= count)
        except TimeoutError:
            pass
        finally:
            wire.close()
        return [int(delivery.payload.split(b"|")[2]) for delivery in swarm.history.deliveries]

    return asyncio.run(body())


def test_damaged_byte_is_reported_and_everything_else_is_served(tmp_path: Path) -> None:
    with Standalone(tmp_path) as broker:
        published(broker, TOPIC, "p", 20)
        published(broker, OTHER, "q", 20)
        assert broker.stop() == 0
        flip(broker.data, b"p|k|11")
        broker.start()
        assert read(broker, OTHER, 20) == list(range(20))
        assert read(broker, TOPIC, 12) == list(range(11))  # up to the damage, and nothing made up
        assert "entry_read_failed" in broker.log()
        assert "journal is damaged" in broker.log()
        published(broker, OTHER, "r", 3)  # it goes on working
        assert broker.stop() == 0


def test_byte_damaged_after_kill_is_reported_at_start(tmp_path: Path) -> None:
    with Standalone(tmp_path) as broker:
        published(broker, TOPIC, "p", 20)
        published(broker, OTHER, "q", 20)
        broker.kill()
        flip(broker.data, b"p|k|11")
        broker.start()
        assert "journal_damage_found" in broker.log()
        assert read(broker, OTHER, 20) == list(range(20))
        assert read(broker, TOPIC, 12) == list(range(11))
        assert broker.stop() == 0


def flip(data: Path, payload: bytes) -> None:
    for path in sorted((data / "ledgers").rglob("*.log")):
        content = bytearray(path.read_bytes())
        at = content.find(payload)
        if at >= 0:
            content[at] ^= 0x01
            path.write_bytes(content)
            return
    raise AssertionError(f"{payload!r} is nowhere in the journal")


def newer_journal(data: Path) -> None:
    path = sorted((data / "ledgers").rglob("*.log"))[0]
    prefix = struct.pack("<8sI", SEGMENT_MAGIC, 99)
    content = path.read_bytes()
    path.write_bytes(prefix + struct.pack("<I", google_crc32c.value(prefix)) + content[16:])


def newer_metadata(data: Path) -> None:
    file = sqlite3.connect(data / "metadata.db")
    file.execute("PRAGMA user_version = 99")
    file.close()


@pytest.mark.parametrize("newer", [newer_journal, newer_metadata])
def test_files_of_newer_version_are_refused_with_what_to_do(newer: Callable[[Path], None], tmp_path: Path) -> None:
    with Standalone(tmp_path) as broker:
        published(broker, TOPIC, "p", 3)
        assert broker.stop() == 0
        newer(broker.data)
        with pytest.raises(AssertionError, match=r"exit code [1-9]") as refused:
            broker.start()
    assert "newer" in str(refused.value)
    assert "start th" in str(refused.value)  # that version, or the newer Magnetar
    assert "Traceback" not in str(refused.value)
