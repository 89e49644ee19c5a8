"""The contract of a metadata store, on every engine: read beside `magnetar/metadata/store.py`."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import (
    BadVersion,
    Closed,
    InvalidName,
    InvalidRange,
    LimitExceeded,
    Misuse,
    NotEmpty,
    NotFound,
)
from magnetar.base.limits import METADATA_VALUE_BYTES_MAX
from magnetar.metadata.store import ABSENT, Change, Event, NamePage, Node
from tests.contract.stores import Engine, Expiring, On, listen, told


async def scanned(store: Expiring, path: str, after: str | None = None, limit: int | None = None) -> list[str]:
    return [name async for name, _ in store.scan(path, after=after, limit=limit)]


def test_what_was_put_is_read_with_its_stat(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        assert await store.get("/a/b") is None
        made = await store.put("/a/b", b"one")
        assert made.path == "/a/b"
        assert made.first_version
        assert not made.ephemeral
        assert await store.get("/a/b") == Node(b"one", made)
        assert await store.exists("/a/b")
        changed = await store.put("/a/b", b"two")
        assert changed.version != made.version
        assert not changed.first_version
        assert changed.ctime_ms == made.ctime_ms
        assert await store.get("/a/b") == Node(b"two", changed)

    on(body)


def test_empty_value_is_value(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/a", b"")
        node = await store.get("/a")
        assert node is not None
        assert node.value == b""

    on(body)


def test_put_that_expects_another_version_changes_nothing(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        first = await store.put("/a", b"1", expected=ABSENT)
        with pytest.raises(BadVersion):
            await store.put("/a", b"x", expected=ABSENT)
        second = await store.put("/a", b"2", expected=first.version)
        with pytest.raises(BadVersion):
            await store.put("/a", b"x", expected=first.version)
        with pytest.raises(BadVersion):
            await store.put("/absent", b"x", expected=first.version)
        assert await store.get("/a") == Node(b"2", second)
        assert await store.get("/absent") is None

    on(body)


def test_record_made_again_never_has_old_version(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        seen = set()
        for _ in range(3):
            stat = await store.put("/a", b"x", expected=ABSENT)
            assert stat.version not in seen
            seen.add(stat.version)
            await store.delete("/a", expected=stat.version)

    on(body)


def test_version_of_earlier_incarnation_is_refused_h_c6(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/a", b"first")
        old = await store.put("/a", b"second")
        await store.delete("/a")
        await store.put("/a", b"third")
        new = await store.put("/a", b"fourth")  # as many writes as in the first life
        with pytest.raises(BadVersion):
            await store.put("/a", b"x", expected=old.version)
        with pytest.raises(BadVersion):
            await store.delete("/a", expected=old.version)
        assert await store.get("/a") == Node(b"fourth", new)

    on(body)


def test_exactly_one_of_many_writers_of_version_wins(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        stat = await store.put("/a", b"0")
        raced = await asyncio.gather(
            *(store.put("/a", b"%d" % n, expected=stat.version) for n in range(20)),
            *(store.put(f"/other/{n}", b"") for n in range(20)),
            return_exceptions=True,
        )
        losers = [one for one in raced[:20] if isinstance(one, BadVersion)]
        assert len(losers) == 19
        assert not [one for one in raced[20:] if isinstance(one, BaseException)]
        assert len(await store.children("/other")) == 20

    on(body)


def test_concurrent_puts_are_all_there(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await asyncio.gather(*(store.put(f"/many/{n:04d}", b"%d" % n) for n in range(2500)))
        assert await store.children("/many") == [f"{n:04d}" for n in range(2500)]
        assert await scanned(store, "/many") == [f"{n:04d}" for n in range(2500)]

    on(body)


def test_delete_refuses_what_is_missing_changed_or_not_empty(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        with pytest.raises(NotFound):
            await store.delete("/a")
        stat = await store.put("/a", b"")
        await store.put("/a/b", b"")
        with pytest.raises(NotEmpty):
            await store.delete("/a", expected=stat.version)
        await store.delete("/a/b")
        with pytest.raises(BadVersion):
            await store.delete("/a", expected=stat.version + 100)
        await store.delete("/a", expected=stat.version)
        assert not await store.exists("/a")

    on(body)


def test_children_are_sorted_and_direct(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        for path in ("/p/b", "/p/a/x/y", "/p/\u00e9", "/p/Z", "/q/a", "/p2"):
            await store.put(path, b"")
        assert await store.children("/p") == ["Z", "a", "b", "\u00e9"]
        assert await store.children("/") == ["p", "p2", "q"]
        assert await store.children("/p/b") == []
        assert await store.children("/nothing") == []

    on(body)


def test_parent_without_value_is_no_record(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/a/b/c", b"")
        await store.put("/a/b/d", b"")
        assert await store.children("/a") == ["b"]
        assert await store.get("/a/b") is None
        assert await scanned(store, "/a") == []
        await store.delete("/a/b/c")
        await store.delete("/a/b/d")  # the parents may stay
        assert await store.get("/a/b") is None
        assert not await store.exists("/a")
        assert await store.children("/a/b") == []
        stat = await store.put("/a/b", b"", expected=ABSENT)
        assert await store.get("/a/b") == Node(b"", stat)
        with pytest.raises(BadVersion):
            await store.put("/a/b", b"", expected=ABSENT)

    on(body)


def test_names_come_in_pages_those_without_value_too(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await asyncio.gather(*(store.put(f"/p/{n:04d}", b"%d" % n) for n in range(1200)))
        await store.put("/p/0010a/below", b"")
        wanted = sorted(["0010a", *(f"{n:04d}" for n in range(1200))])
        for limit in (None, 1000, 1200, 1201, 700):
            found: list[str] = []
            page = await store.names("/p", limit=limit)
            while True:
                assert limit is None or len(page.names) <= limit
                found += page.names
                if not page.more:
                    break
                page = await store.names("/p", after=found[-1], limit=limit)
            assert found == wanted, limit
        assert (await store.names("/p", after="0003", limit=2)).names == ["0004", "0005"]
        assert await store.names("/p", after="1199") == NamePage([], False)
        assert await store.names("/nothing") == NamePage([], False)
        assert (await store.names("/")).names == ["p"]
        with pytest.raises(InvalidRange):
            await store.names("/p", limit=0)

    on(body)


def test_fresh_read_sees_every_write_that_was_answered(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        assert await store.fresh("/a") is None
        for n in range(20):
            stat = await store.put("/a", b"%d" % n)
            assert await store.fresh("/a") == Node(b"%d" % n, stat)

    on(body)


def test_scan_gives_values_in_order_and_can_be_continued(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await asyncio.gather(*(store.put(f"/p/{n:03d}", b"%d" % n) for n in range(250)))
        await store.put("/p/010a/below", b"")  # 010a holds no value
        first = await scanned(store, "/p", limit=120)
        assert first == [f"{n:03d}" for n in range(120)]
        rest = await scanned(store, "/p", after=first[-1])
        assert rest == [f"{n:03d}" for n in range(120, 250)]
        assert await scanned(store, "/p", after="249") == []
        assert await scanned(store, "/p", limit=0) == []
        async for name, node in store.scan("/p", after="041", limit=1):
            assert (name, node.value, node.stat.path) == ("042", b"42", "/p/042")

    on(body)


def test_scan_reads_on_past_records_that_change_meanwhile(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await asyncio.gather(*(store.put(f"/p/{n:04d}", b"") for n in range(1500)))
        seen = []
        async for name, _ in store.scan("/p"):
            seen.append(name)
            if name == "0000":
                await store.delete("/p/1400")
                await store.put("/p/1400a", b"")
        stable = [f"{n:04d}" for n in range(1500) if n != 1400]
        assert [name for name in seen if name not in ("1400", "1400a")] == stable

    on(body)


def test_sequential_names_increase_while_their_parent_exists(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/ids", b"")
        made = [(await store.put("/ids/ID-", b"", sequential=True)).path for _ in range(12)]
        assert made == sorted(set(made))
        assert all(path.startswith("/ids/ID-") for path in made)
        for path in made:
            await store.delete(path)
        again = (await store.put("/ids/ID-", b"", sequential=True)).path
        assert again > made[-1]
        with pytest.raises(Misuse):
            await store.put("/ids/ID-", b"", sequential=True, expected=3)

    on(body)


def test_delete_tree_takes_everything_below_and_nothing_beside(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await asyncio.gather(*(store.put(f"/a/t/{n:04d}/x/y", b"") for n in range(1200)))
        for path in ("/a/t", "/a/t0", "/a/t-", "/a/s"):
            await store.put(path, b"")
        await store.delete_tree("/a/t")
        assert await store.children("/a") == ["s", "t-", "t0"]
        await store.delete_tree("/a/t")
        await store.delete_tree("/a")
        assert await store.children("/") == []

    on(body)


MALFORMED = ["", "a", "/a/", "/", "//", "/a//b", "a/b"]
RELATIVE = ["/.", "/..", "/a/./b", "/a/.."]
UNPRINTABLE = ["/a\0", "/\ud800", "/a\x1f", "/\x7f", "/a\x85", "/\ue000", "/\ufff0", "/\U0001f600"]


@pytest.mark.parametrize("path", [*MALFORMED, *RELATIVE, *UNPRINTABLE])
def test_path_of_wrong_form_is_refused(on: On, path: str) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        for attempt in (store.get(path), store.fresh(path), store.put(path, b""), store.delete(path)):
            with pytest.raises(InvalidName):
                await attempt
        assert await store.children("/") == []

    on(body)


@pytest.mark.parametrize("path", ["/...", "/a.", "/.a", "/a/..b/c.", "/$0", "/a b", "/%2F", "/\u20ac"])
def test_path_with_unusual_characters_is_path(on: On, path: str) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        stat = await store.put(path, b"v")
        assert await store.get(path) == Node(b"v", stat)

    on(body)


def test_record_too_large_is_refused(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        with pytest.raises(LimitExceeded):
            await store.put("/a", b"x" * METADATA_VALUE_BYTES_MAX)
        await store.put("/a", b"x" * (METADATA_VALUE_BYTES_MAX - 10))

    on(body)


def test_events_tell_each_change_in_order_and_only_below_prefix(exactly_on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/p/old", b"")
        heard = listen(store, "/p/a")
        await store.put("/p/a", b"1")
        await store.put("/p/a", b"2")
        await store.put("/p/a/below", b"")
        await store.put("/p/ab", b"")
        await store.put("/q", b"")
        await store.delete("/p/a/below")
        await store.delete("/p/a")
        own = [event.change for event in heard if event.path == "/p/a" and event.change is not Change.CHILDREN_CHANGED]
        assert own == [Change.CREATED, Change.MODIFIED, Change.DELETED]
        below = [event.change for event in heard if event.path == "/p/a/below"]
        assert below == [Change.CREATED, Change.DELETED]
        assert heard.count(Event(Change.CHILDREN_CHANGED, "/p/a")) == 2
        assert {event.path for event in heard} == {"/p/a", "/p/a/below"}

    exactly_on(body)


def test_new_or_gone_child_changes_children_of_its_parent(exactly_on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        heard = listen(store, "/p")
        await store.put("/p/a/b", b"")
        assert Event(Change.CHILDREN_CHANGED, "/p") in heard
        assert Event(Change.CHILDREN_CHANGED, "/p/a") in heard
        heard.clear()
        await store.put("/p/a/b", b"again")
        assert heard == [Event(Change.MODIFIED, "/p/a/b")]
        heard.clear()
        await store.delete_tree("/p")
        assert Event(Change.DELETED, "/p/a/b") in heard

    exactly_on(body)


def test_last_change_of_every_path_is_notified_in_order(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        heard: list[Event] = []
        reads: list[asyncio.Task[Node | None]] = []
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            heard.append(event)
            reads.append(loop.create_task(store.get("/p/a")))

        store.subscribe("/p/a", hear)
        first = await store.put("/p/a", b"1")
        for _ in range(20):
            last = await store.put("/p/a", b"2")
        await told()
        node = await reads[-1]
        assert node is not None
        assert node.stat == last  # who hears the last event and re-reads sees the last change
        versions = [node.stat.version for node in await asyncio.gather(*reads) if node is not None]
        assert versions == sorted(versions)
        assert versions[0] >= first.version
        await store.delete("/p/a")
        await told()
        own = [event.change for event in heard if event.path == "/p/a"]
        assert own == [Change.CREATED] * own.count(Change.CREATED) + [Change.MODIFIED] * (
            len(own) - own.count(Change.CREATED) - 1
        ) + [Change.DELETED]
        assert await reads[-1] is None

    on(body)


def test_event_arrives_before_write_returns(exactly_on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        read: list[asyncio.Task[Node | None]] = []
        loop = asyncio.get_running_loop()
        store.subscribe("/a", lambda event: read.append(loop.create_task(store.get("/a"))))
        await store.put("/a", b"1")
        assert len(read) == 1
        node = await read[0]
        assert node is not None
        assert node.value == b"1"

    exactly_on(body)


def test_refused_operation_tells_nobody(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.put("/a/b", b"")
        await told()
        heard = listen(store, "/")
        with pytest.raises(BadVersion):
            await store.put("/a/b", b"", expected=ABSENT)
        with pytest.raises(NotEmpty):
            await store.delete("/a")
        await told()
        assert heard == []

    on(body)


def test_unsubscribed_or_failing_listener_keeps_nobody_from_hearing(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))

        def broken(event: Event) -> None:
            raise ZeroDivisionError

        store.subscribe("/a", broken)
        gone: list[Event] = []
        unsubscribe = store.subscribe("/a", gone.append)
        heard = listen(store, "/a")
        unsubscribe()
        unsubscribe()
        await store.put("/a", b"")
        await told()
        assert heard == [Event(Change.CREATED, "/a")]
        assert gone == []
        assert [type(problem) for problem in problems] == [ZeroDivisionError]

    on(body)


def test_closed_store_answers_closed_and_closes_twice(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        await store.close()
        await store.close()
        with pytest.raises(Closed):
            await store.get("/a")

    on(body)


def test_cancelled_caller_does_not_disturb_others(on: On) -> None:
    async def body(engine: Engine, store: Expiring) -> None:
        tasks = [asyncio.get_running_loop().create_task(store.put(f"/p/{n}", b"")) for n in range(10)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, BaseException) for one in done) == 1
        assert len(await store.children("/p")) >= 9

    on(body)
