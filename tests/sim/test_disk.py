"""The disk that forgets: what was synced survives every crash, what was not survives some of them and in pieces."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Conflict, NotFound, StorageFailed, StorageFull
from simulation.environment.disk import (
    PERMANENTLY,
    SECTOR_BYTES,
    SYNC_S,
    PowerLoss,
    SimulatedFiles,
)

SEEDS = range(60)


def test_what_was_synced_survives_and_what_was_not_may() -> None:
    seen = set()
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        file = files.open("/d/f", create=True)
        file.pwritev([b"durable", b" bytes"], 0)
        file.datasync()
        files.sync_dir("/d")
        file.pwritev([b"DURABLE"], 0)
        file.pwritev([b"!" * 10], 13)
        assert file.pread(100, 0) == b"DURABLE bytes!!!!!!!!!!"
        seen.add(files.crash().content("/d/f"))
    assert seen == {
        b"durable bytes",
        b"DURABLE bytes",
        b"durable bytes!!!!!!!!!!",
        b"DURABLE bytes!!!!!!!!!!",
    }


def test_write_is_torn_between_sectors_never_inside_one() -> None:
    torn = 0
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        file = files.open("/d/f", create=True)
        file.allocate(4 * SECTOR_BYTES)
        file.datasync()
        files.sync_dir("/d")
        file.pwritev([b"x" * (3 * SECTOR_BYTES)], 100)
        content = files.crash().content("/d/f")
        places = [content[max(100, at) : min(at + SECTOR_BYTES, 3 * SECTOR_BYTES + 100)] for at in range(0, 2048, 512)]
        assert all(set(place) in ({ord("x")}, {0}) for place in places)
        torn += len({place[:1] for place in places}) == 2
    assert 0 < torn < len(SEEDS)


def test_cut_write_leaves_only_its_first_sectors() -> None:
    seen = set()
    for seed in range(20):
        files = SimulatedFiles(seed)
        file = files.open("a", create=True)
        files.sync_dir("")
        file.pwritev([b"s" * 100], 0)  # shorter than a sector: not the one
        file.datasync()
        files.tear_next = 1
        with pytest.raises(PowerLoss):
            file.pwritev([b"t" * 2_000], 100)
        left = files.crash().content("a")
        assert left == b"s" * 100 + b"t" * (len(left) - 100)
        assert len(left) % SECTOR_BYTES == 0
        seen.add(len(left))
    assert seen == {512, 1024, 1536, 2048}


def test_write_that_full_disk_cut_to_nothing_can_be_forgotten() -> None:
    for seed in SEEDS:
        files = SimulatedFiles(seed, flips=True)
        file = files.open("a", create=True)
        file.pwritev([b"x" * 100], 0)
        files.full_after = 0
        with pytest.raises(StorageFull):
            file.pwritev([b"y" * 100], 100)
        files.crash()


def test_names_are_durable_only_after_their_directory_was_synced() -> None:
    found = set()
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        files.open("/d/old", create=True).datasync()
        files.sync_dir("/d")
        files.rename("/d/old", "/d/new")
        files.open("/d/made", create=True)
        found.add(tuple(files.crash().list("/d")))
        files = SimulatedFiles(seed)
        files.open("/d/old", create=True)
        files.rename("/d/old", "/d/new")
        files.sync_dir("/d")
        assert files.crash().list("/d") == ["new"]
    assert found == {("old",), ("new",), ("made", "old"), ("made", "new")}


def test_crash_at_call_ends_every_later_one() -> None:
    files = SimulatedFiles(crash_at=3)
    file = files.open("/d/f", create=True)
    file.pwritev([b"a"], 0)
    with pytest.raises(PowerLoss, match="call 3"):
        file.datasync()
    for call in (
        file.size,
        file.datasync,
        lambda: files.list("/d"),
        lambda: files.open("/d/f"),
        lambda: file.pread(1, 0),
    ):
        with pytest.raises(PowerLoss):
            call()
    assert files.crash().calls == 0


def test_failed_sync_is_not_made_good_by_next_one() -> None:
    contents = set()
    for seed in SEEDS:
        files = SimulatedFiles(seed, fail_sync_at=1)
        file = files.open("/d/f", create=True)
        files.sync_dir("/d")
        file.pwritev([b"lost"], 0)
        with pytest.raises(StorageFailed):
            file.datasync()
        assert file.pread(4, 0) == b"lost"  # the page cache still shows it
        file.datasync()
        contents.add(files.crash().content("/d/f"))
    assert contents == {b"", b"lost"}


@pytest.mark.parametrize("times", [1, 3, PERMANENTLY])
def test_syncs_fail_as_often_as_asked_from_any_moment_on(times: int) -> None:
    files = SimulatedFiles()
    file = files.open("/d/f", create=True)
    file.datasync()
    files.sync_dir("/d")
    files.fail_syncs = times
    for number in range(5):
        if number < times:
            with pytest.raises(StorageFailed):
                file.datasync()
        else:
            file.datasync()
    files.fail_syncs = 1
    with pytest.raises(StorageFailed):
        files.sync_dir("/d")
    files.sync_dir("/d")
    assert files.counts == {"syncs failed": min(times, 5), "directory syncs failed": 1}


def test_name_whose_directory_could_not_be_synced_is_not_durable() -> None:
    found = set()
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        files.open("/d/f", create=True).datasync()
        files.fail_syncs = 1
        with pytest.raises(StorageFailed):
            files.sync_dir("/d")
        found.add(tuple(files.crash().list("/d")))
    assert found == {(), ("f",)}


def test_directory_is_durable_once_it_or_entry_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        files.mkdir("/d/synced")
        files.sync_dir("/d")
        files.mkdir("/d/used/below")
        files.open("/d/used/below/f", create=True).datasync()
        files.sync_dir("/d/used/below")
        files.mkdir("/d/made/below")
        files.open("/d/made/below/f", create=True)
        after = files.crash()
        assert after.exists("/d/synced")
        assert after.list("/d/used/below") == ["f"]
        below, name = after.exists("/d/made/below"), after.exists("/d/made/below/f")
        assert below or not name
        assert after.exists("/d/made") or not below
        found.add((after.exists("/d/made"), below, name))
    assert found == {(False, False, False), (True, False, False), (True, True, False), (True, True, True)}


def test_disk_that_was_full_takes_everything_once_there_is_room() -> None:
    files = SimulatedFiles(full_after=4)
    file = files.open("/d/f", create=True)
    with pytest.raises(StorageFull):
        file.pwritev([b"abcdef"], 0)
    with pytest.raises(StorageFull):
        file.allocate(100)
    files.full_after = None
    file.pwritev([b"abcdef"], 0)
    file.datasync()
    files.sync_dir("/d")
    assert files.crash().content("/d/f") == b"abcdef"
    assert (
        files.counts["writes cut short for want of room"] == files.counts["allocations refused for want of room"] == 1
    )


def test_slow_disk_costs_more_and_is_asked_once() -> None:
    files = SimulatedFiles()
    file = files.open("/d/f", create=True)
    files.cost_s()
    file.datasync()
    assert files.cost_s() == SYNC_S
    assert files.cost_s() == 0
    files.slow = 50
    file.datasync()
    assert files.cost_s() == 50 * SYNC_S


def test_what_crash_did_is_counted_over_all_lives() -> None:
    files = SimulatedFiles(3, flips=True)
    for number in range(40):
        file = files.open(f"/d/{number}", create=True)
        files.sync_dir("/d")
        files.open(f"/d/never synced {number}", create=True)
        files.mkdir("/d/sub/below")
        file.pwritev([b"x" * 5000], 0)
        file.allocate(9000)
        files = files.crash()
    assert set(files.counts) == {
        "bits flipped",
        "crashes",
        "directories forgotten",
        "lengths forgotten",
        "names forgotten",
        "writes forgotten",
        "writes torn",
    }
    assert files.counts["crashes"] == 40


def test_full_disk_takes_part_of_write() -> None:
    files = SimulatedFiles(full_after=10)
    file = files.open("/d/f", create=True)
    file.pwritev([b"123456"], 0)
    assert files.free("/d") == 4
    with pytest.raises(StorageFull):
        file.pwritev([b"abcdef"], 6)
    assert file.pread(100, 0) == b"123456abcd"
    with pytest.raises(StorageFull):
        file.allocate(11)
    file.pwritev([b"over"], 0)
    assert file.pread(100, 0) == b"over56abcd"


def test_flipped_bits_are_only_in_what_was_not_synced() -> None:
    flipped = 0
    for seed in SEEDS:
        files = SimulatedFiles(seed, flips=True)
        file = files.open("/d/f", create=True)
        file.pwritev([b"a" * 5000], 0)
        file.datasync()
        files.sync_dir("/d")
        file.pwritev([b"b" * 5000], 5000)
        content = files.crash().content("/d/f")
        assert content[:5000] == b"a" * 5000
        flipped += bool(set(content[5000:]) - set(b"b\0"))
    assert flipped


def test_same_seed_forgets_same() -> None:
    def crashed(seed: int) -> bytes:
        files = SimulatedFiles(seed)
        file = files.open("/d/f", create=True)
        files.sync_dir("/d")
        for at in range(20):
            file.pwritev([bytes([at]) * 700], at * 700)
        return files.crash().content("/d/f")

    assert [crashed(seed) for seed in SEEDS] == [crashed(seed) for seed in SEEDS]
    assert len({crashed(seed) for seed in SEEDS}) > 10


def test_rest_of_contract() -> None:
    files = SimulatedFiles()
    files.mkdir("/d/sub")
    assert files.list("/nowhere") == []
    assert files.exists("/d/sub")
    for call in (
        lambda: files.open("/d/f"),
        lambda: files.remove("/d/f"),
        lambda: files.rename("/d/f", "/d/g"),
    ):
        with pytest.raises(NotFound):
            call()
    lock = files.lock("/d/lock", "node 1")
    with pytest.raises(Conflict, match="node 1"):
        files.lock("/d/lock", "node 2")
    lock.release()
    files.lock("/d/lock", "node 2")
    file = files.open("/d/f", create=True)
    file.pwritev([b"abc"], 2)
    file.truncate(4)
    assert (file.size(), file.pread(10, 0)) == (4, b"\0\0ab")
    files.remove("/d/f")
    assert files.list("/d") == []
